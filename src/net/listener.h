// A listening TCP socket.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>

#include "base/result.h"
#include "base/unique_fd.h"

namespace ddp::net {

// Non-blocking and CLOEXEC, bound and listening. `address` is a number, IPv4 or IPv6; "::" listens for both; `port` 0
// lets the kernel choose.
base::Result<base::UniqueFd> listen_tcp(const std::string& address, std::uint16_t port, int backlog);

// The next connection, non-blocking and CLOEXEC; nothing, with errno, if there is none (EAGAIN) or no descriptor for
// it. Its small messages are sent at once. A machine that has gone is noticed, and so is a peer that reads nothing of
// what waits for it within `unread_time`; the kernel looks now and then.
base::UniqueFd accept_tcp(int listener, std::chrono::milliseconds unread_time);

}  // namespace ddp::net
