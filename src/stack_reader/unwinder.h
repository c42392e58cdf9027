// Unwinder finds the return addresses in the copied stack of a thread. It uses the unwind tables of the files that the
// thread's process has mapped (elfutils' libdw).
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "launcher/run/stacks/stack_capture.h"
#include "stack_reader/process_files.h"

namespace ddp::stack_reader {

// Holds the frames of a thread, innermost first. The first address is that of the current instruction. The others are
// return addresses.
struct Unwound {
  std::vector<std::uint64_t> addresses;
  bool is_whole = false;  // true if it reaches the thread's first function, or has `most` frames

  friend bool operator==(const Unwound&, const Unwound&) = default;
};

class Unwinder {
 public:
  // Only one may exist for `files`, which must outlive it.
  explicit Unwinder(const ProcessFiles& files);
  ~Unwinder();
  Unwinder(const Unwinder&) = delete;
  Unwinder& operator=(const Unwinder&) = delete;

  // The frame pointer of a thread that waits in the kernel is unknown. If a function needs it, each stack position is
  // tried that may hold a frame's link. A link is a frame pointer and a return address after a call that may be a call
  // of the function. A link is accepted if the rest of the stack can be unwound from it.
  Unwound unwind(const launcher::ThreadCapture& thread, std::size_t most);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace ddp::stack_reader
