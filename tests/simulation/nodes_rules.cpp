#include "simulation/nodes_rules.h"

#include <algorithm>
#include <utility>

#include "launcher/limits.h"
#include "launcher/run/job/blame.h"
#include "launcher/run/job/cause_code.h"

namespace ddp::test {

using namespace std::chrono_literals;

namespace {

// Trouble of up to this length must have no effect. A heartbeat and the network's delays are added to it.
constexpr auto kHarmless = 4s;
// Covers the messages between the nodes meanwhile.
constexpr auto kPatience = 10s;

bool is_secondary(const wire::Cause& cause) {
  return cause.knowledge == wire::Knowledge::secondary;
}

std::string name(std::size_t machine) {
  return "machine " + std::to_string(machine);
}

}  // namespace

void NodesRules::violate(int rule, const std::string& what) {
  if (violation_.empty()) violation_ = "rule " + std::to_string(rule) + ": " + what;
}

void NodesRules::appears(std::size_t machine, const wire::NodeHello& hello) {
  if (machine != machines_.size()) return violate(0, "machines are numbered as they appear");
  machines_.emplace_back();
  machines_.back().workers = hello.workers;
  machines_.back().number = hello.node_rank;
  machines_.back().heard_at = now_;
}

void NodesRules::coordinator_takes_in(std::size_t machine) {
  at(machine).is_known = at(machine).was_taken_in = true;
}

void NodesRules::coordinator_gives_up(std::size_t machine) {
  Machine& gone = at(machine);
  if (!std::exchange(gone.is_known, false)) return;
  if (gone.runs >= 0) count(gone.runs, -1);
  if (gone.takes_part_in == attempts_ - 1) sees_reason();
}

void NodesRules::count(int attempt, int change) {
  if ((running_[attempt] += change) == 0) running_.erase(attempt);
}

void NodesRules::coordinator_says(std::size_t machine, const wire::ControlMessage& message) {
  if (const auto* begins = std::get_if<wire::CoordinatorBegins>(&message)) begins_.emplace_back(machine, *begins);
  if (std::holds_alternative<wire::CoordinatorRefuses>(message)) at(machine).was_refused = true;
  if (const auto* ends = std::get_if<wire::CoordinatorEnds>(&message)) {
    ended_ = std::max(ended_, ends->attempt);
    if (launcher::counts_as_restart(ends->cause.code)) failed_.insert(ends->attempt);
    if (reason_reported_ != ends->attempt) violate(8, "an attempt is ended for no reason: " + ends->cause.text);
    const bool is_settled = running_.empty() || now_ >= reason_reported_at_ + launcher::wait_for_more(ends->cause);
    if (is_secondary(ends->cause) && !is_settled) violate(8, "no better cause is waited for than " + ends->cause.text);
    if (is_secondary(ends->cause) && culprit_reported_ == ends->attempt)
      violate(8, "a secondary failure is blamed: " + ends->cause.text);
  }
  const auto* done = std::get_if<wire::CoordinatorIsDone>(&message);
  if (done == nullptr) return;
  // The job goes on without a node that leaves because it was asked to.
  if (at(machine).is_leaving && done->cause.signal != 0) {
    at(machine).was_asked = true;
    return;
  }
  if (!running_.empty()) violate(3, "the job is over while machines have workers");
  if (fate_ && *fate_ != done->cause) violate(4, "two ends: " + fate_->text + " and " + done->cause.text);
  fate_ = done->cause;
  if (done->cause.exit_code == 0 && is_broken(attempts_ - 1))
    violate(8, "success of an attempt in which workers failed");
  if (done->cause.exit_code == 0 && attempts_ == 0) violate(8, "success of nothing");
}

void NodesRules::check_beginning(int emptied) {
  if (emptied != 1) violate(7, "the store was emptied " + std::to_string(emptied) + " times before an attempt");
  if (!running_.empty()) violate(1, "an attempt begins while machines have workers");
  if (is_asked_to_end_) violate(9, "an attempt begins after somebody has asked for the end");
  if (begins_.empty()) return violate(6, "an attempt of nobody");
  const bool may_begin = options_.max_restarts > 0 || attempts_ == 0;
  ++attempts_;
  if (!may_begin || std::ssize(failed_) > options_.max_restarts) violate(7, "attempt " + std::to_string(attempts_));
  std::ranges::sort(begins_, {}, [](const auto& one) { return one.second.node_rank; });
  const auto count = static_cast<int>(begins_.size());
  if (count < options_.nodes.min || count > options_.nodes.max) violate(6, std::to_string(count) + " nodes");
  int ranks = 0;
  int last_number = wire::kAnyNodeRank;
  for (int i = 0; i < count; ++i) {
    const auto& [machine, place] = begins_[static_cast<std::size_t>(i)];
    if (place.attempt != attempts_ - 1) violate(7, "attempt " + std::to_string(place.attempt) + " is the next one");
    if (place.node_rank != i || place.node_count != count || place.first_rank != ranks) {
      violate(6, name(machine) + " is node " + std::to_string(place.node_rank) + " of " +
                     std::to_string(place.node_count) + " from rank " + std::to_string(place.first_rank));
    }
    if (!at(machine).is_known) violate(6, name(machine) + " takes part, and is gone");
    const int number = at(machine).number;
    const bool is_next = number == wire::kAnyNodeRank || number > last_number;
    if ((machine == 0) != (i == 0) || !is_next) violate(6, name(machine) + " is out of order");
    last_number = number;
    at(machine).takes_part_in = place.attempt;
    ranks += at(machine).workers;
  }
  for (const auto& [machine, place] : begins_) {
    if (place.world_size != ranks)
      violate(6, "a world of " + std::to_string(place.world_size) + " has " + std::to_string(ranks) + " ranks");
  }
}

void NodesRules::sees_reason() {
  if (std::exchange(reason_reported_, attempts_ - 1) < attempts_ - 1) reason_reported_at_ = now_;
}

void NodesRules::coordinator_hears_failure(std::size_t machine, const wire::NodeFailed& failed) {
  const bool asks = at(machine).is_known && failed.cause.signal != 0;
  const bool leaves = asks && machine != 0 && failed.cause.may_restart;
  at(machine).is_leaving = at(machine).is_leaving || leaves;
  is_asked_to_end_ = is_asked_to_end_ || (asks && !leaves);
  const bool is_of_attempt = at(machine).is_known && failed.attempt == attempts_ - 1;
  const bool counts = ended_ < attempts_ - 1 && (is_of_attempt || asks);
  if (counts) sees_reason();
  if (counts && !is_secondary(failed.cause)) culprit_reported_ = attempts_ - 1;
}

void NodesRules::workers_start(std::size_t machine, const wire::CoordinatorBegins& place) {
  Machine& starts = at(machine);
  if (starts.runs >= 0) violate(1, name(machine) + " has workers of two attempts");
  starts.runs = place.attempt;
  if (!starts.is_known) return;
  if (fate_) violate(3, name(machine) + " starts workers when the job is over");
  count(place.attempt, +1);
  if (running_.size() > 1) violate(1, "workers of two attempts run on machines that the coordinator has not given up");
}

void NodesRules::breaks(int attempt) {
  if (attempt < 0) return;
  broken_.resize(std::max(broken_.size(), static_cast<std::size_t>(attempt) + 1));
  broken_[static_cast<std::size_t>(attempt)] = true;
}

void NodesRules::workers_end(std::size_t machine, End how) {
  Machine& ends = at(machine);
  if (ends.runs < 0) return;
  if (how != End::success) breaks(ends.runs);
  if (ends.is_known) count(ends.runs, -1);
  ends.runs = -1;
  if (machine == 0 || ends.is_frozen || how == End::with_machine) return;
  const auto latest = ends.heard_at + options_.nodes.node_timeout + limits::kNodeHeartbeat + ending_;
  if (now_ > latest) {
    violate(2, name(machine) + " has had workers for " +
                   std::to_string(std::chrono::duration_cast<std::chrono::seconds>(now_ - ends.heard_at).count()) +
                   " s without a word of the coordinator");
  }
}

void NodesRules::is_asked_to_end(std::size_t machine, bool may_leave_at_once) {
  Machine& one = at(machine);
  if (one.times_asked == 0) one.asked_at = now_;
  one.times_asked += may_leave_at_once ? 2 : 1;
}

void NodesRules::leaves_at_once(std::size_t machine) {
  if (at(machine).times_asked < 2) violate(12, name(machine) + " does not wait for the end");
  at(machine).was_asked = at(machine).is_in_haste = true;
  at(machine).left_with = wire::Cause{.exit_code = 1};
}

void NodesRules::has_left_workers(std::size_t machine) {
  violate(10, name(machine) + " has workers after the end of an attempt");
}

void NodesRules::launcher_ends(std::size_t machine, int exit_code) {
  Machine& one = at(machine);
  one.has_ended = true;
  if (!one.left_with) return violate(10, name(machine) + " ends before it leaves");
  const bool is_well = one.trouble + coordinator_trouble_ <= kHarmless;
  const auto latest = std::max(one.asked_at + ending_, last_trouble_at_) + options_.nodes.node_timeout + kPatience;
  if (one.times_asked > 0 && is_well && now_ > latest) {
    violate(11, name(machine) + " was asked to end " +
                    std::to_string(std::chrono::duration_cast<std::chrono::seconds>(now_ - one.asked_at).count()) +
                    " s before it does");
  }
  // If no other node has to agree and the user asks for the end later, the exit code of the attempt counts.
  const bool is_alone_and_asked = options_.nodes.max == 1 && one.times_asked > 0;
  if (one.is_in_haste || is_alone_and_asked || exit_code == one.left_with->exit_code) return;
  violate(10, name(machine) + " ends with " + std::to_string(exit_code) + " for '" + one.left_with->text + "' (" +
                  std::to_string(one.left_with->exit_code) + ")");
}

void NodesRules::check_end(bool is_through, bool expects_success) {
  if (!is_through) violate(4, "the job does not come to an end");
  for (std::size_t machine = 0; machine < machines_.size(); ++machine) check_end_of(machine);
  if (expects_success && !fate_) violate(4, "the job has no end");
  if (expects_success && fate_ && fate_->exit_code != 0) violate(4, "a failure out of nothing: " + fate_->text);
}

void NodesRules::check_end_of(std::size_t machine) {
  const Machine& one = at(machine);
  const Duration trouble = one.trouble + coordinator_trouble_;
  const bool is_well = trouble <= kHarmless;
  if (!one.is_gone && one.runs >= 0) violate(2, name(machine) + " has workers for ever");
  if (!one.is_gone && one.left_with && !one.has_ended) violate(10, name(machine) + " leaves and does not end");
  if (!one.is_gone && one.was_taken_in && !one.left_with) violate(4, name(machine) + " never leaves");
  if (!is_well || one.is_gone || one.was_refused || one.was_asked || !one.was_taken_in) return;
  if (!one.was_notified) return violate(5, name(machine) + " is not told of the end");
  if (one.left_with && *one.left_with != *fate_) {
    violate(4, name(machine) + " ends with '" + one.left_with->text + "', the job with '" + fate_->text + "'");
  }
}

}  // namespace ddp::test
