// PyTorch's flight recorder: each rank of NCCL keeps its last collectives in memory, and writes them to a file when
// somebody writes to its pipe, without an end of the training. It looks at the pipe once a second.
#pragma once

#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "launcher/watchdog/evidence/evidence_source.h"
#include "net/socket.h"

namespace ddp::launcher {

struct FlightRecorders {
  std::string pipes;               // rank 3 listens at <pipes>3.pipe
  std::vector<std::string> stems;  // and writes <stem>3: which one depends on PyTorch's version, the likely one first

  friend bool operator==(const FlightRecorders&, const FlightRecorders&) = default;
};

// Nothing: the job's PyTorch was not told to make pipes. `environment`: "NAME=value" of the workers; of two entries of
// the same name, the later one counts.
std::optional<FlightRecorders> find_flight_recorders(std::span<const std::string> environment);

// Asks all ranks, and blocks until each has written its file, or the deadline; any thread may call it. No other file is
// written or made. A file counts if it is another one than before the asking, or was written to since, and is so no
// more; its content is not looked at. `pause`: between two looks at a file, for tests.
EvidenceSource ask_flight_recorders(const FlightRecorders& recorders, std::span<const int> ranks,
                                    net::Deadline deadline, const std::function<void()>& pause = {});

}  // namespace ddp::launcher
