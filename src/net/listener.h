// A listening TCP socket.
#pragma once

#include <cstdint>
#include <string>

#include "base/result.h"
#include "base/unique_fd.h"

namespace ddp::net {

// Non-blocking and CLOEXEC, bound and listening. `address` is a number, IPv4 or IPv6; "::" listens for both; `port` 0
// lets the kernel choose.
base::Result<base::UniqueFd> listen_tcp(const std::string& address, std::uint16_t port, int backlog);

}  // namespace ddp::net
