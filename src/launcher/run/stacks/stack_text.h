// Represents stacks of a rank's threads, parses the outputs of the tools that take them, and shows them as lines. The
// outputs are untrusted. Each parser limits and cleans the parts that it understands, and ignores the rest.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "wire/json_fields.h"

namespace ddp::launcher {

inline constexpr std::size_t kStackThreads = 64;       // maximum per rank; the first thread is always included
inline constexpr const char* kOfProcess = "process ";  // prefix of a thread's name in another process; its pid follows
inline constexpr std::size_t kStackFrames = 64;        // maximum per thread, the innermost ones

// A frame consists of a function's name and, in brackets, the best known place: "train_epoch (train.py:12)", "poll
// (libc.so.6)", "?? (0x55e22fede36e)". Text is printable UTF-8.
struct ThreadStack {
  int tid = 0;  // 0 if unknown
  std::string name;
  std::vector<std::string> frames;  // innermost first

  friend bool operator==(const ThreadStack&, const ThreadStack&) = default;
};

enum class StackSource : std::uint8_t { none, signal_handler, copied_stack, py_spy, gdb, eu_stack, kernel };

struct RankStacks {
  int rank = 0;
  StackSource source = StackSource::none;
  std::vector<ThreadStack> threads;  // the first thread of the process comes first
  std::vector<std::string> missing;  // missing data, each with the reason: "gdb: not found in PATH"
};

// Each parser returns an empty result if there is no stack in the text. It takes time and memory in proportion to the
// text, whose length the caller limits.

// Parses the output of ddp_stack_reader. For each pid, the last complete line counts.
std::map<int, std::vector<ThreadStack>> parse_stack_reader(std::string_view text);

// Parses the output of py-spy dump --json --pid PID, with or without --native.
std::vector<ThreadStack> parse_py_spy(std::string_view json);

// Parses the output of gdb -batch -nx -ex "thread apply all bt" -p PID.
std::vector<ThreadStack> parse_gdb(std::string_view text);

// Parses the output of eu-stack -s -m -p PID. Without -s or -m, less is known of places. The output does not contain
// the threads' names.
std::vector<ThreadStack> parse_eu_stack(std::string_view text);

// Returns the lines that show these stacks in views: each thread with its frames.
std::vector<std::string> stack_lines(const RankStacks& stacks);

// The name of a source is shown, and written in JSON between nodes and in reports.
NLOHMANN_JSON_SERIALIZE_ENUM(StackSource, {{StackSource::none, ""},
                                           {StackSource::signal_handler, "signal handler"},
                                           {StackSource::copied_stack, "copied stack"},
                                           {StackSource::py_spy, "py-spy"},
                                           {StackSource::gdb, "gdb"},
                                           {StackSource::eu_stack, "eu-stack"},
                                           {StackSource::kernel, "kernel"}})

}  // namespace ddp::launcher
