// The choice of the backend for all ranks is a pure function of the offers of all ranks.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/backend/plugin.h"

namespace ddp::internal {

// Describes whether one backend works on one rank.
struct Candidate {
  std::string name;
  ProbeResult probe;

  friend bool operator==(const Candidate& a, const Candidate& b) {
    return a.name == b.name && a.probe.obstacle == b.probe.obstacle && a.probe.device == b.probe.device;
  }
};

// Holds the offer that one rank sends to the others before the choice.
struct BackendOffer {
  std::string requested;              // the requested names: "", "gloo", "nccl,gloo"
  std::vector<Candidate> candidates;  // one per name of wanted_backends(requested), in its order

  // Records a failure of the backend as its obstacle.
  void rule_out(const std::string& backend, const std::string& obstacle);

  std::string encode() const;
  static BackendOffer decode(std::string_view text);

  friend bool operator==(const BackendOffer&, const BackendOffer&) = default;
};

struct BackendChoice {
  std::string name;
  std::string reason;
};

// Returns the names of all backends, for messages.
std::vector<std::string> backend_names();

// Returns the known backends of a request, in its order. Without a request, returns nccl, cpu, gloo.
std::vector<std::string> wanted_backends(std::string_view requested);

// Returns the first backend that works on every rank. Every rank gets the same result, if the offers are in rank order.
// nccl works if each rank has a different GPU. Throws invalid_argument (unknown name), mismatch (ranks ask for
// different backends) or unavailable (no requested backend works on all ranks). The message of unavailable names the
// reasons and ranks.
BackendChoice choose_backend(std::span<const BackendOffer> offers);

}  // namespace ddp::internal
