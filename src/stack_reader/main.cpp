// ddp_stack_reader: names the functions in stacks that the launcher has copied. A program of its own, since the files
// that it reads are the workers', and may be anything: one that makes it fail or hang does no harm to the job.
//
// Standard input: a StackCapture (launcher/watchdog/stacks/stack_capture.h). Standard output: JSON, a list of threads,
// each with `tid` and `frames`, innermost first; if the outer ones are not known, the last one says so. Then the same
// again, with lines of the source: to find them may take longer than there is time.
#include <nlohmann/json.hpp>

#include <cstdlib>
#include <iostream>
#include <iterator>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "launcher/watchdog/stacks/stack_text.h"
#include "launcher/watchdog/stacks/symbols.h"
#include "stack_reader/held_thread.h"
#include "stack_reader/unwinder.h"

namespace {

using ddp::launcher::ThreadCapture;
using ddp::stack_reader::Unwound;

class Reader {
 public:
  explicit Reader(const std::string& maps) : unwinder_(maps), symbolizer_(maps, files_) {}

  Unwound unwind(const ThreadCapture& thread) { return unwinder_.unwind(thread, ddp::launcher::kStackFrames); }

  std::vector<std::string> frames_of(const Unwound& unwound, bool with_lines) {
    std::vector<std::string> frames;
    for (const std::uint64_t address : unwound.addresses) {
      const bool returns = !frames.empty();  // what a return address stands for is the call before it
      const std::string line = with_lines ? unwinder_.source_line(address - (returns ? 1 : 0)) : "";
      frames.push_back(symbolizer_.describe(address, returns, line));
    }
    if (!unwound.is_whole) frames.emplace_back("... (what called this is not known)");
    return frames;
  }

 private:
  ddp::launcher::SymbolFiles files_;
  ddp::stack_reader::Unwinder unwinder_;
  ddp::launcher::Symbolizer symbolizer_;
};

}  // namespace

int main() {
  const std::string bytes{std::istreambuf_iterator<char>(std::cin), {}};
  auto capture = ddp::launcher::capture_from_bytes(bytes);
  if (!capture) {
    std::cerr << "ddp_stack_reader: the standard input is no copy of stacks. ddplaunch starts this program.\n";
    return EXIT_FAILURE;
  }
  std::map<pid_t, std::string> obstacles;
  for (ThreadCapture& thread : capture->threads) {
    if (!thread.runs) continue;
    auto held = ddp::stack_reader::hold_for_a_moment(capture->pid, thread.tid);
    if (!held.obstacle.empty()) obstacles[thread.tid] = held.obstacle;
    thread = std::move(held.capture);
  }
  Reader reader(capture->maps);
  std::vector<Unwound> unwound;
  for (const ThreadCapture& thread : capture->threads) unwound.push_back(reader.unwind(thread));
  for (const bool with_lines : {false, true}) {
    nlohmann::json threads = nlohmann::json::array();
    for (std::size_t i = 0; i < unwound.size(); ++i) {
      const pid_t tid = capture->threads[i].tid;
      const auto obstacle = obstacles.find(tid);
      const auto frames = obstacle == obstacles.end() ? reader.frames_of(unwound[i], with_lines)
                                                      : std::vector<std::string>{"running (" + obstacle->second + ")"};
      threads.push_back({{"tid", tid}, {"frames", frames}});
    }
    std::cout << threads.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) << std::endl;
  }
  return std::cout.good() ? EXIT_SUCCESS : EXIT_FAILURE;
}
