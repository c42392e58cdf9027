// These functions read how many bytes the TCP connections of this node have moved, as counted by the kernel.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace ddp::net {

struct TcpBytes {
  std::uint64_t inode = 0;       // the socket's inode, as in /proc/PID/fd
  std::uint16_t local_port = 0;  // both ports are in host order
  std::uint16_t remote_port = 0;
  std::uint64_t bytes = 0;  // bytes received, and bytes sent and acknowledged, since the connection began

  friend bool operator==(const TcpBytes&, const TcpBytes&) = default;
};

// Returns all connections of this network namespace that a process holds. Returns std::nullopt if the kernel has no
// socket diagnostics, or a sandbox forbids them. Takes some microseconds per connection, and does not block.
std::optional<std::vector<TcpBytes>> read_tcp_bytes();

// Adds the connections of one answer of the kernel, which may hold several messages. Returns true if more answers
// follow. Returns std::nullopt if the kernel refused, or the answer is incomplete.
std::optional<bool> add_tcp_bytes(std::span<const std::byte> answer, std::vector<TcpBytes>& connections);

}  // namespace ddp::net
