// ControlLink is a launcher's connection to its coordinator (docs/development/protocol.md, section 7). It never blocks:
// it buffers data that the coordinator does not accept yet.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <string>

#include "net/event_loop.h"
#include "store/client/store_visit.h"
#include "wire/control_message.h"

namespace ddp::launcher {

// The other side has closed the connection after all that it sent, or the connection broke, or the peer sent what no
// coordinator of this version sends.
enum class LinkEnd { closed, broken, misused };

// It belongs to the loop's thread.
class ControlLink {
 public:
  struct Callbacks {
    std::function<void(const wire::ControlMessage& message)> heard;
    std::function<void(const std::string& why, LinkEnd end)> lost;  // the last callback; may destroy the link
    std::function<void()> has_sent;                                 // waiting data was sent while the loop runs
  };

  ControlLink(net::EventLoop& loop, store::StoreVisit visit, Callbacks callbacks);

  // Drops a message of more than limits::kStoreValueBytes, because the coordinator would close the connection for it.
  void send(const wire::ControlMessage& message);
  // Writes as much as possible now. While the loop runs, data is also written whenever possible.
  void flush();
  // Returns the number of bytes that wait to be sent.
  std::size_t unsent() const { return out_.size() - sent_; }
  int fd() const { return visit_.fd(); }
  // Returns the connection, of which nothing more is read. The link is of no use afterwards.
  store::StoreVisit give_up();

 private:
  void hear();

  net::EventLoop& loop_;
  store::StoreVisit visit_;
  const Callbacks callbacks_;
  std::string in_;
  std::string out_;
  std::size_t sent_ = 0;  // number of bytes of `out_` that were sent
  std::unique_ptr<net::Watch> readable_;
  std::unique_ptr<net::Watch> writable_;
};

}  // namespace ddp::launcher
