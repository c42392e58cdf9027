// Finds out what reaches another node: see ProbeServer. Each function blocks for a bounded time.
#pragma once

#include <cstdint>
#include <optional>

#include "launcher/start/doctor/between/records.h"

namespace ddp::launcher::doctor {

inline constexpr int kSmallSegment = 536;  // bytes; every network carries a packet of this size

// Tries the ports of the other node, sends many bytes at once in both directions, and compares the clocks. It takes
// milliseconds if all is well, and some twelve seconds at most. Path::datagrams and Path::name_means stay empty.
Path probe_path(const NodeAddress& to, int own, std::uint64_t key);

// Returns the addresses that this node knows for the other one's host name, or none if it does not know the name. It
// may block as long as the resolver does.
std::vector<std::string> addresses_of_name(const std::string& host);

// Sends data for some hundred milliseconds in each direction. Returns std::nullopt if the nodes do not reach each
// other.
std::optional<Speed> measure_speed(const NodeAddress& to, int own, std::uint64_t key);

}  // namespace ddp::launcher::doctor
