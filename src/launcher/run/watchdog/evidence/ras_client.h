// NCCL has a RAS service since version 2.24. In each process that has a communicator, a thread knows how far all ranks
// of the job have come. It answers clients that connect to NCCL_RAS_ADDR (localhost:28028).
//
//   CLIENT PROTOCOL 2 →   ← SERVER PROTOCOL 2      TIMEOUT 4 →   ← OK      VERBOSE STATUS →   ← text, end of stream
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "launcher/run/ranks/evidence.h"
#include "net/socket.h"

namespace ddp::launcher {

inline constexpr std::size_t kRasTextBytes = std::size_t{1} << 20;  // limit of a report; a note replaces the rest
// limit of a status: 250 bytes per rank and communicator in JSON, so 50,000 ranks in five communicators each
inline constexpr std::size_t kRasStatusBytes = std::size_t{64} << 20;
inline constexpr std::size_t kRasLineBytes = 1024;  // limit of a line before the answer; a longer line is invalid
inline constexpr int kRasConnections = 3;           // most attempts to find a rank that answers
inline constexpr std::size_t kRasEssenceLines = 12;
inline constexpr std::size_t kRasEssenceBytes = 160;  // limit of a line

// Blocks until the service has answered completely, or until the deadline. If a connection is not greeted within a part
// of the time, another one is made, because the kernel may have chosen a stopped rank. Any thread may call it. No
// answer of a server does harm. If an answer is cut off, the part that has arrived is kept. As with connect_tcp(), the
// resolution of a name has no time limit.
//
//   const EvidenceSource source = ask_ras("localhost", 28028, std::chrono::steady_clock::now() + 5s);
EvidenceSource ask_ras(const std::string& host, std::uint16_t port, net::Deadline deadline);

struct RasAddress {
  std::string host;
  std::uint16_t port = 0;  // 0 if NCCL_RAS_ADDR has another form
};

// Returns where the RAS of a worker with this environment listens. Returns std::nullopt if it has none, or if the user
// has switched it off (NCCL_RAS_ENABLE=0).
std::optional<RasAddress> ras_address_in(std::span<const std::string> environment);

// Asks for the status in JSON, as ask_ras() does. NCCL 2.24 to 2.28.6 answers in text. Returns an empty text if there
// is no complete answer.
std::string ask_ras_status(const RasAddress& address, net::Deadline deadline);

// Returns the lines under the headings "Errors" and "Warnings" of a status text. A heading is a line above a line of
// '='. Each line is printable and cut to kRasEssenceBytes. If there are more than `most_lines`, one more line says how
// many are left out.
std::vector<std::string> ras_essence(std::string_view text, std::size_t most_lines);

}  // namespace ddp::launcher
