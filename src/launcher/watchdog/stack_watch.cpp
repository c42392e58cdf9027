#include "launcher/watchdog/stack_watch.h"

#include <unistd.h>

#include <algorithm>
#include <functional>
#include <string>

#include "launcher/limits.h"
#include "launcher/process/process_sample.h"

namespace ddp::launcher {

namespace {

// The hook in the worker's Python creates one of these files.
bool has_made_a_group(const std::string& file) {
  return ::access((file + ".groups").c_str(), F_OK) == 0 || ::access((file + ".unrecorded").c_str(), F_OK) == 0;
}

}  // namespace

bool StackWatch::Program::has_rested(Clock::time_point now) const {
  return rests_since && now - *rests_since >= limits::kStackRest;
}

void StackWatch::watches(int local_rank, const std::string& file) {
  if (!file.empty()) programs_[local_rank] = {.file = file, .awaited = {}, .call = {}};
}

void StackWatch::look(Clock::time_point now) {
  if (now < next_) return;
  next_ = now + limits::kTorchLook;
  std::vector<StackTarget> targets;
  for (auto& [local_rank, program] : programs_) {
    program.has_group = program.has_group || has_made_a_group(program.file);
    if (program.has_group) follow(local_rank, program, now);
    const bool is_new = program.has_rested(now) && !program.is_looked_at;
    if (is_new && static_cast<int>(targets.size()) < limits::kStackTools) {
      targets.push_back({first_rank_ + local_rank, local_rank});
    }
  }
  if (!targets.empty() && !taker_.is_taking() && now >= not_before_) take(targets, now);
}

void StackWatch::follow(int local_rank, Program& program, Clock::time_point now) {
  const StackRequest request = processes_.ask_for_stacks(local_rank, StackMeans::gentle);
  const auto sample = request.pid > 0 ? sample_process(request.pid, true) : std::nullopt;
  if (!sample || sample->state != 'S' || sample->waits != program.waits)
    return program.runs(sample ? sample->waits : 0);
  if (!program.rests_since) program.rests_since = now;
}

void StackWatch::take(const std::vector<StackTarget>& targets, Clock::time_point now) {
  taker_.take(targets, StackMeans::gentle_native, [this, targets, now](const std::vector<RankStacks>& stacks) {
    for (std::size_t i = 0; i < targets.size() && i < stacks.size(); ++i) {
      Program& program = programs_.at(targets[i].local_rank);
      // A thread that has run in the meantime is examined in its next rest.
      follow(targets[i].local_rank, program, Clock::now());
      if (!program.has_rested(now)) continue;
      // On a busy computer, a tool may not answer in time. Then the stack is taken once more.
      program.is_looked_at = !stacks[i].threads.empty();
      program.awaited = awaited_operation(stacks[i]);
    }
    take_lines(now);
  });
}

// Finds the script lines of the ranks that wait. Only py-spy knows them.
void StackWatch::take_lines(Clock::time_point began) {
  std::vector<StackTarget> targets;
  for (const auto& [local_rank, program] : programs_) {
    const bool lacks_line = program.is_to_be_told() && program.call.place.empty();
    if (lacks_line && static_cast<int>(targets.size()) < limits::kStackTools) {
      targets.push_back({first_rank_ + local_rank, local_rank});
    }
  }
  if (targets.empty() || !find_tool("py-spy")) return took(began);
  taker_.take(targets, StackMeans::gentle, [this, targets, began](const std::vector<RankStacks>& stacks) {
    for (std::size_t i = 0; i < targets.size() && i < stacks.size(); ++i) {
      Program& program = programs_.at(targets[i].local_rank);
      if (program.is_to_be_told() && stacks[i].source == "py-spy") program.call = python_call(stacks[i]);
    }
    took(began);
  });
}

// Returns whether the program rests, its stack is unknown, and other ranks wait. It may wait for the same operation, so
// it must not be blamed.
bool StackWatch::may_wait_beside_others(const Program& program) const {
  return program.has_rested(Clock::now()) && program.awaited.wait == GroupWait::unknown &&
         std::ranges::any_of(programs_, [](const auto& entry) { return entry.second.is_to_be_told(); });
}

bool StackWatch::add_to(int local_rank, SampleDepth depth, RankView& view) {
  std::optional<GroupView> before;
  if (!view.page.groups.empty() && view.page.groups.back().is_by_stack) {
    before = view.page.groups.back();
    view.page.groups.pop_back();
    if (view.calls.size() > view.page.groups.size()) view.calls.pop_back();
  }
  const auto found = programs_.find(local_rank);
  view.is_torch = found != programs_.end() && found->second.has_group;
  if (!view.is_torch || view.has_ended) return before.has_value();
  Program& program = found->second;
  program.has_recording = std::ranges::any_of(view.page.groups, [](const GroupView& one) { return one.called > 0; });
  if (!program.is_to_be_told() && !may_wait_beside_others(program)) return before.has_value();
  GroupView group;
  group.name = "world";
  group.rank = view.rank;
  group.size = size_;
  group.called = group.started = 1;
  group.is_sampled = group.is_by_stack = true;
  view.page.groups.push_back(group);
  const std::string& what = program.awaited.operation.empty() ? program.call.function : program.awaited.operation;
  if (!what.empty() && (depth == SampleDepth::calls || depth == SampleDepth::all)) {
    const auto rested_at = static_cast<std::uint64_t>(program.rests_since->time_since_epoch().count());
    view.calls.resize(view.page.groups.size());
    view.calls.back() = {{1, std::hash<std::string>()(what), rested_at, what, "", program.call.place}};
  }
  return !before;
}

}  // namespace ddp::launcher
