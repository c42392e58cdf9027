// This header shows the parts of EventLoop to the few files that use Asio themselves
// (docs/development/decisions/0001-event-loop.md).
#pragma once

#include <boost/asio/io_context.hpp>
#include <sys/types.h>

#include <set>

namespace ddp::net {

class EventLoopAsio {
 public:
  std::set<pid_t> children;  // see EventLoop::children(); outlives the operations of the context
  boost::asio::io_context context{1};
};

}  // namespace ddp::net
