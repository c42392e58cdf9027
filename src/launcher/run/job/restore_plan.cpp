#include "launcher/run/job/restore_plan.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <set>
#include <tuple>
#include <utility>

#include "base/text.h"
#include "launcher/limits.h"

namespace ddp::launcher {
namespace {

using wire::KeptState;
using wire::StateKind;
using wire::StatePlace;

// The places for what other nodes send.
constexpr std::array kWholePlaces = {10, 11};
constexpr std::array kPinnedPlaces = {8, 9};

struct Found {
  std::size_t node = 0;
  KeptState state;
};

// Holds what is kept of one step of one attempt.
struct Step {
  std::map<int, Found> own;                           // the latest entry of each rank
  std::map<std::uint64_t, std::vector<Found>> whole;  // by key
  std::optional<Found> finished;                      // an entry of a rank that has finished the step
  bool has_moved = false;                             // a rank's random state has changed after its early entry
  int world = 0;

  void add(std::size_t node, const KeptState& state) {
    world = state.world;
    if (state.kind == StateKind::whole) {
      whole[state.key].push_back({node, state});
      return;
    }
    if (state.kind != StateKind::early && !finished) finished = Found{node, state};
    has_moved = has_moved || state.kind == StateKind::final_moved;
    const auto [entry, is_new] = own.try_emplace(state.rank, Found{node, state});
    if (!is_new && state.kind > entry->second.state.kind) entry->second = {node, state};
  }

  bool has_early() const {
    return std::ranges::any_of(own, [](const auto& entry) { return entry.second.state.kind == StateKind::early; });
  }

  // `known` holds the ranks of which the nodes keep anything. The node of another rank is lost.
  bool is_complete(const std::set<int>& known) const {
    if (own.empty() || (has_early() && (!finished || has_moved))) return false;
    std::set<std::uint64_t> keys;
    for (const auto& [rank, found] : own) keys.insert(found.state.key);
    if (std::ranges::any_of(keys, [&](std::uint64_t key) { return !whole.contains(key); })) return false;
    if (static_cast<int>(own.size()) == world) return true;
    return keys.size() == 1 && std::ranges::all_of(known, [&](int rank) { return own.contains(rank); });
  }
};

StatePlace place_of(const KeptState& state) {
  return {state.area, state.place};
}

int world_of(std::span<const RestoringNode> nodes) {
  return nodes.empty() ? 0 : nodes.back().first_rank + nodes.back().workers;
}

class Planner {
 public:
  Planner(std::span<const RestoringNode> nodes, const Step& step, std::int64_t at) : nodes_(nodes), step_(step) {
    for (const auto& [key, found] : step.whole) {
      for (const Found& one : found) keep_place(one.node, place_of(one.state));
    }
    for (const auto& [rank, found] : step.own) keep_place(found.node, place_of(found.state));
    // The ranks write these places last.
    for (int i = 0; i < wire::kStateRecent; ++i)
      unused_.push_back(static_cast<int>((2 * at + 7 - i) % wire::kStateRecent));
  }

  std::vector<wire::RestorePlan> plans(int attempt, std::int64_t at, std::int64_t lost_steps) {
    std::vector<wire::RestorePlan> plans;
    for (std::size_t node = 0; node < nodes_.size(); ++node) {
      wire::RestorePlan plan{attempt, at, lost_steps, "", {}, {}};
      for (int local_rank = 0; local_rank < nodes_[node].workers; ++local_rank) {
        plan.ranks.push_back(restore(node, local_rank));
      }
      plans.push_back(std::move(plan));
    }
    for (wire::RestorePlan& plan : plans) plan.transfers = transfers_;
    return plans;
  }

 private:
  wire::RankRestore restore(std::size_t node, int local_rank) {
    wire::RankRestore result;
    std::uint64_t key = step_.whole.begin()->first;
    const auto own = step_.own.find(nodes_[node].first_rank + local_rank);
    bool has_finished = false;
    if (own != step_.own.end() && world() == step_.world) {
      key = own->second.state.key;
      result.own = bring(own->second, node, local_rank, kPinnedPlaces);
      has_finished = own->second.state.kind != StateKind::early;
    }
    // A rank that is new needs what is the same on all ranks, too.
    if (!has_finished && step_.finished) result.shared = bring(*step_.finished, node, local_rank, unused_);
    const std::vector<Found>& whole = step_.whole.at(key);
    const auto here = std::ranges::find(whole, node, &Found::node);
    result.whole = bring(here == whole.end() ? whole.front() : *here, node, local_rank, kWholePlaces);
    return result;
  }

  int world() const { return world_of(nodes_); }

  void keep_place(std::size_t node, StatePlace place) { in_use_.insert({node, place.area, place.place}); }

  int free_place(std::size_t node, int area, std::span<const int> places) const {
    const auto is_free = [&](int place) { return !in_use_.contains({node, area, place}); };
    const auto free = std::ranges::find_if(places, is_free);
    return free == places.end() ? places.front() : *free;
  }

  // Returns where the node's ranks find the entry, after a transfer if another node has it.
  StatePlace bring(const Found& found, std::size_t node, int local_rank, std::span<const int> places) {
    if (found.node == node) return place_of(found.state);
    const auto known = brought_.find({node, found.node, found.state.area, found.state.place});
    if (known != brought_.end()) return known->second;
    const StatePlace to{local_rank, free_place(node, local_rank, places)};
    keep_place(node, to);
    brought_[{node, found.node, found.state.area, found.state.place}] = to;
    transfers_.push_back({nodes_[found.node].first_rank, nodes_[node].first_rank + local_rank, place_of(found.state),
                          to, found.state.bytes});
    return to;
  }

  const std::span<const RestoringNode> nodes_;
  const Step& step_;
  std::set<std::tuple<std::size_t, int, int>> in_use_;
  std::map<std::tuple<std::size_t, std::size_t, int, int>, StatePlace> brought_;
  std::vector<wire::StateTransfer> transfers_;
  std::vector<int> unused_;
};

using When = std::pair<int, std::int64_t>;  // attempt and step

// Returns the newest image that the ranks can read and that is newer than what they have in memory.
std::optional<wire::KeptImage> newer_image(const KeptImages& on_disk, int world, std::optional<When> in_memory) {
  std::optional<wire::KeptImage> newest;
  for (const wire::KeptImage& image : on_disk.images) {
    const bool is_newer =
        !in_memory || (image.job_began == on_disk.job_began && When(image.attempt, image.step) > *in_memory);
    const bool is_of_later_job = image.job_began > on_disk.job_began;
    if (!is_newer || is_of_later_job || (image.world != world && !image.has_one_key)) continue;
    newest = newest ? std::max(*newest, image) : image;
  }
  return newest;
}

// `newest` is the step that was finished last.
std::vector<wire::RestorePlan> plans_of(const wire::KeptImage& image, std::span<const RestoringNode> nodes,
                                        std::int64_t job_began, std::int64_t newest) {
  std::vector<wire::RestorePlan> plans;
  for (const RestoringNode& node : nodes) {
    wire::RestorePlan plan{-1, image.step, std::max<std::int64_t>(newest - image.step, 0), name_of(image), {}, {}};
    if (image.job_began == job_began) plan.attempt = image.attempt;
    plan.ranks.resize(static_cast<std::size_t>(node.workers));
    plans.push_back(std::move(plan));
  }
  return plans;
}

}  // namespace

std::vector<wire::RestorePlan> plan_restore(std::span<const RestoringNode> nodes, const KeptImages& on_disk) {
  std::map<std::pair<int, std::int64_t>, Step> steps;  // by attempt and step
  std::set<int> known;
  for (std::size_t node = 0; node < nodes.size(); ++node) {
    for (const KeptState& state : nodes[node].kept) {
      steps[{state.attempt, state.step}].add(node, state);
      known.insert(state.rank);
    }
  }
  const auto last = std::find_if(steps.rbegin(), steps.rend(), [](const auto& entry) { return entry.second.finished; });
  const std::int64_t newest = last == steps.rend() ? 0 : last->first.second;
  const int world = world_of(nodes);
  const auto complete = std::find_if(steps.rbegin(), steps.rend(), [&](const auto& entry) {
    const Step& step = entry.second;
    return step.is_complete(known) && (world == step.world || step.whole.size() <= 1);
  });
  const auto in_memory = complete == steps.rend() ? std::nullopt : std::optional<When>(complete->first);
  if (const auto image = newer_image(on_disk, world, in_memory))
    return plans_of(*image, nodes, on_disk.job_began, newest);
  if (in_memory) {
    const auto& [when, step] = *complete;
    auto plans = Planner(nodes, step, when.second).plans(when.first, when.second, newest - when.second);
    // The plan must fit into a message.
    return plans.front().transfers.size() <= limits::kStateTransfers ? plans : std::vector<wire::RestorePlan>();
  }
  return {};
}

std::string describe(const wire::RestorePlan& plan) {
  if (plan.ranks.empty()) return "";
  std::uint64_t sent = 0;
  for (const wire::StateTransfer& transfer : plan.transfers) sent += transfer.bytes;
  const std::string where =
      plan.image.empty() ? ", which they have kept in memory" : ", from " + plan.image + " in --image-dir";
  // What an earlier job has finished is not known.
  if (plan.attempt < 0) return "the ranks go on after step " + std::to_string(plan.step) + where;
  return "the ranks go on after step " + std::to_string(plan.step) + where +
         (sent > 0 ? " (" + base::human_bytes(sent) + " come from other nodes); " : "; ") +
         (plan.lost_steps <= 0 ? "no step is lost" : base::counted(plan.lost_steps, "step", "is", "are") + " lost");
}

bool has_finished_step(std::span<const KeptState> kept, int attempt) {
  return std::ranges::any_of(kept, [&](const KeptState& state) {
    return state.attempt == attempt && (state.kind == StateKind::final || state.kind == StateKind::final_moved);
  });
}

}  // namespace ddp::launcher
