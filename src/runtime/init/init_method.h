// Parses the text of InitOptions::init_method. The functions are pure.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "runtime/init/start_environment.h"

namespace ddp::internal {

struct InitMethod {
  enum class Kind { environment, tcp, file };
  Kind kind = Kind::environment;
  std::string host;  // only for tcp
  std::uint16_t port = 0;
  std::string path;  // only for file
  std::optional<int> rank;
  std::optional<int> world_size;
};

// Parses "env://", "tcp://host:port?rank=R&world_size=N" or "file:///path?…". Throws invalid_argument with a message
// that names the valid forms.
InitMethod parse_init_method(const std::string& text);

// Returns `environment` with rank and world size from the method, else from `rank` and `world_size` (of InitOptions),
// else unchanged. Throws invalid_argument if the first two differ, if a value is given nowhere, or if they do not fit
// together.
StartEnvironment with_ranks(const InitMethod& method, std::optional<int> rank, std::optional<int> world_size,
                            StartEnvironment environment);

}  // namespace ddp::internal
