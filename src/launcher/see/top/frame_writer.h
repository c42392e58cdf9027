// FrameWriter shows frames on a terminal. It writes only the lines that have changed.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "net/event_loop.h"

namespace ddp::launcher {

// Returns the bytes that change a terminal from `before` to `after`. If `before` is empty, the screen is cleared first.
// Terminals that know synchronised output show the change at once. It is pure.
std::string frame_change(const std::vector<std::string>& before, const std::vector<std::string>& after);

// Belongs to the event loop's thread. It never waits for the terminal: a frame that comes while the bytes of an earlier
// one are unsent is kept, and shown if no later one replaces it.
class FrameWriter {
 public:
  // `fd` is non-blocking and outlives the writer. `failed` is called once if the terminal is gone.
  FrameWriter(net::EventLoop& loop, int fd, std::function<void()> failed)
      : loop_(loop), fd_(fd), failed_(std::move(failed)) {}

  void show(std::vector<std::string> frame);
  // Shows the next frame completely. Call this if the screen may show something else.
  void forget();
  // Drops what was not sent, so that other bytes can be written to the terminal. The terminal may have received a
  // part of a sequence.
  void abandon();

  int dropped() const { return dropped_; }  // frames that were never shown

 private:
  void write();

  net::EventLoop& loop_;
  const int fd_;
  std::function<void()> failed_;
  std::vector<std::string> shown_;
  std::vector<std::string> next_;  // empty if there is none
  std::string unsent_;
  std::unique_ptr<net::Watch> writable_;
  int dropped_ = 0;
};

}  // namespace ddp::launcher
