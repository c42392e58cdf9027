// Environment: who this process is, as the launcher said it.
#pragma once

#include <ddp/export.h>

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

namespace ddp {

// A value. docs/reference/environment.md lists the variables it is read from.
struct Environment {
  int rank = 0;
  int world_size = 1;
  int local_rank = 0;
  int local_world_size = 1;
  int restart_count = 0;
  std::string master_addr = {};  // empty: no store was named
  std::uint16_t master_port = 0;
  std::string backend = {};  // DDP_BACKEND; empty: the best that works
  bool quiet = false;        // DDP_QUIET: no line about the backend
  bool detail = false;       // DDP_DEBUG=detail: ranks of several nodes compare their calls, too

  using Lookup = std::function<std::optional<std::string>(const char* name)>;

  // From RANK, WORLD_SIZE, LOCAL_RANK, LOCAL_WORLD_SIZE, MASTER_ADDR, MASTER_PORT and so on; if RANK is absent, from
  // what mpirun sets; if that is absent too, a world of one (init() refuses it if WORLD_SIZE says otherwise). Throws
  // invalid_argument, naming the variable, if one is missing or is not a number in range.
  DDP_EXPORT static Environment from_process();
  DDP_EXPORT static Environment from_lookup(const Lookup& lookup);
};

}  // namespace ddp
