// Which backend all ranks take: a pure function of what every rank found.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/backend/plugin.h"

namespace ddp::internal {

// Whether one backend works on one rank.
struct Candidate {
  std::string name;
  ProbeResult probe;

  friend bool operator==(const Candidate& a, const Candidate& b) {
    return a.name == b.name && a.probe.obstacle == b.probe.obstacle && a.probe.device == b.probe.device;
  }
};

// What one rank tells the others before the choice.
struct BackendOffer {
  std::string requested;              // "", "gloo", "nccl,gloo"
  std::vector<Candidate> candidates;  // of wanted_backends(requested), in its order

  // Makes a failure an obstacle.
  void rule_out(const std::string& backend, const std::string& obstacle);

  std::string encode() const;
  static BackendOffer decode(std::string_view text);

  friend bool operator==(const BackendOffer&, const BackendOffer&) = default;
};

struct BackendChoice {
  std::string name;
  std::string reason;
};

// Names of all backends, for messages.
std::vector<std::string> backend_names();

// The known ones of a request, in its order; without a request: nccl, cpu, gloo.
std::vector<std::string> wanted_backends(std::string_view requested);

// The first that works on every rank; the same on every rank, given the offers in rank order. nccl works with a GPU of
// its own for each rank. Throws invalid_argument (unknown name), mismatch (ranks ask for different ones), unavailable
// (none that was asked for works on all; the reasons and ranks are named).
BackendChoice choose_backend(std::span<const BackendOffer> offers);

}  // namespace ddp::internal
