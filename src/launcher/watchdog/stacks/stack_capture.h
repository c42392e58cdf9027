// What stacks are read from, copied out of a process that goes on meanwhile. Nothing stops it or cuts a call of it
// short: /proc/PID/task/TID/syscall tells the stack pointer and the program counter of a thread that waits in the
// kernel, and process_vm_readv(2) copies its stack. Another program, ddp_stack_reader, makes frames of them.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace ddp::launcher {

// Registers by their numbers in DWARF for x86-64 (System V ABI, AMD64 supplement, figure 3.36).
inline constexpr int kFramePointer = 6;
inline constexpr int kStackPointer = 7;
inline constexpr int kProgramCounter = 16;

// Bytes that are copied of a stack: 64 frames seldom take more.
inline constexpr std::size_t kMostStack = std::size_t{128} << 10;

struct ThreadCapture {
  pid_t tid = 0;
  bool runs = false;                       // at each of several samples: the kernel tells no more of it
  std::map<int, std::uint64_t> registers;  // those that are known
  std::string stack;                       // the bytes from the stack pointer on, as far as they are there
  // Innermost first, as the program itself has told them. If there are any, nothing is to be unwound.
  std::vector<std::uint64_t> addresses = {};

  friend bool operator==(const ThreadCapture&, const ThreadCapture&) = default;
};

struct StackCapture {
  pid_t pid = 0;
  std::string maps;  // /proc/PID/maps
  std::vector<ThreadCapture> threads;
  std::string obstacle;  // why there is no stack; empty: there is

  friend bool operator==(const StackCapture&, const StackCapture&) = default;
};

// The text of /proc/PID/task/TID/syscall. Nothing if it cannot be understood.
std::optional<ThreadCapture> parse_thread_place(std::string_view text);

// Bytes of a stack, from `stack_pointer` on: at most `most`, fewer where the memory ends, none if that is not allowed.
std::string copy_stack(pid_t pid, std::uint64_t stack_pointer, std::size_t most);

// At most `most_threads`, the first one among them. It waits some milliseconds for threads that run. It may hang with a
// process whose memory map is locked.
StackCapture capture_stacks(pid_t pid, std::size_t most_threads);

// For ddp_stack_reader's standard input, as CBOR. Nothing if it is no such text.
std::string to_bytes(std::span<const StackCapture> captures);
std::optional<std::vector<StackCapture>> captures_from_bytes(std::string_view bytes);

}  // namespace ddp::launcher
