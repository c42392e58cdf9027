// What the text of InitOptions::init_method means. Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "runtime/init/start_environment.h"

namespace ddp::internal {

struct InitMethod {
  enum class Kind { environment, tcp, file };
  Kind kind = Kind::environment;
  std::string host;  // tcp
  std::uint16_t port = 0;
  std::string path;  // file
  std::optional<int> rank;
  std::optional<int> world_size;
};

// "env://", "tcp://host:port?rank=R&world_size=N", "file:///path?…". Throws invalid_argument that says what to write.
InitMethod parse_init_method(const std::string& text);

// `environment` with rank and world size from the method, else from `rank` and `world_size` (InitOptions'), else as
// they are. Throws invalid_argument if the first two differ, if one is nowhere to be found, or if they do not fit
// together.
StartEnvironment with_ranks(const InitMethod& method, std::optional<int> rank, std::optional<int> world_size,
                            StartEnvironment environment);

}  // namespace ddp::internal
