// Unwinder: the return addresses in the copied stack of a thread, by the unwind tables of the files that its process
// has mapped (elfutils' libdw).
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "launcher/watchdog/stacks/stack_capture.h"
#include "stack_reader/process_files.h"

namespace ddp::stack_reader {

// Frames of a thread, innermost first. The first address is the one at which the thread is, the others are those that
// the functions return to.
struct Unwound {
  std::vector<std::uint64_t> addresses;
  bool is_whole = false;  // up to the function with which the thread began, or `most` frames

  friend bool operator==(const Unwound&, const Unwound&) = default;
};

class Unwinder {
 public:
  // At most one for `files`, which must outlive it.
  explicit Unwinder(const ProcessFiles& files);
  ~Unwinder();
  Unwinder(const Unwinder&) = delete;
  Unwinder& operator=(const Unwinder&) = delete;

  // Of a thread that waits in the kernel the frame pointer is not known. Where a function needs it, each place of the
  // stack is tried that may hold a frame's link: a frame pointer and a return address behind a call that may be that of
  // the function. It is taken if the rest of the stack follows from it.
  Unwound unwind(const launcher::ThreadCapture& thread, std::size_t most);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace ddp::stack_reader
