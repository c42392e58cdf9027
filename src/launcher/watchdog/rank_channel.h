// RankChannel: what the nodes of a job show each other of their ranks, and how they ask for it.
// docs/decisions/0023-all-ranks-are-judged-together.md
#pragma once

#include <chrono>
#include <cstdint>
#include <string>

#include "wire/control_message.h"

namespace ddp::launcher {

// What another node shows of its ranks.
struct Shown {
  std::uint64_t from = 0;  // its connection: hosts may have one name
  std::string host;
  std::chrono::nanoseconds clock_ahead{0};  // of its CLOCK_MONOTONIC, against ours
  wire::Subject what = wire::Subject::nothing;
  std::string text;
};

class RankChannel {
 public:
  virtual ~RankChannel() = default;

  virtual bool is_coordinator() const = 0;
  // To the coordinator; of the coordinator's own ranks nothing is shown.
  virtual void show(wire::Subject what, const std::string& text) = 0;
  // The coordinator asks all other nodes that take part; others ask nobody.
  virtual void ask(wire::Subject what) = 0;
};

}  // namespace ddp::launcher
