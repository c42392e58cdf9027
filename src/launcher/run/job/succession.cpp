#include "launcher/run/job/succession.h"

#include <algorithm>
#include <utility>

#include "base/text.h"

namespace ddp::launcher {
namespace {

bool is_gone(const wire::Electorate& electorate, int node_rank) {
  return std::ranges::binary_search(electorate.gone, node_rank);
}

std::ptrdiff_t count(const wire::Electorate& electorate, const std::set<int>& node_ranks) {
  return std::ranges::count_if(node_ranks, [&](int node_rank) { return is_voter(electorate, node_rank); });
}

std::ptrdiff_t living(const wire::Electorate& electorate) {
  return electorate.nodes - std::ssize(electorate.gone);
}

}  // namespace

int node_rank_in(std::span<const wire::Membership> memberships, int attempt) {
  const auto found = std::ranges::find(memberships, attempt, &wire::Membership::attempt);
  return attempt < 0 || found == memberships.end() ? -1 : found->node_rank;
}

int vote_in(std::span<const wire::Membership> memberships, const wire::Electorate& electorate) {
  const bool knows_newer = std::ranges::any_of(
      memberships, [&](const wire::Membership& membership) { return membership.attempt > electorate.attempt; });
  return knows_newer ? -1 : node_rank_in(memberships, electorate.attempt);
}

void remember(std::vector<wire::Membership>& memberships, wire::Membership membership) {
  std::erase_if(memberships, [&](const auto& one) { return one.attempt == membership.attempt; });
  memberships.push_back(membership);
  if (memberships.size() > 2) memberships.erase(memberships.begin());
}

wire::Electorate merged(wire::Electorate one, const wire::Electorate& other) {
  if (one.attempt != other.attempt) return one.attempt > other.attempt ? one : other;
  for (const int node_rank : other.gone) one = without(std::move(one), node_rank);
  return one;
}

wire::Electorate without(wire::Electorate electorate, int node_rank) {
  if (node_rank < 0 || node_rank >= electorate.nodes || is_gone(electorate, node_rank)) return electorate;
  electorate.gone.insert(std::ranges::upper_bound(electorate.gone, node_rank), node_rank);
  if (electorate.leader == node_rank) electorate.leader = -1;
  return electorate;
}

bool is_majority(const wire::Electorate& electorate, const std::set<int>& node_ranks) {
  return 2 * count(electorate, node_ranks) > living(electorate);
}

bool is_voter(const wire::Electorate& electorate, int node_rank) {
  return node_rank >= 0 && node_rank < electorate.nodes && !is_gone(electorate, node_rank);
}

bool may_be_claimed(const wire::Electorate& electorate) {
  return electorate.attempt >= 0 && electorate.nodes == 2 && electorate.gone.empty();
}

int others_needed(const wire::Electorate& electorate, Leads leads) {
  if (leads == Leads::by_claim) return 0;
  const auto half = static_cast<int>(living(electorate) + 1) / 2;
  const int needed = leads == Leads::by_both ? 2 : half;
  return std::max(needed - (is_voter(electorate, electorate.leader) ? 1 : 0), 0);
}

bool may_be_replaced(const wire::Electorate& electorate, const std::set<int>& know, const std::set<int>& connected,
                     Leads leads) {
  const bool is_led = electorate.leader >= 0;
  std::set<int> informed = know;
  informed.insert(electorate.leader);
  const auto uninformed = living(electorate) - count(electorate, informed);
  if (leads == Leads::by_both && uninformed > 0) return false;
  const bool may_see_death = !std::ranges::includes(informed, connected);
  return 2 * uninformed <= living(electorate) - (is_led && may_see_death ? 1 : 0);
}

// --- Succession

void Succession::hears(const wire::CoordinatorBegins& begins) {
  attempt_ = begins.attempt;
  standing_ = begins.standing;
  remember(memberships_, {begins.attempt, begins.node_rank});
}

void Succession::hears(const wire::Electorate& electorate) {
  if (electorate.attempt >= standing_.electorate.attempt) standing_.electorate = electorate;
}

void Succession::hears(const wire::Standing& standing) {
  if (!standing.job_key.empty()) standing_ = standing;
}

void Succession::coordinator_died() {
  standing_.electorate = without(standing_.electorate, standing_.electorate.leader);
}

void Succession::follows(const wire::Successor& successor) {
  const bool is_known = standing_.electorate.attempt == attempt_;
  standing_.electorate.leader = is_known ? successor.node_rank : -1;
}

std::vector<wire::Successor> Succession::before_this() const {
  const int own = node_rank_in(memberships_, attempt_);
  std::vector<wire::Successor> before;
  for (const wire::Successor& one : standing_.successors) {
    if (one.node_rank == own) break;
    const bool is_dead = standing_.electorate.attempt == attempt_ && is_gone(standing_.electorate, one.node_rank);
    if (!is_dead) before.push_back(one);
  }
  return before;
}

bool Succession::may_lead() const {
  const int own = node_rank_in(memberships_, attempt_);
  return own >= 0 && std::ranges::any_of(standing_.successors, [&](const auto& one) { return one.node_rank == own; });
}

wire::Vote Succession::vote(bool has_ended) const {
  if (!is_member()) return {};
  return {standing_.job_key, attempt_, standing_.electorate, standing_.history, memberships_, has_ended};
}

// --- Election

Election::Election(wire::Vote own) : own_(std::move(own)) {
  learn(own_);
}

void Election::learn(const wire::Vote& vote) {
  electorate_ = merged(electorate_, vote.electorate);
  electorate_.leader = node_rank_in(own_.memberships, electorate_.attempt);
  if (vote.attempt <= attempt_) return;
  attempt_ = vote.attempt;
  history_ = vote.history;
}

void Election::add(std::uint64_t who, const wire::Vote& vote) {
  votes_[who] = vote;
  learn(vote);
}

void Election::lose(std::uint64_t who, bool has_ended) {
  const auto vote = votes_.extract(who);
  if (has_ended && !vote.empty())
    electorate_ = without(electorate_, node_rank_in(vote.mapped().memberships, electorate_.attempt));
}

std::set<int> Election::voters() const {
  std::set<int> node_ranks = {vote_in(own_.memberships, electorate_)};
  for (const auto& [who, vote] : votes_) node_ranks.insert(vote_in(vote.memberships, electorate_));
  return node_ranks;
}

bool Election::is_decided() const {
  return is_majority(electorate_, voters());
}

bool Election::is_complete() const {
  return count(electorate_, voters()) >= living(electorate_);
}

bool Election::may_claim() const {
  return may_be_claimed(electorate_) && is_voter(electorate_, vote_in(own_.memberships, electorate_));
}

std::string Election::describe() const {
  return std::to_string(count(electorate_, voters())) + " of " + base::counted(living(electorate_), "node");
}

}  // namespace ddp::launcher
