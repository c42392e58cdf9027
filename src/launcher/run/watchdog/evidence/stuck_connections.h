// Finds the connections of workers on which data wait for an acknowledgement, although the kernel has sent them again
// and again. They show which way between two nodes is broken when a collective makes no progress.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "launcher/run/ranks/evidence.h"
#include "net/address.h"
#include "net/socket.h"

namespace ddp::launcher {

// A row of /proc/PID/net/tcp (proc(5)).
struct TcpRow {
  net::Endpoint own;
  net::Endpoint other;
  std::uint64_t unacknowledged = 0;  // bytes
  int sent_again = 0;                // how often since the last acknowledgement
  std::uint64_t inode = 0;           // of the socket
};

// Returns the established connections of such a text. `is_v6` is for tcp6.
std::vector<TcpRow> read_tcp_rows(std::string_view text, bool is_v6);

// Returns the connections of these workers that are stuck: one line for each pair of addresses. `workers` are ranks and
// the pids of their first processes. Nothing is sent. The source has no text if no connection is stuck.
EvidenceSource ask_connections(std::span<const std::pair<int, pid_t>> workers, net::Deadline deadline);

}  // namespace ddp::launcher
