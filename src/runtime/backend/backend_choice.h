// Which backend all ranks take: a pure function of what every rank found.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "runtime/backend/plugin.h"

namespace ddp {

// What one rank tells the others before the choice.
struct BackendOffer {
  std::string requested;  // "", "gloo", "nccl" or "mpi"
  ProbeResult probe;      // of nccl, or of the requested plug-in

  std::string encode() const;
  static BackendOffer decode(std::string_view text);

  friend bool operator==(const BackendOffer& a, const BackendOffer& b) {
    return a.requested == b.requested && a.probe.obstacle == b.probe.obstacle && a.probe.device == b.probe.device;
  }
};

struct BackendChoice {
  std::string name;
  std::string reason;
};

// Names of all backends, for messages.
std::vector<std::string> backend_names();

// The same on every rank, given the offers in rank order. Without a request: nccl if it works on every rank with a GPU
// of its own, else gloo. Throws invalid_argument (unknown name), mismatch (ranks ask for different ones), unavailable
// (the requested one does not work on some rank; the reason and the rank are named).
BackendChoice choose_backend(std::span<const BackendOffer> offers);

}  // namespace ddp
