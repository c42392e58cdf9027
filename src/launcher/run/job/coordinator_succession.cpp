// How a coordinator lets others know who may follow it, and how it takes over a job itself.
#include <algorithm>
#include <functional>

#include "base/text.h"
#include "launcher/limits.h"
#include "launcher/run/job/blame.h"
#include "launcher/run/job/coordinator.h"

namespace ddp::launcher {

void Coordinator::take_over(const Takeover& takeover, TimePoint now) {
  standing_.job_key = takeover.vote.job_key;
  election_.emplace(takeover.vote);
  election_since_ = now;
  election_alarm_ = now;
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
  // Without a membership, it only asks which job this is.
  if (hello.vote.job_key != standing_.job_key || hello.vote.memberships.empty())
    return send_away(from, hello.host, address, "it belongs to a job that has lost its first node");
  roster_.add(from, address, hello, now, now);
  Node& node = roster_.at(from);
  node.memberships = hello.vote.memberships;
  node.place = node_rank_in(node.memberships, hello.vote.attempt);
  if (election_) {
    election_->add(from, hello.vote);
    attempt_ = election_->attempt();
    node.takes_part = true;  // until it says that its workers have ended
    ++still_run_;
    send(from, heartbeat(now));
    return tell_soon(now);
  }
  // It was in attempts of another coordinator, which may have the numbers of this one's attempts.
  std::erase_if(node.memberships, [this](const auto& one) { return one.attempt >= own_from_; });
  seen_attempt_ = std::max(seen_attempt_, hello.vote.attempt);
  if (!hello.vote.has_ended) roster_.admit(from, TimePoint::max());
  if (phase_ == Phase::gathering) return gather_more(now);
  send(from, wire::CoordinatorWaits{"the job is running; this node waits until it can join", true, standing_});
}

void Coordinator::hears_of_another(NodeId from, const std::string& address, const wire::CoordinatorIsElsewhere& other) {
  close(from);
  if (other.job != own_.job || standing_.job_key.empty()) return;
  if (phase_ != Phase::gathering || attempt_ > 0) {
    log_about_peer(address, "another node (" + address +
                                ") leads a job that should have met here. If it is this one, "
                                "end one of them: two jobs must not write the same checkpoints");
    return;
  }
  tell(LogLevel::note, "the job runs already, and another node (" + other.address + ") leads it; this one joins it");
  send_to_others(other);
  phase_ = Phase::over;
  leave_at_ = TimePoint::max();
  actions_.emplace_back(other);
}

void Coordinator::check_election(TimePoint now) {
  if (!election_ || now < election_alarm_) return;
  election_alarm_ = now + limits::kElectionPoll;
  const int attempt = election_->electorate().attempt;
  const bool has_claim = claims_.holds(attempt);
  if (!election_->is_decided() && !has_claim) {
    // A node that was asked to save is not waited for, so the coordinator may go on without it.
    const bool is_asked_to_leave = roster_.at(kOwnNode).leaves.has_value();
    const bool may_claim = claims_.has_witness() && election_->may_claim() && !is_asked_to_leave;
    if (may_claim) claim(attempt, now);
    const bool is_late = now >= election_since_ + 3 * options_.nodes.node_timeout;
    if (!is_late && !claims_.is_taken(attempt)) return;
    const std::string few = "only " + election_->describe() + " have found each other, which are too few to go on";
    const std::string why = may_claim ? claims_.why_not(attempt) : few;
    return finish(lost_node(cause_->text + ", and " + why, /*may_restart=*/false), now);
  }
  if (still_run_ > 0 || (!has_claim && !is_majority(election_->electorate(), answering_voters(now)))) return;
  if (!election_->is_complete() && now < election_since_ + limits::kSuccessionWait) return;
  tell(LogLevel::warning, "this node leads the job now, with " + election_->describe() +
                              (has_claim ? " and the witness " + options_.nodes.witness : ""));
  standing_.electorate = election_->electorate();
  standing_.history = election_->history();
  election_.reset();
  own_from_ = attempt_ + 1;
  lease_until_ = now;
  go_on_if_all_have_ended(now);
}

std::vector<wire::Successor> Coordinator::successors(std::span<const NodeId> seated) const {
  std::vector<wire::Successor> all;
  for (const NodeId id : seated) {
    const Node& node = roster_.all().at(id);
    if (id == kOwnNode || node.hello.port == 0 || all.size() >= limits::kSuccessors) continue;
    const bool is_ipv6 = node.address.starts_with('[');
    const std::string address = is_ipv6 ? node.address.substr(1, node.address.size() - 2) : node.address;
    all.push_back({node.place, address, node.hello.port});
  }
  return all;
}

wire::Electorate Coordinator::propose(std::span<const NodeId> seated, TimePoint now) {
  if (standing_.job_key.empty()) return {};
  for (const NodeId id : seated) {
    Node& node = roster_.at(id);
    // A node that takes part for the first time cannot have given up this coordinator before this message.
    if (node.memberships.empty()) node.answered = now;
    remember(node.memberships, {attempt_, node.place});
  }
  standing_.successors = successors(seated);
  const wire::Electorate proposed{attempt_, static_cast<int>(seated.size()), 0, {}};
  if (standing_.electorate.attempt < 0) {
    standing_.electorate = proposed;
    electorate_since_ = now;
  }
  lease_until_ = now;
  return proposed;
}

// A node that is lost has lost this coordinator, too, or was refused. It never votes.
void Coordinator::forget(const Node& node, TimePoint now) {
  if (standing_.job_key.empty() || node.memberships.empty()) return;
  const auto remove = [&](wire::Electorate& electorate) {
    electorate = without(electorate, node_rank_in(node.memberships, electorate.attempt));
  };
  remove(standing_.electorate);
  remove(proposed_);
  tell_soon(now);
  lease_until_ = now;
}

void Coordinator::misses(const Node& node, TimePoint now) {
  const wire::Electorate& electorate = standing_.electorate;
  const bool is_needed = is_voter(electorate, node_rank_in(node.memberships, electorate.attempt));
  if (phase_ == Phase::over || leads_how() != Leads::by_both || !is_needed) return;
  lost_answered_ = node.answered;
  claim(electorate.attempt, now);
  lease_until_ = now;
}

void Coordinator::tell_soon(TimePoint now) {
  next_heartbeat_ = std::min<TimePoint>(next_heartbeat_, now + roster_.size() * limits::kElectorateNews);
}

void Coordinator::replace_electorate(TimePoint now) {
  if (proposed_.attempt <= standing_.electorate.attempt) return;
  std::set<int> know;
  std::set<int> connected;
  for (const auto& [id, node] : roster_.all()) {
    const int node_rank = node_rank_in(node.memberships, standing_.electorate.attempt);
    if (node_rank < 0) continue;
    connected.insert(node_rank);
    if (node.knows_attempt >= proposed_.attempt || id == kOwnNode) know.insert(node_rank);
  }
  if (!may_be_replaced(standing_.electorate, know, connected, leads_how())) return;
  standing_.electorate = proposed_;
  electorate_since_ = now;
  lease_until_ = now;
}

wire::NodeHeartbeat Coordinator::heartbeat(TimePoint now) const {
  const auto sent_at = std::chrono::nanoseconds(now.time_since_epoch()).count();
  return {-1, election_ ? election_->electorate() : standing_.electorate, sent_at};
}

std::set<int> Coordinator::answering_voters(TimePoint now) const {
  std::set<int> node_ranks;
  for (const auto& [id, node] : roster_.all()) {
    const bool answers = id == kOwnNode || node.answered > now - options_.nodes.node_timeout;
    if (answers) node_ranks.insert(vote_in(node.memberships, election_->electorate()));
  }
  return node_ranks;
}

Coordinator::TimePoint Coordinator::lease_ends() const {
  const bool is_led = !standing_.job_key.empty() && standing_.electorate.attempt >= 0 && !election_;
  if (!is_led || phase_ == Phase::over) return TimePoint::max();
  const wire::Electorate& electorate = standing_.electorate;
  std::vector<TimePoint> answers;
  for (const auto& [id, node] : roster_.all()) {
    const int node_rank = id == kOwnNode ? -1 : node_rank_in(node.memberships, electorate.attempt);
    if (is_voter(electorate, node_rank)) answers.push_back(node.answered);
  }
  const Leads leads = leads_how();
  const auto needed = static_cast<std::size_t>(others_needed(electorate, leads));
  if (needed == 0) return TimePoint::max();
  if (leads == Leads::by_both) {
    if (claims_.is_taken(electorate.attempt)) return TimePoint();
    // The other node may live, although its connection broke.
    if (answers.empty()) answers.push_back(lost_answered_);
    // It cannot claim an electorate that it has not known for so long.
    for (TimePoint& answered : answers) answered = std::max(answered, electorate_since_);
  }
  if (answers.size() < needed) return TimePoint();
  const auto last = answers.begin() + static_cast<std::ptrdiff_t>(needed) - 1;
  std::ranges::nth_element(answers, last, std::greater());
  return *last + options_.nodes.node_timeout;
}

// Answers only make the lease longer.
void Coordinator::check_lease(TimePoint now) {
  if (now < lease_until_) return;
  lease_until_ = lease_ends();
  if (now < lease_until_ || waits_for_claim(now)) return;
  phase_ = Phase::over;
  leave_at_ = now;
  // The others decide without this node, so they get no message.
  wire::Cause cause = lost_node(why_it_leads_no_longer(), /*may_restart=*/false);
  cause.is_urgent = true;
  send(kOwnNode, wire::CoordinatorIsDone{cause});
}

std::string Coordinator::why_it_leads_no_longer() const {
  const wire::Electorate& electorate = standing_.electorate;
  const std::string time = base::human_duration(options_.nodes.node_timeout);
  if (leads_how() == Leads::by_both)
    return "this node has no answer from the other one for " + time + ", and " + claims_.why_not(electorate.attempt);
  const auto others = electorate.nodes - std::ssize(electorate.gone) - 1;
  return "this node has no answer from most of the other " + base::counted(others, "node") + " for " + time +
         ", and they may go on without it";
}

Leads Coordinator::leads_how() const {
  const wire::Electorate& electorate = standing_.electorate;
  if (!claims_.has_witness() || !may_be_claimed(electorate)) return Leads::as_half;
  return claims_.holds(electorate.attempt) ? Leads::by_claim : Leads::by_both;
}

void Coordinator::claim(int attempt, TimePoint now) {
  if (claims_.begin(attempt, now)) actions_.emplace_back(ClaimElectorate{standing_.job_key, attempt});
}

// The other node may claim the electorate when it has read nothing for 1.25 times the node timeout. This node's workers
// have to end before.
bool Coordinator::waits_for_claim(TimePoint now) {
  const int attempt = standing_.electorate.attempt;
  const bool may_lead = is_voter(standing_.electorate, standing_.electorate.leader);
  if (leads_how() != Leads::by_both || !may_lead || claims_.is_taken(attempt)) return false;
  const TimePoint last = lease_ends() + options_.nodes.node_timeout / 8;
  if (now >= last) return false;
  claim(attempt, now);
  lease_until_ = std::min<TimePoint>(last, now + limits::kClaimPause);
  return true;
}

std::vector<CoordinatorAction> Coordinator::claimed(int attempt, const ClaimAnswer& answer, TimePoint now) {
  clock_.pass_until(now);
  claims_.end(attempt, answer, now);
  if (election_) {
    election_alarm_ = now;
    check_election(now);
  } else {
    lease_until_ = now;
    check_lease(now);
  }
  return take();
}

}  // namespace ddp::launcher
