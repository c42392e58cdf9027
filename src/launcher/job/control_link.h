// ControlLink: a launcher's connection to its coordinator (docs/development/protocol.md, section 7). It never blocks:
// what the coordinator does not take yet waits here.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <string>

#include "net/event_loop.h"
#include "store/client/store_visit.h"
#include "wire/control_message.h"

namespace ddp::launcher {

// Belongs to the loop's thread.
class ControlLink {
 public:
  struct Callbacks {
    std::function<void(const wire::ControlMessage& message)> heard;
    std::function<void(const std::string& why)> lost;  // the last call; may destroy the link
    std::function<void()> has_sent;                    // something that had waited, while the loop runs
  };

  ControlLink(net::EventLoop& loop, store::StoreVisit visit, Callbacks callbacks);

  // Of more than limits::kStoreValueBytes, for which the coordinator would send us away, nothing is said.
  void send(const wire::ControlMessage& message);
  // Writes what can be written now; it is done whenever it can be while the loop runs.
  void flush();
  // Bytes that wait.
  std::size_t unsent() const { return out_.size() - sent_; }
  int fd() const { return visit_.fd(); }

 private:
  void hear();

  net::EventLoop& loop_;
  store::StoreVisit visit_;
  const Callbacks callbacks_;
  std::string in_;
  std::string out_;
  std::size_t sent_ = 0;  // of `out_`
  std::unique_ptr<net::Watch> readable_;
  std::unique_ptr<net::Watch> writable_;
};

}  // namespace ddp::launcher
