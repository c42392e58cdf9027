// ViewClient is a connection of a view to a running launcher.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "base/result.h"
#include "base/unique_fd.h"
#include "launcher/see/top/view_protocol.h"
#include "net/event_loop.h"
#include "net/socket.h"

namespace ddp::launcher {

// Sends a request over a new connection (see connect_to), and returns the answer. Blocks until the deadline.
base::Result<ViewAnswer> ask_launcher(int fd, const ViewRequest& request, net::Deadline deadline);

// Belongs to the event loop's thread. The callbacks may destroy the client only later.
class ViewClient {
 public:
  struct Callbacks {
    std::function<void(const ViewAnswer& answer)> answered;
    std::function<void()> closed;                           // called once
    std::function<void(const std::string& what)> confused;  // an answer is not valid
  };

  ViewClient(net::EventLoop& loop, base::UniqueFd fd, Callbacks callbacks);

  // A request that the launcher does not take is dropped.
  void send(const ViewRequest& request);

 private:
  void arm();
  void read();

  net::EventLoop& loop_;
  base::UniqueFd fd_;
  const Callbacks callbacks_;
  std::string received_;
  std::size_t searched_ = 0;  // bytes of `received_` that contain no end of a line
  std::unique_ptr<net::Watch> readable_;
};

}  // namespace ddp::launcher
