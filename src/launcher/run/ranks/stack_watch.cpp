#include "launcher/run/ranks/stack_watch.h"

#include <unistd.h>

#include <algorithm>
#include <string>
#include <utility>

#include "launcher/limits.h"
#include "launcher/run/process/process_sample.h"

namespace ddp::launcher {

namespace {

// To take the stack of a thread that runs is a short sleep for it. So it may have slept this often between two looks.
constexpr std::uint64_t kHolds = 2;
// Stacks that show nothing are taken this often in one rest.
constexpr int kMostStacks = 3;

bool exists(const std::string& path) {
  return ::access(path.c_str(), F_OK) == 0;
}

}  // namespace

bool StackWatch::Program::has_rested(Clock::time_point now) const {
  return rests_since && now - *rests_since >= limits::kStackRest;
}

// The thread of a program that computes may be found at the same place several times. So a thread that spins is looked
// at again and again.
bool StackWatch::Program::is_due(Clock::time_point now) const {
  if (!has_rested(now)) return false;
  const bool is_again = spins || stacks_taken > 0;
  return !is_inspected && (!is_again || now - inspected_at >= limits::kStackRest);
}

void StackWatch::Program::add(const RankStacks& native, Clock::time_point now) {
  inspected_at = now;
  awaited = awaited_operation(native);
  // On a busy computer, a tool may not answer in time, or may show only a part of the stack.
  ++stacks_taken;
  is_inspected = !spins && (awaited.wait != GroupWait::unknown || stacks_taken >= kMostStacks);
  if (!spins || awaited.wait != GroupWait::operation) return;
  std::vector<std::string> now_in = frames_of_wait(native);
  const bool is_same = now_in == frames;
  frames = std::move(now_in);
  if (is_same) return;
  awaited = {};
  rests_since = now;
}

void StackWatch::watches(int local_rank, const std::string& file) {
  if (!file.empty()) programs_[local_rank] = {.file = file, .awaited = {}, .call = {}};
}

void StackWatch::poll(Clock::time_point now) {
  if (now < next_) return;
  next_ = now + limits::kTorchPoll;
  std::vector<StackTarget> targets;
  for (auto& [local_rank, program] : programs_) {
    if (!program.has_group) {
      // The hook in the worker's Python creates one of these files.
      program.records_nothing = exists(program.file + ".unrecorded");
      program.has_group = program.records_nothing || exists(program.file + ".groups");
    }
    if (program.has_group) follow(local_rank, program, now);
    if (program.is_due(now) && static_cast<int>(targets.size()) < limits::kStackTools) {
      targets.push_back({first_rank_ + local_rank, local_rank, program.spins});
    }
  }
  if (!targets.empty() && !taker_.is_taking() && now >= not_before_) take(targets, now);
}

void StackWatch::follow(int local_rank, Program& program, Clock::time_point now) {
  const StackRequest request = probe_.ask_for_stacks(local_rank, StackMeans::gentle);
  const auto sample = request.pid > 0 ? sample_process(request.pid, true) : std::nullopt;
  if (sample && sample->state == 't') return;  // held by the tool that takes its stack
  const std::uint64_t waits = sample ? sample->waits : 0;
  const bool sleeps = sample && sample->state == 'S' && waits == program.waits;
  const bool spins = sample && sample->state == 'R' && program.records_nothing && waits >= program.waits &&
                     waits - program.waits <= kHolds;
  const bool changes = program.rests_since && program.spins != spins;
  if ((!sleeps && !spins) || changes) return program.runs(waits);
  program.spins = spins;
  program.waits = waits;
  if (!program.rests_since) program.rests_since = now;
}

void StackWatch::take(const std::vector<StackTarget>& targets, Clock::time_point now) {
  taker_.take(targets, StackMeans::gentle_native, [this, targets, now](const std::vector<RankStacks>& stacks) {
    for (std::size_t i = 0; i < targets.size() && i < stacks.size(); ++i) {
      Program& program = programs_.at(targets[i].local_rank);
      // A thread that has run in the meantime is examined in its next rest.
      follow(targets[i].local_rank, program, Clock::now());
      if (program.has_rested(now)) program.add(stacks[i], Clock::now());
    }
    take_lines(now);
  });
}

// Finds the script lines of the ranks that wait. Only py-spy knows them.
void StackWatch::take_lines(Clock::time_point began) {
  std::vector<StackTarget> targets;
  for (const auto& [local_rank, program] : programs_) {
    const bool lacks_line = program.waits_unrecorded() && program.call.place.empty();
    if (lacks_line && static_cast<int>(targets.size()) < limits::kStackTools) {
      targets.push_back({first_rank_ + local_rank, local_rank});
    }
  }
  if (targets.empty() || !find_tool("py-spy")) return took(began);
  taker_.take(targets, StackMeans::gentle, [this, targets, began](const std::vector<RankStacks>& stacks) {
    for (std::size_t i = 0; i < targets.size() && i < stacks.size(); ++i) {
      Program& program = programs_.at(targets[i].local_rank);
      if (program.waits_unrecorded() && stacks[i].source == StackSource::py_spy) program.call = python_call(stacks[i]);
    }
    took(began);
  });
}

// Returns whether the program rests, its stack is unknown, and other ranks wait. It may wait for the same operation, so
// it must not be blamed.
bool StackWatch::may_wait_beside_others(const Program& program) const {
  return program.has_rested(Clock::now()) && program.awaited.wait == GroupWait::unknown &&
         std::ranges::any_of(programs_, [](const auto& entry) { return entry.second.waits_unrecorded(); });
}

void StackWatch::took(Clock::time_point began) {
  const Clock::time_point now = Clock::now();
  not_before_ = now + std::min<Clock::duration>(kRestOfTime * (now - began), kLongestPause);
}

bool StackWatch::add_to(int local_rank, SampleDepth depth, RankView& view) {
  const std::optional<GroupView> before = take_wait_by_stack(view);
  const auto found = programs_.find(local_rank);
  view.is_torch = found != programs_.end() && found->second.has_group;
  view.is_elsewhere = view.is_unread = false;
  if (!view.is_torch || view.has_ended) return before.has_value();
  Program& program = found->second;
  view.is_elsewhere = program.is_elsewhere();
  view.is_unread = program.rests_since && !program.is_inspected;
  program.has_recording = std::ranges::any_of(view.page.groups, [](const GroupView& one) { return one.called > 0; });
  if (!program.waits_unrecorded() && !may_wait_beside_others(program)) return before.has_value();
  CallView call;
  if (depth == SampleDepth::calls || depth == SampleDepth::all) {
    call.what = program.awaited.operation.empty() ? program.call.function : program.awaited.operation;
    call.called_at = static_cast<std::uint64_t>(program.rests_since->time_since_epoch().count());
    call.place = program.call.place;
  }
  add_wait_by_stack(view, size_, call);
  return !before;
}

}  // namespace ddp::launcher
