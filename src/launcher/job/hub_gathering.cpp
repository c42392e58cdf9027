// The hub gathers nodes, and begins an attempt with them.
#include <algorithm>
#include <tuple>
#include <utility>

#include "base/printable.h"
#include "base/text.h"
#include "launcher/job/hub.h"
#include "launcher/job/hub_words.h"
#include "launcher/job/node_comparison.h"
#include "launcher/limits.h"

namespace ddp::launcher {
namespace {

using wire::NodeHello;

constexpr const char* kNoPlace =
    "the job has all of its nodes, and no place for another one: it does not begin again (--max-restarts)";

}  // namespace

void Hub::take_in(NodeId id, const std::string& address, const NodeHello& hello, TimePoint now) {
  const auto ahead = clock_ahead(hello.monotonic, now.time_since_epoch());
  nodes_[id] = {
      hello, name_for(hello.host), address, next_order_++, ahead, now, flapping_.may_return(hello.host), false, false,
      0};
  if (nodes_.at(id).may_begin > now) kept_out_.insert(id);
  if (hello.node_rank != wire::kAnyNodeRank) numbered_[hello.node_rank] = id;
}

std::string Hub::name_for(const std::string& host) const {
  const auto is_taken = [&](const std::string& name) {
    return std::any_of(nodes_.begin(), nodes_.end(), [&](const auto& entry) { return entry.second.name == name; });
  };
  const std::string name = base::printable(host, limits::kShownName);
  std::string unique = name;
  for (int number = 2; is_taken(unique); ++number) unique = name + "#" + std::to_string(number);
  return unique;
}

void Hub::greet(NodeId from, const std::string& address, const NodeHello& hello, TimePoint now) {
  const Stranger who{hello.host, address};
  // The next job may have this endpoint in a moment: who hears nothing goes on looking.
  if (phase_ == Phase::over) return close(from);
  if (const std::string why = difference_of_kind(hello, own_, options_.is_static, options_.max_nodes); !why.empty())
    return send_away(from, who, why);
  if (const auto other = numbered_.find(hello.node_rank); other != numbered_.end()) {
    // One that has gone without a word, perhaps, and is back: it has its place when it is given up.
    if (other->second != kOwnNode && now - nodes_.at(other->second).heard_at > 2 * limits::kNodeBeat)
      return close(from);
    return send_away(
        from, who,
        "node " + nodes_.at(other->second).name + " has --node-rank=" + std::to_string(hello.node_rank) + " already");
  }
  if (phase_ != Phase::gathering && options_.max_restarts == 0) return send_away(from, who, kNoPlace);
  for (const Remark& remark : remarks_on(hello, own_, now.time_since_epoch())) {
    if (!warned_of_.contains(remark.of) && tell_of_stranger(address, remark.line)) warned_of_.insert(remark.of);
    send(from, wire::HubWaits{remark.line});
  }
  take_in(from, address, hello, now);
  if (const TimePoint when = nodes_.at(from).may_begin; when > now) {
    const std::string text =
        "this host was lost again and again: it may take part in " + base::human_duration(when - now);
    tell_of_stranger(address, "node " + nodes_.at(from).name + " (" + address + "): " + text);
    send(from, wire::HubWaits{text});
  }
  if (phase_ == Phase::gathering) return gather_more(now);
  send(from, wire::HubWaits{"the job runs; this node waits for a place in it", true});
}

void Hub::send_away(NodeId from, const Stranger& who, const std::string& why) {
  const std::string line = "node " + base::printable(who.host, limits::kShownName) + " (" + who.address +
                           ") was sent away: " + base::printable(why, limits::kShownReason);
  tell_of_stranger(who.address, line);
  send(from, wire::HubRefuses{why});
  close(from);
}

bool Hub::tell_of_stranger(const std::string& address, const std::string& line) {
  const auto allowed = stranger_lines_.allow(address, line);
  if (allowed) tell(*allowed);
  return allowed.has_value();
}

void Hub::gather(TimePoint now) {
  phase_ = Phase::gathering;
  gathering_since_ = now;
  next_word_ = now + limits::kNodeFirstWord;
  is_enough_ = false;
  last_count_ = 0;
  cause_.reset();
  settle_at_.reset();
  left_.clear();
  still_run_ = 0;
  for (auto& [id, node] : nodes_) node.takes_part = node.has_ended = false;
  gather_more(now);
}

int Hub::count_those_that_may(TimePoint now) {
  look_again_at_ = TimePoint::max();
  std::erase_if(kept_out_, [&](NodeId id) { return nodes_.at(id).may_begin <= now; });
  for (const NodeId id : kept_out_) look_again_at_ = std::min(look_again_at_, nodes_.at(id).may_begin);
  return static_cast<int>(nodes_.size() - kept_out_.size());
}

void Hub::gather_more(TimePoint now) {
  const int count = count_those_that_may(now);
  if (count >= options_.max_nodes) return start(now);
  const bool was_enough = std::exchange(is_enough_, count >= options_.min_nodes);
  // Who comes late is waited for again.
  const bool has_come = count > std::exchange(last_count_, count);
  if (is_enough_ && has_come) enough_since_ = now;
  if (is_enough_ && !was_enough && options_.last_call.count() == 0) return start(now);
}

void Hub::tell_who_is_missing(TimePoint now) {
  const int have = count_those_that_may(now);
  const auto wanted = is_enough_ ? options_.max_nodes : options_.min_nodes;
  const auto limit = is_enough_ ? options_.last_call : options_.join_timeout;
  const auto since = is_enough_ ? enough_since_ : gathering_since_;
  const std::string text = "waiting for " + std::to_string(wanted - have) + " of " + std::to_string(wanted) +
                           " nodes (have: " + here() + "; " + base::human_duration(now - since) + " of " +
                           base::human_duration(limit) + ")";
  tell(text);
  for (const auto& [id, node] : nodes_) {
    if (id != kOwnNode) send(id, wire::HubWaits{text});
  }
  next_word_ = now + limits::kNodeNextWord;
}

std::string Hub::here() const {
  std::vector<std::string> names;
  for (const NodeId id : in_order()) {
    if (names.size() < kNamedNodes) names.push_back(nodes_.at(id).name);
  }
  const std::string have = base::join(names, ", ") + (nodes_.size() > names.size() ? ", …" : "");
  std::vector<int> missing;
  for (int number = 0; options_.is_static && number < options_.max_nodes; ++number) {
    if (!numbered_.contains(number)) missing.push_back(number);
  }
  return have + (missing.empty() ? "" : "; missing: --node-rank " + base::rank_list(missing));
}

// By number where they have one, else by arrival; the hub's own node is the first in both.
std::vector<NodeId> Hub::in_order() const {
  std::vector<std::tuple<int, int, NodeId>> sorted;
  for (const auto& [id, node] : nodes_) sorted.emplace_back(node.hello.node_rank, node.order, id);
  std::ranges::sort(sorted);
  std::vector<NodeId> ids;
  for (const auto& [rank, order, id] : sorted) ids.push_back(id);
  return ids;
}

void Hub::start(TimePoint now) {
  std::vector<NodeId> ids = in_order();
  const auto kept_out =
      std::stable_partition(ids.begin(), ids.end(), [&](NodeId id) { return nodes_.at(id).may_begin <= now; });
  const auto count =
      std::min(static_cast<std::size_t>(kept_out - ids.begin()), static_cast<std::size_t>(options_.max_nodes));
  int ranks = 0;
  std::vector<std::string> names;
  for (std::size_t i = 0; i < count; ++i) {
    Node& node = nodes_.at(ids[i]);
    node.takes_part = true;
    node.has_ended = false;
    ++still_run_;
    node.first_rank = ranks;
    ranks += node.hello.workers;
    names.push_back(place_text(node.name, node.address, node.first_rank, node.hello.workers));
  }
  phase_ = Phase::running;
  started_at_ = now;
  progress_ = wire::Progress::unknown;
  const std::string all = some_of(std::move(names));
  actions_.emplace_back(EmptyStore{});
  for (std::size_t i = 0; i < ids.size(); ++i) {
    if (i >= count && options_.max_restarts > 0) {
      send(ids[i], wire::HubWaits{"the job has all of its nodes; this one waits for a place in it", true});
      continue;
    }
    if (i >= count) {
      const Node spare = nodes_.at(ids[i]);
      forget(ids[i]);
      send_away(ids[i], {spare.name, spare.address}, kNoPlace);
      continue;
    }
    const Node& node = nodes_.at(ids[i]);
    send(ids[i], wire::HubBegins{attempt_, static_cast<int>(i), static_cast<int>(count), node.first_rank, ranks, all,
                                 node.name == node.hello.host ? "" : node.name});
  }
}

}  // namespace ddp::launcher
