// How many bytes the TCP connections of this machine have moved, as the kernel counts them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace ddp::net {

struct TcpBytes {
  std::uint64_t inode = 0;       // of the socket: /proc/PID/fd names it
  std::uint16_t local_port = 0;  // host order, as is the next
  std::uint16_t remote_port = 0;
  std::uint64_t bytes = 0;  // received, and sent and acknowledged, since it was connected

  friend bool operator==(const TcpBytes&, const TcpBytes&) = default;
};

// All connections of our network namespace that a process holds. Nothing if the kernel does not tell: it has no socket
// diagnostics, or a sandbox forbids them. Costs some microseconds a connection; does not block.
std::optional<std::vector<TcpBytes>> read_tcp_bytes();

// Adds the connections of one answer of the kernel, which may hold several messages. True if more answers follow;
// nothing if the kernel refused, or the answer is not whole.
std::optional<bool> add_tcp_bytes(std::span<const std::byte> answer, std::vector<TcpBytes>& connections);

}  // namespace ddp::net
