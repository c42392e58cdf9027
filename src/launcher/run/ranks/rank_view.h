// RankView contains all that can be seen of a rank from outside, at one moment.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "launcher/run/process/process_sample.h"
#include "launcher/run/ranks/rank_activity.h"
#include "launcher/run/ranks/worker_page.h"

namespace ddp::launcher {

// Says how deep a sample is. `pages` costs next to nothing. `calls` adds the calls on the pages. `states` contains the
// pages, and the state of each process, which takes one file per rank. `all` contains everything, which takes a file
// for each thread and its children.
enum class SampleDepth : std::uint8_t { pages, calls, states, all };

// Says what the processes of a rank use. This is for the views of a job, and no judgement of hangs uses it.
struct RankUsage {
  std::optional<double> cpus;  // processors in use since the last measurement, such as 1.5
  std::optional<std::uint64_t> rss_bytes;
  std::optional<double> gpu_use;  // share of the last second in which a kernel ran
  std::optional<std::uint64_t> gpu_memory_bytes;
  std::uint64_t output_bytes = 0;  // number of bytes that the rank has printed
  std::uint64_t printed_at = 0;    // CLOCK_MONOTONIC, nanoseconds, when new output was last seen; 0 if never

  friend bool operator==(const RankUsage&, const RankUsage&) = default;
};

// If a rank has ended, its page stays.
struct RankView {
  std::string node;  // the node on which it runs; empty for this node
  int rank = 0;
  pid_t pid = 0;
  bool has_ended = false;
  bool is_torch = false;  // a PyTorch program that has made a process group
  // The first thread of a PyTorch program does something else than to wait for a process group.
  bool is_elsewhere = false;
  bool is_unread = false;     // its first thread rests, and its stack, which shows what for, has not been read yet
  std::uint64_t version = 0;  // version of the page; 0 if it was not sampled
  std::uint64_t seen_at = 0;  // CLOCK_MONOTONIC, nanoseconds
  PageView page;
  std::optional<ProcessSample> process;        // std::nullopt if it is gone, or if only pages were sampled
  std::optional<RankActivity> activity;        // std::nullopt if it was not measured
  std::vector<std::vector<Arrival>> arrivals;  // by group of the page
  std::vector<std::vector<CallView>> calls;    // by group of the page; only for `calls` and `all`
  // This says what its processes use. It is std::nullopt if no view of the job wants it.
  std::optional<RankUsage> usage = std::nullopt;
};

// Says how stacks may be taken. `gentle` allows only means that the program does not notice, because it may continue.
// `gentle_native` allows the same, but shows native functions also of Python programs, and only threads that sleep.
// `any` also allows signals and tools that stop the program, which end some of its waits early (EINTR).
enum class StackMeans : std::uint8_t { gentle, gentle_native, any };

// Describes a request to a worker's program for its stacks.
struct StackRequest {
  std::string obstacle;  // why it could not be asked; empty if it was
  pid_t pid = 0;         // process of the program
  std::vector<pid_t> threads;
  std::size_t answers = 0;  // number that can be expected: some threads are stopped or block the signal
};

}  // namespace ddp::launcher
