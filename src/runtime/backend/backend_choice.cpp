#include "runtime/backend/backend_choice.h"

#include <ddp/error.h>

#include <algorithm>
#include <map>

#include "base/text.h"

namespace ddp {
namespace {

// The reason against the plug-in: the one that all ranks have, else that of the first rank with one. Empty if it works
// on all.
std::string first_obstacle(std::span<const BackendOffer> offers) {
  const std::string& first = offers.front().probe.obstacle;
  if (std::all_of(offers.begin(), offers.end(), [&](const BackendOffer& o) { return o.probe.obstacle == first; }) &&
      !first.empty()) {
    return first;
  }
  std::map<std::string, std::size_t> owner_of;
  for (std::size_t rank = 0; rank < offers.size(); ++rank) {
    const ProbeResult& probe = offers[rank].probe;
    if (!probe.obstacle.empty()) return "rank " + std::to_string(rank) + ": " + probe.obstacle;
    if (probe.device.empty()) continue;
    const auto [owner, is_new] = owner_of.emplace(probe.device, rank);
    if (!is_new) {
      return "ranks " + std::to_string(owner->second) + " and " + std::to_string(rank) + " have the same GPU (" +
             probe.device + ")";
    }
  }
  return "";
}

}  // namespace

std::string BackendOffer::encode() const {
  return requested + "\n" + probe.device + "\n" + probe.obstacle;
}

BackendOffer BackendOffer::decode(std::string_view text) {
  const std::size_t first = text.find('\n');
  const std::size_t second = first == std::string_view::npos ? first : text.find('\n', first + 1);
  if (second == std::string_view::npos) throw Error(ErrorKind::mismatch, "a rank sent a garbled backend offer");
  return {std::string(text.substr(0, first)),
          {std::string(text.substr(second + 1)), std::string(text.substr(first + 1, second - first - 1))}};
}

std::vector<std::string> backend_names() {
  return {"gloo", "nccl", "mpi"};
}

BackendChoice choose_backend(std::span<const BackendOffer> offers) {
  const std::string& requested = offers.front().requested;
  for (std::size_t rank = 1; rank < offers.size(); ++rank) {
    if (offers[rank].requested == requested) continue;
    throw Error(ErrorKind::mismatch, "rank 0 asks for backend '" + requested + "', rank " + std::to_string(rank) +
                                         " for '" + offers[rank].requested + "'. Set DDP_BACKEND alike on all ranks.");
  }
  const std::vector<std::string> names = backend_names();
  if (!requested.empty() && std::find(names.begin(), names.end(), requested) == names.end()) {
    const auto nearest = base::nearest_match(requested, names);
    throw Error(ErrorKind::invalid_argument, "unknown backend '" + requested + "'." +
                                                 (nearest ? " Did you mean " + *nearest + "?" : "") +
                                                 " Backends: " + base::join(names, ", ") + ".");
  }
  if (requested == "gloo") return {"gloo", "asked for"};
  const std::string obstacle = first_obstacle(offers);
  if (requested.empty()) {
    if (obstacle.empty()) return {"nccl", "a GPU for each rank"};
    return {"gloo", "nccl cannot be used: " + obstacle};
  }
  if (obstacle.empty()) return {requested, "asked for"};
  throw Error(ErrorKind::unavailable, "backend " + requested + " does not work here: " + obstacle +
                                          ". Without --backend (DDP_BACKEND) the best that works is taken.");
}

}  // namespace ddp
