#include "launcher/run/job/node_roster.h"

#include <algorithm>
#include <tuple>

#include "base/printable.h"
#include "base/text.h"
#include "launcher/limits.h"
#include "launcher/run/job/node_hello.h"

namespace ddp::launcher {
namespace {

// At most this many node names are sent to all nodes.
constexpr std::size_t kNamedNodes = 16;

// Returns a text such as "b (ranks 2-3, 10.0.0.7)". The coordinator's own node has no address.
std::string place_text(const NodeRoster::Entry& node) {
  const int last = node.first_rank + node.hello.workers - 1;
  const std::string first = std::to_string(node.first_rank);
  return node.name + " (" +
         (node.hello.workers == 1 ? "rank " + first : "ranks " + first + "-" + std::to_string(last)) +
         (node.address.empty() ? "" : ", " + node.address) + ")";
}

// Returns a text such as "a, b, … and 84 more".
std::string some_of(std::vector<std::string> names) {
  if (names.size() <= kNamedNodes) return base::join(names, ", ");
  const auto more = names.size() - kNamedNodes;
  names.resize(kNamedNodes);
  return base::join(names, ", ") + ", … and " + std::to_string(more) + " more";
}

}  // namespace

void NodeRoster::add(NodeId id, const std::string& address, const wire::NodeHello& hello, TimePoint may_begin,
                     TimePoint now) {
  const auto ahead = clock_ahead(hello.monotonic, now.time_since_epoch());
  nodes_[id] = {hello, name_for(hello.host), address, next_order_++, ahead, now, may_begin, false, false, 0};
  if (may_begin > now) kept_out_.insert(id);
  if (hello.node_rank != wire::kAnyNodeRank) numbered_[hello.node_rank] = id;
}

void NodeRoster::remove(NodeId id) {
  numbered_.erase(nodes_.at(id).hello.node_rank);
  kept_out_.erase(id);
  nodes_.erase(id);
}

void NodeRoster::admit(NodeId id, TimePoint when) {
  nodes_.at(id).may_begin = when;
  kept_out_.insert(id);  // until the nodes are counted
}

NodeRoster::Entry* NodeRoster::find(NodeId id) {
  const auto found = nodes_.find(id);
  return found == nodes_.end() ? nullptr : &found->second;
}

std::optional<NodeId> NodeRoster::with_number(int number) const {
  const auto found = numbered_.find(number);
  return found == numbered_.end() ? std::nullopt : std::optional(found->second);
}

std::string NodeRoster::name_for(const std::string& host) const {
  const auto is_taken = [&](const std::string& name) {
    return std::ranges::any_of(nodes_, [&](const auto& entry) { return entry.second.name == name; });
  };
  const std::string name = base::printable(host, limits::kShownName);
  std::string unique = name;
  for (int number = 2; is_taken(unique); ++number) unique = name + "#" + std::to_string(number);
  return unique;
}

int NodeRoster::count_those_that_may(TimePoint now) {
  check_again_at_ = TimePoint::max();
  std::erase_if(kept_out_, [&](NodeId id) { return nodes_.at(id).may_begin <= now; });
  for (const NodeId id : kept_out_) check_again_at_ = std::min(check_again_at_, nodes_.at(id).may_begin);
  return static_cast<int>(nodes_.size() - kept_out_.size());
}

// Ranks that keep their node find there what they have kept.
void NodeRoster::keep_places(std::vector<NodeId>& seated) const {
  std::vector<std::optional<NodeId>> places(seated.size());
  std::vector<NodeId> others;
  for (const NodeId id : seated) {
    const int former = nodes_.at(id).place;
    if (former >= 0 && former < std::ssize(places) && !places[static_cast<std::size_t>(former)]) {
      places[static_cast<std::size_t>(former)] = id;
    } else {
      others.push_back(id);
    }
  }
  auto next = others.begin();
  for (std::size_t place = 0; place < seated.size(); ++place) seated[place] = places[place] ? *places[place] : *next++;
}

NodeRoster::Seating NodeRoster::seat(TimePoint now) {
  Seating seating;
  for (const NodeId id : in_order()) {
    const bool is_full = seating.seated.size() == static_cast<std::size_t>(max_nodes_);
    (is_full || nodes_.at(id).may_begin > now ? seating.left_over : seating.seated).push_back(id);
  }
  if (!is_static_) keep_places(seating.seated);
  std::vector<std::string> names;
  for (std::size_t place = 0; place < seating.seated.size(); ++place) {
    Entry& node = nodes_.at(seating.seated[place]);
    node.place = static_cast<int>(place);
    node.takes_part = true;
    node.has_ended = false;
    node.first_rank = seating.world_size;
    seating.world_size += node.hello.workers;
    names.push_back(place_text(node));
  }
  seating.text = some_of(std::move(names));
  return seating;
}

std::string NodeRoster::here() const {
  std::vector<std::string> names;
  for (const NodeId id : in_order()) {
    if (names.size() < kNamedNodes) names.push_back(nodes_.at(id).name);
  }
  const std::string have = base::join(names, ", ") + (nodes_.size() > names.size() ? ", …" : "");
  std::vector<int> missing;
  for (int number = 0; is_static_ && number < max_nodes_; ++number) {
    if (!numbered_.contains(number)) missing.push_back(number);
  }
  return have + (missing.empty() ? "" : "; missing: --node-rank " + base::rank_list(missing));
}

std::string NodeRoster::node_of(int rank) const {
  for (const auto& [id, node] : nodes_) {
    const int local_rank = rank - node.first_rank;
    if (node.takes_part && local_rank >= 0 && local_rank < node.hello.workers) return node.name;
  }
  return "";
}

std::vector<std::string> NodeRoster::spares() const {
  std::vector<std::string> names;
  for (const NodeId id : in_order()) {
    if (!nodes_.at(id).takes_part) names.push_back(nodes_.at(id).name);
  }
  return names.size() == nodes_.size() ? std::vector<std::string>() : names;
}

std::string NodeRoster::ranks_but(const std::set<int>& ranks) const {
  std::vector<std::string> names;
  for (const NodeId id : in_order()) {
    const Entry& node = nodes_.at(id);
    std::vector<int> others;
    for (int rank = node.first_rank; rank < node.first_rank + node.hello.workers; ++rank) {
      if (!ranks.contains(rank)) others.push_back(rank);
    }
    if (!node.takes_part || node.has_ended || others.empty()) continue;
    names.push_back(base::ranks_text(others) + " on " + node.name);
  }
  return base::join(names, ", ");
}

// Sorts the nodes by number if they have one, otherwise by arrival. The coordinator's own node is the first in both
// orders.
std::vector<NodeId> NodeRoster::in_order() const {
  std::vector<std::tuple<int, int, NodeId>> sorted;
  for (const auto& [id, node] : nodes_) sorted.emplace_back(node.hello.node_rank, node.order, id);
  std::ranges::sort(sorted);
  std::vector<NodeId> ids;
  for (const auto& [rank, order, id] : sorted) ids.push_back(id);
  return ids;
}

void QuarantinedNodes::was_lost(const std::string& host, TimePoint now) {
  History& history = hosts_[host];
  if (history.losses > 0 && now - history.last > limits::kFlapMemory) history.losses = 0;
  ++history.losses;
  history.last = now;
}

QuarantinedNodes::TimePoint QuarantinedNodes::may_return(const std::string& host) const {
  const auto found = hosts_.find(host);
  if (found == hosts_.end() || found->second.losses < 2) return TimePoint::min();
  std::chrono::milliseconds delay = limits::kFlapDelay;
  for (int i = 2; i < found->second.losses && delay < limits::kLongestFlapDelay; ++i) delay *= 2;
  return found->second.last + std::min<std::chrono::milliseconds>(delay, limits::kLongestFlapDelay);
}

}  // namespace ddp::launcher
