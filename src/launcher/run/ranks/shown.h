// Shown is a message of another node about its ranks, as the coordinator receives it.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>

#include "wire/control_message.h"

namespace ddp::launcher {

struct Shown {
  std::uint64_t from = 0;  // identifies the node's connection, because nodes may share a host name
  std::string host;
  std::chrono::nanoseconds clock_ahead{0};  // how far its CLOCK_MONOTONIC is ahead of this node's
  wire::Subject what = wire::Subject::nothing;
  std::string text;
};

}  // namespace ddp::launcher
