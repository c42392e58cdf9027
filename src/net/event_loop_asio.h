// The Asio side of EventLoop, for the .cpp files that need sockets of Asio's.
#pragma once

#include <boost/asio/io_context.hpp>

namespace ddp::net {

class EventLoopAsio {
 public:
  boost::asio::io_context context{1};
};

}  // namespace ddp::net
