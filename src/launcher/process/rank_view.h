// RankView: all that can be seen of a rank from outside, at one moment.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "launcher/process/activity_meter.h"
#include "launcher/process/process_sample.h"
#include "launcher/process/worker_page.h"

namespace ddp::launcher {

// How much is looked at: the pages, which costs next to nothing; their calls, too; the pages, and what state each
// process is in, a file a rank; or everything, a file for each thread and its children.
enum class SampleDepth : std::uint8_t { pages, calls, states, all };

// Of a rank that has ended the page stays.
struct RankView {
  std::string node;  // where it runs; empty: here
  int rank = 0;
  pid_t pid = 0;
  bool has_ended = false;
  bool is_torch = false;      // a PyTorch program that has made a process group
  std::uint64_t version = 0;  // of the page; 0: it has not been looked at
  std::uint64_t seen_at = 0;  // CLOCK_MONOTONIC, nanoseconds
  PageView page;
  std::optional<ProcessSample> process;        // nothing if it is gone, or only pages are looked at
  std::optional<RankActivity> activity;        // nothing: it has not been measured
  std::vector<std::vector<Arrival>> arrivals;  // by group of the page
  std::vector<std::vector<CallView>> calls;    // by group of the page; `calls` and `all`
};

// How stacks may be taken. `gentle`: only by means that the program does not notice, because it may continue.
// `gentle_native`: the same, but native functions also of Python programs, and only of threads that sleep. `any`: also
// by signals and tools that stop the program, which end some of its waits early (EINTR).
enum class StackMeans : std::uint8_t { gentle, gentle_native, any };

// A worker's program was asked for its stacks.
struct StackRequest {
  std::string obstacle;  // why it cannot be; empty: it was
  pid_t pid = 0;         // the program
  std::vector<pid_t> threads;
  std::size_t answers = 0;  // that can be expected: some threads are stopped, in the kernel, or block the signal
};

}  // namespace ddp::launcher
