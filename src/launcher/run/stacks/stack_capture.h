// Copies the data for stacks out of a process, which continues meanwhile. Nothing stops the process or interrupts its
// calls. /proc/PID/task/TID/syscall contains the stack pointer and the program counter of a thread that waits in the
// kernel. process_vm_readv(2) copies its stack. Another program, ddp_stack_reader, turns the copies into frames.
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

// These are the numbers of registers in DWARF for x86-64 (System V ABI, AMD64 supplement, figure 3.36).
inline constexpr int kFramePointer = 6;
inline constexpr int kStackPointer = 7;
inline constexpr int kProgramCounter = 16;

// This many bytes of a stack are copied. 64 frames seldom take more.
inline constexpr std::size_t kMostStack = std::size_t{128} << 10;

struct ThreadCapture {
  pid_t tid = 0;
  bool runs = false;                       // it runs in each of several samples, so the kernel shows nothing else
  std::map<int, std::uint64_t> registers;  // known registers, by number
  std::string stack;                       // bytes from the stack pointer to the end of the mapped memory
  // The program itself has reported these addresses, innermost first. If there are any, the stack is not unwound.
  std::vector<std::uint64_t> addresses = {};

  friend bool operator==(const ThreadCapture&, const ThreadCapture&) = default;
};

struct StackCapture {
  pid_t pid = 0;
  std::string maps;  // content of /proc/PID/maps
  std::vector<ThreadCapture> threads;
  std::string obstacle;  // why there is no stack; empty if there is one

  friend bool operator==(const StackCapture&, const StackCapture&) = default;
};

// Parses the text of /proc/PID/task/TID/syscall. Returns std::nullopt if it is not understood.
std::optional<ThreadCapture> parse_thread_place(std::string_view text);

// Returns at most `most` bytes of a stack, from `stack_pointer` on. Returns fewer if the memory ends there, and none if
// it may not be read.
std::string copy_stack(pid_t pid, std::uint64_t stack_pointer, std::size_t most);

// Captures at most `most_threads` threads, the first one among them. Waits some milliseconds for running threads. May
// hang if the memory map of the process is locked.
StackCapture capture_stacks(pid_t pid, std::size_t most_threads);

// Converts captures to CBOR, for ddp_stack_reader's standard input, and back. captures_from_bytes() returns
// std::nullopt if the bytes are invalid.
std::string to_bytes(std::span<const StackCapture> captures);
std::optional<std::vector<StackCapture>> captures_from_bytes(std::string_view bytes);

}  // namespace ddp::launcher
