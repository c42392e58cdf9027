#include "runtime/backend/backend_choice.h"

#include <ddp/error.h>

#include <algorithm>
#include <map>

#include "base/text.h"
#include "runtime/backend/backend_errors.h"

namespace ddp::internal {
namespace {

constexpr char kRecord = '\x1e';
constexpr char kField = '\x1f';

// Returns the reason why a backend cannot be used: the reason that all ranks share, else the reason of the first rank
// that has one. Returns an empty string if the backend works on all ranks.
std::string first_obstacle(std::span<const BackendOffer> offers, std::size_t candidate) {
  const auto probe_of = [&](std::size_t rank) -> const ProbeResult& {
    return offers[rank].candidates.at(candidate).probe;
  };
  const std::string& first = probe_of(0).obstacle;
  bool all_alike = !first.empty();
  for (std::size_t rank = 0; rank < offers.size(); ++rank) all_alike = all_alike && probe_of(rank).obstacle == first;
  if (all_alike) return first;
  std::map<std::string, std::size_t> owner_of;
  for (std::size_t rank = 0; rank < offers.size(); ++rank) {
    const ProbeResult& probe = probe_of(rank);
    if (!probe.obstacle.empty()) return "rank " + std::to_string(rank) + ": " + probe.obstacle;
    if (probe.device.empty()) continue;
    const auto [owner, is_new] = owner_of.emplace(probe.device, rank);
    if (!is_new) return same_gpu_text(owner->second, rank, probe.device);
  }
  return "";
}

void require_one_request(std::span<const BackendOffer> offers) {
  const std::string& requested = offers.front().requested;
  for (std::size_t rank = 1; rank < offers.size(); ++rank) {
    if (offers[rank].requested != requested) throw other_request_error(requested, rank, offers[rank].requested);
  }
}

void require_known_names(const std::string& requested) {
  const std::vector<std::string> names = backend_names();
  for (const std::string& name : base::split(requested, ',')) {
    if (requested.empty() || std::find(names.begin(), names.end(), name) != names.end()) continue;
    throw unknown_backend_error(name, names);
  }
}

}  // namespace

void BackendOffer::rule_out(const std::string& backend, const std::string& obstacle) {
  for (Candidate& candidate : candidates) {
    if (candidate.name == backend) candidate.probe.obstacle = obstacle;
  }
}

std::string BackendOffer::encode() const {
  std::string text = requested;
  for (const auto& [name, probe] : candidates) text += kRecord + name + kField + probe.device + kField + probe.obstacle;
  return text;
}

BackendOffer BackendOffer::decode(std::string_view text) {
  BackendOffer offer;
  const std::vector<std::string> records = base::split(text, kRecord);
  if (!records.empty()) offer.requested = records.front();
  for (std::size_t i = 1; i < records.size(); ++i) {
    const std::vector<std::string> fields = base::split(records[i], kField);
    if (fields.size() != 3) throw malformed_offer_error(false);
    offer.candidates.push_back({fields[0], {fields[2], fields[1]}});
  }
  std::vector<std::string> names;
  for (const Candidate& candidate : offer.candidates) names.push_back(candidate.name);
  if (names != wanted_backends(offer.requested)) throw malformed_offer_error(true);
  return offer;
}

std::vector<std::string> backend_names() {
  return {"cpu", "gloo", "nccl", "mpi"};
}

std::vector<std::string> wanted_backends(std::string_view requested) {
  if (requested.empty()) return {"nccl", "cpu", "gloo"};
  const std::vector<std::string> names = backend_names();
  std::vector<std::string> wanted;
  for (const std::string& name : base::split(requested, ',')) {
    if (std::find(names.begin(), names.end(), name) != names.end()) wanted.push_back(name);
  }
  return wanted;
}

BackendChoice choose_backend(std::span<const BackendOffer> offers) {
  require_one_request(offers);
  const std::string& requested = offers.front().requested;
  require_known_names(requested);
  std::vector<std::string> obstacles;
  const std::vector<Candidate>& candidates = offers.front().candidates;
  for (std::size_t i = 0; i < candidates.size(); ++i) {
    const std::string& name = candidates[i].name;
    const std::string obstacle = first_obstacle(offers, i);
    if (obstacle.empty()) {
      const std::string best = requested.empty() ? "a GPU for each rank" : "requested";
      return {name, obstacles.empty() ? best : base::join(obstacles, "; ")};
    }
    obstacles.push_back(name + " cannot be used: " + obstacle);
  }
  const bool is_one = candidates.size() == 1;
  throw no_backend_error(requested, is_one, is_one ? first_obstacle(offers, 0) : base::join(obstacles, "; "));
}

}  // namespace ddp::internal
