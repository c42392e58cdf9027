// ddp_stack_reader: names the functions in stacks that the launcher has copied. A program of its own, since the files
// that it reads are the workers', and may be anything: one that makes it fail or hang does no harm to the job.
//
// Standard input: StackCaptures (launcher/watchdog/stacks/stack_capture.h). Standard output: a line of JSON for each
// process, with its `pid` and its `threads`, each with `tid` and `frames`, innermost first; if the outer ones are not
// known, the last one says so. Then a line for each again, with lines of the source and inlined functions: to find them
// may take longer than there is time.
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

#include "launcher/watchdog/stacks/stack_text.h"
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
    // All that run, before any file is read: their stacks are to be of nearly the same moment.
    for (std::size_t i = 0; i < stacks_.size(); ++i) {
      ThreadCapture& thread = capture_.threads[i];
      if (!thread.runs) continue;
      auto held = ddp::stack_reader::hold_for_a_moment(capture_.pid, thread.tid);
      stacks_[i].obstacle = held.obstacle;
      thread = std::move(held.capture);
    }
    std::optional<Unwinder> unwinder;  // which reads a file, made if one is needed
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
    std::string obstacle;  // of a thread that runs and could not be held
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
    if (!stack.unwound.is_whole) frames.emplace_back("... (what called this is not known)");
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
    std::cerr << "ddp_stack_reader: the standard input is no copy of stacks. ddplaunch starts this program.\n";
    return EXIT_FAILURE;
  }
  std::deque<Process> processes;  // libdw keeps pointers to parts of them
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
