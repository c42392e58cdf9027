// A listening TCP socket, and the names of addresses.
#pragma once

#include <sys/socket.h>

#include <cstdint>
#include <string>

#include "base/result.h"
#include "base/unique_fd.h"

namespace ddp::net {

// Non-blocking and CLOEXEC, bound and listening. `address` is a number, IPv4 or IPv6; "::" listens for both; `port` 0
// lets the kernel choose.
base::Result<base::UniqueFd> listen_tcp(const std::string& address, std::uint16_t port, int backlog);

// "127.0.0.1:29500", "[::1]:29500"; an IPv4 address that is written as an IPv6 one is shown as IPv4.
std::string address_text(const sockaddr_storage& address);
std::uint16_t port_of(const sockaddr_storage& address);

sockaddr_storage local_address(int fd);
sockaddr_storage peer_address(int fd);

}  // namespace ddp::net
