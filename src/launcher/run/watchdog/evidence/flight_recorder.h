// PyTorch's flight recorder keeps the last collectives of each NCCL rank in memory. If a process writes to the rank's
// pipe, the rank writes them to a file, and the training continues. The rank checks its pipe once per second.
#pragma once

#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "launcher/run/ranks/evidence.h"
#include "net/socket.h"

namespace ddp::launcher {

struct FlightRecorders {
  std::string pipes;               // prefix of the pipes: rank 3 reads from <pipes>3.pipe
  std::vector<std::string> stems;  // file prefixes: rank 3 writes <stem>3 for one of them; the likely one is first

  friend bool operator==(const FlightRecorders&, const FlightRecorders&) = default;
};

// Returns std::nullopt if the job's PyTorch is not configured to make pipes. `environment` contains "NAME=value" of the
// workers. If it contains a name twice, the later entry counts.
std::optional<FlightRecorders> find_flight_recorders(std::span<const std::string> environment);

// Asks all ranks, and blocks until each has written its file, or until the deadline. Any thread may call it. It creates
// and writes no other file. A file counts if it was replaced or written to since the request, and does not change any
// more. Its content is not read. `pause` replaces the pause between two checks of a file, for tests.
EvidenceSource ask_flight_recorders(const FlightRecorders& recorders, std::span<const int> ranks,
                                    net::Deadline deadline, const std::function<void()>& pause = {});

}  // namespace ddp::launcher
