// NCCL's RAS service: since 2.24, a thread in each process that has a communicator knows how far all ranks of the job
// have come, and tells it to whoever asks at NCCL_RAS_ADDR (localhost:28028).
//
//   CLIENT PROTOCOL 2 →   ← SERVER PROTOCOL 2      TIMEOUT 4 →   ← OK      VERBOSE STATUS →   ← text, end of stream
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "launcher/watchdog/evidence/evidence_source.h"
#include "net/socket.h"

namespace ddp::launcher {

inline constexpr std::size_t kRasTextBytes = std::size_t{1} << 20;  // of the answer; the rest is dropped, and told
inline constexpr std::size_t kRasLineBytes = 1024;  // of a line before it; one that has no end by then is none
inline constexpr std::size_t kRasEssenceLines = 12;
inline constexpr std::size_t kRasEssenceBytes = 160;  // of a line

// Blocks until the service has said all, or the deadline; any thread may call it. Nothing that a server says does harm,
// and of an answer that is cut off, what has come is kept. (As by connect_tcp, a name's resolution is not bounded.)
//
//   const EvidenceSource source = ask_ras("localhost", 28028, std::chrono::steady_clock::now() + 5s);
EvidenceSource ask_ras(const std::string& host, std::uint16_t port, net::Deadline deadline);

// The lines under the headings "Errors" and "Warnings" of a status text; a heading is a line above a line of '='. Each
// is printable and cut to kRasEssenceBytes. Beyond `most_lines` of them, one line more tells how many are left out.
std::vector<std::string> ras_essence(std::string_view text, std::size_t most_lines);

}  // namespace ddp::launcher
