// Environment holds the launcher's description of this process: its rank, the world size and so on.
#pragma once

#include <ddp/export.h>

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

namespace ddp {

// This is a value type. docs/reference/environment.md lists the variables from which it is read.
struct Environment {
  int rank = 0;
  int world_size = 1;
  int local_rank = 0;
  int local_world_size = 1;
  int restart_count = 0;
  std::string master_addr = {};  // address of the store; empty if none was named
  std::uint16_t master_port = 0;
  std::string backend = {};  // DDP_BACKEND; if empty, the best backend that works
  bool quiet = false;        // DDP_QUIET; suppresses the line about the backend
  bool detail = false;       // DDP_DEBUG=detail; ranks of different nodes compare their calls too

  using Lookup = std::function<std::optional<std::string>(const char* name)>;

  // Read RANK, WORLD_SIZE, LOCAL_RANK, LOCAL_WORLD_SIZE, MASTER_ADDR, MASTER_PORT and so on. If RANK is absent, they
  // read the variables that mpirun sets. If those are absent too, the result is a world of one, which init() refuses if
  // WORLD_SIZE differs. Throw invalid_argument, naming the variable, if one is missing or is not a number in range.
  DDP_EXPORT static Environment from_process();
  DDP_EXPORT static Environment from_lookup(const Lookup& lookup);
};

}  // namespace ddp
