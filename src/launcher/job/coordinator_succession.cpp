// How a coordinator lets others know who may follow it, and how it takes over a job itself.
#include <algorithm>

#include "base/exit_code.h"
#include "base/text.h"
#include "launcher/job/coordinator.h"
#include "launcher/limits.h"

namespace ddp::launcher {

void Coordinator::take_over(const Takeover& takeover, TimePoint now) {
  standing_.job_key = takeover.vote.job_key;
  election_.emplace(takeover.vote);
  election_since_ = now;
  attempt_ = election_->attempt();
  phase_ = Phase::ending;
  cause_ = takeover.cause;
  started_at_ = takeover.began_at;
  run_time_ = now - started_at_;
  Node& own = roster_.at(kOwnNode);
  own.memberships = takeover.vote.memberships;
  own.place = 0;  // rank 0 runs where the store is
  own.takes_part = true;
  still_run_ = 1;
}

void Coordinator::welcome(NodeId from, const std::string& address, const wire::NodeHello& hello, TimePoint now) {
  if (hello.vote.job_key != standing_.job_key)
    return send_away(from, {hello.host, address}, "it belongs to a job that has lost its first node");
  roster_.add(from, address, hello, now, now);
  Node& node = roster_.at(from);
  node.memberships = hello.vote.memberships;
  node.place = node_rank_in(node.memberships, hello.vote.attempt);
  if (election_) {
    election_->add(from, hello.vote);
    attempt_ = election_->attempt();
    node.takes_part = true;  // until it says that its workers have ended
    ++still_run_;
    tell_electorate();
    return go_on_if_all_have_ended(now);
  }
  if (!hello.vote.has_ended) roster_.admit(from, TimePoint::max());
  if (phase_ == Phase::gathering) return gather_more(now);
  send(from, wire::CoordinatorWaits{"the job is running; this node waits until it can join", true, standing_});
}

void Coordinator::hears_of_another(NodeId from, const std::string& address,
                                   const wire::CoordinatorIsElsewhere& other) {
  close(from);
  if (other.job != own_.job || standing_.job_key.empty()) return;
  if (phase_ != Phase::gathering || attempt_ > 0) {
    tell_of_stranger(address, "another node (" + address + ") leads a job that should have met here. If it is this one, "
                              "end one of them: two jobs must not write the same checkpoints");
    return;
  }
  tell(LogLevel::note, "the job runs already, and another node (" + other.address + ") leads it; this one joins it");
  for (const auto& [id, node] : roster_.all()) {
    if (id != kOwnNode) send(id, other);
  }
  phase_ = Phase::over;
  leave_at_ = TimePoint::max();
  actions_.emplace_back(FollowCoordinator{other.address, other.port});
}

bool Coordinator::has_won(TimePoint now) {
  if (!election_) return true;
  if (!election_->is_decided()) return false;
  if (!election_->is_complete() && now < election_since_ + limits::kSuccessionWait) return false;
  tell(LogLevel::warning, "this node leads the job now, with " + election_->describe());
  standing_.electorate = election_->electorate();
  standing_.history = election_->history();
  election_.reset();
  return true;
}

Coordinator::TimePoint Coordinator::election_alarm() const {
  if (!election_) return TimePoint::max();
  return election_since_ + (election_->is_decided() ? limits::kSuccessionWait : 2 * options_.nodes.node_timeout);
}

void Coordinator::look_at_election(TimePoint now) {
  if (!election_ || now < election_alarm()) return;
  if (election_->is_decided()) return go_on_if_all_have_ended(now);
  finish({.text = cause_->text + ", and only " + election_->describe() +
                  " have found each other, which are too few to go on",
          .exit_code = base::kExitOwnFault,
          .code = wire::CauseCode::lost_node},
         now);
}

std::vector<wire::Successor> Coordinator::successors(std::span<const NodeId> seated) const {
  std::vector<wire::Successor> all;
  for (const NodeId id : seated) {
    const Node& node = roster_.all().at(id);
    if (id == kOwnNode || node.hello.port == 0 || all.size() >= limits::kSuccessors) continue;
    all.push_back({node.place, node.address, node.hello.port});
  }
  return all;
}

wire::Electorate Coordinator::propose(std::span<const NodeId> seated) {
  if (standing_.job_key.empty()) return {};
  for (const NodeId id : seated) remember(roster_.at(id).memberships, {attempt_, roster_.at(id).place});
  standing_.successors = successors(seated);
  const wire::Electorate proposed{attempt_, static_cast<int>(seated.size()), 0, {}};
  if (standing_.electorate.attempt < 0) standing_.electorate = proposed;
  return proposed;
}

// A node that is lost has lost this coordinator, too, or was refused. It never votes.
void Coordinator::forget(const Node& node) {
  if (standing_.job_key.empty() || node.memberships.empty()) return;
  const auto remove = [&](wire::Electorate& electorate) {
    electorate = without(electorate, node_rank_in(node.memberships, electorate.attempt));
  };
  remove(standing_.electorate);
  remove(proposed_);
  replace_electorate();
  tell_electorate();
}

void Coordinator::replace_electorate() {
  if (proposed_.attempt <= standing_.electorate.attempt) return;
  std::set<int> know;
  for (const auto& [id, node] : roster_.all()) {
    if (node.knows_attempt >= proposed_.attempt)
      know.insert(node_rank_in(node.memberships, standing_.electorate.attempt));
  }
  if (!may_be_replaced(standing_.electorate, know)) return;
  standing_.electorate = proposed_;
  tell_electorate();
}

void Coordinator::tell_electorate() {
  const wire::Electorate& electorate = election_ ? election_->electorate() : standing_.electorate;
  for (const auto& [id, node] : roster_.all()) {
    if (id != kOwnNode) send(id, wire::NodeHeartbeat{-1, electorate});
  }
}

}  // namespace ddp::launcher
