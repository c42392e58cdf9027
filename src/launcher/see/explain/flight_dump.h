// Reads the dumps of PyTorch's flight recorder, as pickle and as JSON, of PyTorch 2.2 to 2.14.
#pragma once

#include <optional>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "launcher/see/explain/collective_records.h"

namespace ddp::launcher {

// Returns whether the first bytes of a file look like a dump. It suffices to pass the first 4096.
bool may_be_flight_dump(std::string_view bytes);

// Returns the rank that the name of a dump's file contains: 3 for "/tmp/nccl_trace_rank_3" and "rank3.json".
std::optional<int> rank_of_dump(std::string_view file_name);

// Returns the records of one rank, one for each process group. Fails with the reason if the bytes are no dump, or if
// the file's name does not contain the rank.
base::Result<std::vector<CollectiveRecords>> read_flight_dump(std::string_view bytes, std::string_view file_name);

}  // namespace ddp::launcher
