// ddp_stack_reader names the functions in stacks that the launcher has copied. It is a separate program, because it
// reads files of the workers, which may contain anything. A file that makes it fail or hang does not harm the job.
//
// It reads StackCaptures from standard input (launcher/run/stacks/stack_capture.h). It writes one line of JSON per
// process to standard output, with its `pid` and its `threads`. Each thread has `tid` and `frames`, innermost first. If
// outer frames are unknown, the last frame says so. Then it writes one line per process again, with source lines and
// inlined functions, because finding these may exceed the time limit.
#include <nlohmann/json.hpp>

#include <cstdint>
#include <cstdlib>
#include <deque>
#include <iostream>
#include <iterator>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "launcher/run/stacks/stack_text.h"
#include "stack_reader/frame_names.h"
#include "stack_reader/held_thread.h"
#include "stack_reader/process_files.h"
#include "stack_reader/unwinder.h"

namespace {

using ddp::launcher::StackCapture;
using ddp::launcher::ThreadCapture;
using ddp::stack_reader::FrameNames;
using ddp::stack_reader::ProcessFiles;
using ddp::stack_reader::Unwinder;
using ddp::stack_reader::Unwound;

class Process {
 public:
  explicit Process(StackCapture capture) : capture_(std::move(capture)), files_(capture_.maps) {
    stacks_.resize(capture_.threads.size());
    // Running threads are captured before any file is read, so that their stacks are of nearly the same moment.
    for (std::size_t i = 0; i < stacks_.size(); ++i) {
      ThreadCapture& thread = capture_.threads[i];
      if (!thread.runs) continue;
      auto held = ddp::stack_reader::hold_for_a_moment(capture_.pid, thread.tid);
      stacks_[i].obstacle = held.obstacle;
      thread = std::move(held.capture);
    }
    std::optional<Unwinder> unwinder;  // reads a file, so it is created only if needed
    for (std::size_t i = 0; i < stacks_.size(); ++i) {
      const ThreadCapture& thread = capture_.threads[i];
      if (!thread.addresses.empty()) {
        stacks_[i].unwound = {thread.addresses, true};
        continue;
      }
      if (!unwinder) unwinder.emplace(files_);
      stacks_[i].unwound = unwinder->unwind(thread, ddp::launcher::kStackFrames);
    }
  }

  nlohmann::json described(FrameNames& names, bool with_lines) const {
    nlohmann::json threads = nlohmann::json::array();
    for (std::size_t i = 0; i < stacks_.size(); ++i) {
      threads.push_back({{"tid", capture_.threads[i].tid}, {"frames", frames(stacks_[i], names, with_lines)}});
    }
    return {{"pid", capture_.pid}, {"threads", threads}};
  }

 private:
  struct Stack {
    Unwound unwound;
    std::string obstacle;  // why a running thread could not be stopped
  };

  std::vector<std::string> frames(const Stack& stack, FrameNames& names, bool with_lines) const {
    if (!stack.obstacle.empty()) return {"running (" + stack.obstacle + ")"};
    std::vector<std::string> frames;
    for (const std::uint64_t address : stack.unwound.addresses) {
      const bool returns = !frames.empty();
      if (!with_lines) {
        frames.push_back(names.name(files_, address, returns));
        continue;
      }
      for (std::string& frame : names.with_lines(files_, address, returns)) frames.push_back(std::move(frame));
    }
    if (!stack.unwound.is_whole) frames.emplace_back("... (the caller is unknown)");
    return frames;
  }

  StackCapture capture_;
  ProcessFiles files_;
  std::vector<Stack> stacks_;
};

}  // namespace

int main() {
  const std::string bytes{std::istreambuf_iterator<char>(std::cin), {}};
  auto captures = ddp::launcher::captures_from_bytes(bytes);
  if (!captures) {
    std::cerr << "ddp_stack_reader: the standard input is not a copy of stacks. Only ddplaunch starts this program.\n";
    return EXIT_FAILURE;
  }
  std::deque<Process> processes;  // a deque, because libdw keeps pointers to parts of the elements
  for (StackCapture& capture : *captures) processes.emplace_back(std::move(capture));
  FrameNames names;
  for (const bool with_lines : {false, true}) {
    for (const Process& process : processes) {
      std::cout << process.described(names, with_lines).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace)
                << std::endl;
    }
  }
  return std::cout.good() ? EXIT_SUCCESS : EXIT_FAILURE;
}
