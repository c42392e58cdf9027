#include "launcher/run/ranks/rank_probe.h"

#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <utility>

#include "launcher/run/process/process_sample.h"
#include "launcher/run/process/process_tree.h"

namespace ddp::launcher {
namespace {

// Returns CLOCK_MONOTONIC in nanoseconds, as on the pages.
std::uint64_t now() {
  return static_cast<std::uint64_t>(
      std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now().time_since_epoch())
          .count());
}

// The program is the process that writes the page. It may be a shell's child.
void sample_processes(RankView& view, SampleDepth depth) {
  const pid_t program = view.page.is_written ? view.page.writer : program_of(view.pid);
  view.process = sample_process(program, depth == SampleDepth::all);
  if (depth != SampleDepth::all || !view.process || view.page.blocked_threads == 0) return;
  view.process->threads = count_free_threads(program, view.page.blocked_thread, wire::kPageStacks);
}

}  // namespace

RankView RankProbe::view_of(const Worker& worker, SampleDepth depth, std::uint64_t seen_at) {
  RankView view;
  view.rank = worker.rank;
  view.pid = worker.pid;
  view.seen_at = seen_at;
  view.page = worker.page.view(seen_at);
  for (const GroupView& group : view.page.groups) view.arrivals.push_back(worker.page.arrivals(group.place));
  if (depth != SampleDepth::calls && depth != SampleDepth::all) return view;
  for (const GroupView& group : view.page.groups) view.calls.push_back(worker.page.calls(group.place));
  return view;
}

const RankProbe::Worker* RankProbe::find(int local_rank) const {
  const auto entry = workers_.find(local_rank);
  return entry == workers_.end() || entry->second.pid == 0 ? nullptr : &entry->second;
}

WorkerDescriptors RankProbe::open(int local_rank, const WorkerSpec& spec) {
  Worker& worker = workers_[local_rank];
  worker = {spec.rank, 0, false, {spec.rank, local_rank, spec.attempt}, {spec.recording, now()}};
  return {.page = worker.page.descriptor(), .ring = worker.ring.descriptor()};
}

WorkerDescriptors RankProbe::descriptors(int local_rank) const {
  const Worker* const worker = find(local_rank);
  if (worker == nullptr) return {};
  return {.page = worker->page.descriptor(), .ring = worker->ring.descriptor()};
}

bool RankProbe::sample(int local_rank, SampleDepth depth, RankView& view) {
  const Worker* const found = find(local_rank);
  if (found == nullptr) return false;
  const Worker& worker = *found;
  const std::uint64_t seen_at = now();
  const std::uint64_t version = worker.page.version(seen_at);
  const bool is_same = view.pid == worker.pid && view.has_ended == worker.has_ended && view.version == version;
  if (is_same && depth == SampleDepth::pages) {
    view.seen_at = seen_at;
    view.page.polled_at = worker.page.polled_at();
    view.process.reset();
    view.activity.reset();
    view.calls.clear();
    return false;
  }
  view = view_of(worker, depth, seen_at);
  view.has_ended = worker.has_ended;
  view.version = version;
  if (!worker.has_ended && (depth == SampleDepth::states || depth == SampleDepth::all)) sample_processes(view, depth);
  return true;
}

RankRecords RankProbe::take_records(int local_rank) {
  const auto entry = workers_.find(local_rank);
  if (entry == workers_.end()) return {};
  Worker& worker = entry->second;
  RankRecords records = worker.ring.take(worker.page.layout(), now(), worker.has_ended);
  records.rank = worker.rank;
  return records;
}

void RankProbe::discard_records(int local_rank) {
  const auto entry = workers_.find(local_rank);
  if (entry != workers_.end()) entry->second.ring.discard();
}

std::vector<ProgressValue> RankProbe::progress_values(int local_rank) const {
  const Worker* const worker = find(local_rank);
  return worker == nullptr ? std::vector<ProgressValue>() : worker->ring.values();
}

StackRequest RankProbe::ask_for_stacks(int local_rank, StackMeans means) {
  const Worker* const worker = find(local_rank);
  if (worker == nullptr || worker->has_ended) return {"it has exited", 0, {}, 0};
  StackRequest request{"", program_of(worker->pid), {}, 0};
  if (means != StackMeans::any) {
    request.obstacle = "a signal may disturb the program";
    return request;
  }
  const PageView page = worker->page.view(now());
  const int signal = worker->page.stack_signal();
  if (signal == 0) {
    request.obstacle = page.is_written ? "it does not answer the signal for stacks" : "it does not use the runtime";
    return request;
  }
  // The page is untrusted, so its data is checked before a signal is sent.
  const std::vector<pid_t> tree = descendants(worker->pid, {});
  const bool is_ours = page.writer == worker->pid || std::ranges::find(tree, page.writer) != tree.end();
  if (!is_ours || signal < SIGRTMIN || signal > SIGRTMAX || !catches_signal(page.writer, signal)) {
    request.obstacle = "its handler for stacks is no longer installed";
    return request;
  }
  request.pid = page.writer;
  worker->page.request_stacks();
  for (const ThreadSample& thread : sample_threads(request.pid, wire::kPageStacks)) {
    // A handler that runs blocks its own signal, so this is read before the signal is sent. A thread that waits for a
    // disk ('D') answers soon, as a rule.
    const bool answers = thread.state != 'T' && thread.state != 't' && !blocks_signal(thread.tid, signal);
    if (::syscall(SYS_tgkill, request.pid, thread.tid, signal) != 0) continue;
    request.threads.push_back(thread.tid);
    request.answers += answers ? 1 : 0;
  }
  return request;
}

std::vector<RawStack> RankProbe::stacks(int local_rank) {
  const Worker* const worker = find(local_rank);
  return worker == nullptr || worker->has_ended ? std::vector<RawStack>() : worker->page.stacks();
}

std::vector<std::pair<int, pid_t>> RankProbe::running() const {
  std::vector<std::pair<int, pid_t>> workers;
  for (const auto& [local_rank, worker] : workers_) {
    if (worker.pid > 0 && !worker.has_ended) workers.emplace_back(worker.rank, worker.pid);
  }
  return workers;
}

void RankProbe::mark_peer_lost(int rank) const {
  for (const auto& [local_rank, worker] : workers_) {
    if (!worker.has_ended) worker.page.mark_peer_lost(rank);
  }
}

void RankProbe::request_stop() const {
  for (const auto& [local_rank, worker] : workers_) {
    if (!worker.has_ended) worker.page.request_stop();
  }
}

}  // namespace ddp::launcher
