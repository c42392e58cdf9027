// These functions open a listening TCP socket and accept connections.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>

#include "base/result.h"
#include "base/unique_fd.h"

namespace ddp::net {

// Returns a listening socket that is non-blocking and CLOEXEC. `address` is a numeric IPv4 or IPv6 address. "::"
// listens for both. If `port` is 0, the kernel chooses the port.
base::Result<base::UniqueFd> listen_tcp(const std::string& address, std::uint16_t port, int backlog);

// Returns the next connection, non-blocking and CLOEXEC. Returns an empty descriptor, with errno, if there is none
// (EAGAIN) or no descriptor is left. Small messages are sent without delay. The kernel detects a failed node, and a
// peer that reads none of its data within `unread_time`. It checks this periodically.
base::UniqueFd accept_tcp(int listener, std::chrono::milliseconds unread_time);

}  // namespace ddp::net
