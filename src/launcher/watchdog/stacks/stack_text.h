// Stacks of a rank's threads, and the tools' outputs that they are read from. All of it is text that somebody else has
// chosen, so each parser takes what it understands, bounds and cleans it, and leaves out the rest.
#pragma once

#include <cstddef>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace ddp::launcher {

inline constexpr std::size_t kStackThreads = 64;       // of a rank; the first thread is always among them
inline constexpr const char* kOfProcess = "process ";  // begins the name of a thread of another process, and its pid
inline constexpr std::size_t kStackFrames = 64;        // of a thread, the innermost ones

// A frame is a function's name and, in brackets, the best that is known of its place: "train_epoch (train.py:12)",
// "poll (libc.so.6)", "?? (0x55e22fede36e)". Text is printable UTF-8.
struct ThreadStack {
  int tid = 0;  // 0: not known
  std::string name;
  std::vector<std::string> frames;  // innermost first

  friend bool operator==(const ThreadStack&, const ThreadStack&) = default;
};

struct RankStacks {
  int rank = 0;
  std::string source;                // "signal handler", "copied stack", "py-spy", "gdb", "eu-stack", "kernel"
  std::vector<ThreadStack> threads;  // the process' first thread first
  std::vector<std::string> missing;  // what could not be had, and why: "gdb: not found in PATH"
};

// Each is empty if there is no stack in the text, and takes time and memory in proportion to the text, whose length the
// caller bounds.

// Of ddp_stack_reader: for each pid the last line that is whole.
std::map<int, std::vector<ThreadStack>> parse_stack_reader(std::string_view text);

// Of py-spy dump --json --pid PID, with or without --native.
std::vector<ThreadStack> parse_py_spy(std::string_view json);

// Of gdb -batch -nx -ex "thread apply all bt" -p PID.
std::vector<ThreadStack> parse_gdb(std::string_view text);

// Of eu-stack -s -m -p PID; without -s or -m less is known of places. It does not tell the threads' names.
std::vector<ThreadStack> parse_eu_stack(std::string_view text);

}  // namespace ddp::launcher
