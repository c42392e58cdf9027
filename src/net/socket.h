// These functions are blocking TCP operations with deadlines, for clients, and those of a server that does not block.
// Descriptors are CLOEXEC. A dead peer causes an error, never SIGPIPE.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "base/result.h"
#include "base/unique_fd.h"

namespace ddp::net {

using Deadline = std::chrono::steady_clock::time_point;

struct SocketFailure {
  enum class Kind { timed_out, closed, refused, failed };  // refused: no server listens at the address
  Kind kind;
  std::string message;  // "connection refused", "no answer in time"
};

struct Done {};

// Resolves `host` and tries each of its addresses once. Packets of the connection carry `segment` bytes at most, in
// both directions. 0 leaves that to the kernel, and std::nullopt stands for what limit_segments() has set.
base::Result<base::UniqueFd, SocketFailure> connect_tcp(const std::string& host, std::uint16_t port, Deadline deadline,
                                                        std::optional<int> segment = std::nullopt);
// Makes all connections of this process use small packets, so that they work where a network loses large ones.
void limit_segments(int bytes);

base::Result<Done, SocketFailure> send_all(int fd, std::span<const char> bytes, Deadline deadline);

// Receives into `bytes` the data that has arrived, at least one byte.
base::Result<std::size_t, SocketFailure> receive_some(int fd, std::span<char> bytes, Deadline deadline);

// Makes the kernel send unacknowledged data again at least once per second. Otherwise it doubles the pause each time,
// so that an interruption of t seconds delays messages for up to 2t. Linux 6.15 and later can do so.
void limit_retransmission_pause(int fd);

// Fills `bytes` completely.
base::Result<Done, SocketFailure> receive_all(int fd, std::span<char> bytes, Deadline deadline);

// Returns a listening socket that is non-blocking and CLOEXEC. `address` is a numeric IPv4 or IPv6 address. "::"
// listens for both. If `port` is 0, the kernel chooses the port.
base::Result<base::UniqueFd> listen_tcp(const std::string& address, std::uint16_t port, int backlog);

// Returns the next connection, non-blocking and CLOEXEC. Returns an empty descriptor, with errno, if there is none
// (EAGAIN) or no descriptor is left. Small messages are sent without delay. The kernel detects a failed node, and a
// peer that reads none of its data within `unread_time`. It checks this periodically.
base::UniqueFd accept_tcp(int listener, std::chrono::milliseconds unread_time);

}  // namespace ddp::net
