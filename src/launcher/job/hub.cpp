#include "launcher/job/hub.h"

#include <algorithm>
#include <utility>

#include "base/exit_code.h"
#include "base/printable.h"
#include "base/text.h"
#include "launcher/job/blame.h"
#include "launcher/job/hub_words.h"
#include "launcher/limits.h"

namespace ddp::launcher {
namespace {

using wire::Cause;
using wire::NodeHello;

}  // namespace

Hub::Hub(const HubOptions& options, NodeHello own, TimePoint now)
    : options_(options), own_(std::move(own)), next_beat_(now + limits::kNodeBeat) {
  take_in(kOwnNode, "", own_, now);
}

void Hub::forget(NodeId who) {
  numbered_.erase(nodes_.at(who).hello.node_rank);
  kept_out_.erase(who);
  nodes_.erase(who);
}

std::vector<HubAction> Hub::begin(TimePoint now) {
  gather(now);
  return take();
}

std::vector<HubAction> Hub::heard(NodeId from, const std::string& address, const wire::ControlMessage& message,
                                  TimePoint now) {
  const auto found = nodes_.find(from);
  if (found == nodes_.end()) {
    if (const auto* hello = std::get_if<NodeHello>(&message)) {
      greet(from, address, *hello, now);
    } else {
      close(from);  // it was refused, or is lost, or is no node
    }
    return take();
  }
  Node& node = found->second;
  node.heard_at = now;
  if (const auto* failed = std::get_if<wire::NodeFailed>(&message)) {
    Cause cause = failed->cause;
    cause.text = base::printable(cause.text, limits::kShownReason);
    cause.node = base::printable(cause.node, limits::kShownName);
    cause.not_restarted = base::printable(cause.not_restarted, limits::kShownReason);
    // A failure is one, whatever the node says.
    if (cause.exit_code < 1 || cause.exit_code > 255) cause.exit_code = 1;
    const bool asks = cause.signal != 0;  // a user wants the job to end, whatever attempt it was
    const bool nobody_runs = phase_ == Phase::gathering || phase_ == Phase::pausing;
    if (nobody_runs && (asks || from == kOwnNode)) {
      cause.node = node.name;
      finish(cause, now);
    } else if (phase_ == Phase::ending && (asks || !cause.may_restart)) {
      keep_from_restarting(node, cause);
    } else if (asks || (failed->attempt == attempt_ && node.takes_part)) {
      blame(node, cause, now);
    }
  }
  if (const auto* left = std::get_if<wire::NodeLeft>(&message); left != nullptr && left->attempt == attempt_) {
    left_.insert(left->rank);
    if (phase_ == Phase::running && options_.exit_timeout.count() > 0) left_alone_at_ = now + options_.exit_timeout;
  }
  if (const auto* shows = std::get_if<wire::NodeShows>(&message)) {
    const bool is_of_this = shows->attempt == attempt_ && node.takes_part && !node.has_ended;
    if (is_of_this) actions_.emplace_back(PassOn{from, node.name, node.clock_ahead, shows->what, shows->text});
  }
  if (const auto* ended = std::get_if<wire::NodeEnded>(&message); ended != nullptr && ended->attempt == attempt_) {
    if (!std::exchange(node.has_ended, true) && node.takes_part) --still_run_;
    progress_ = std::max(progress_, ended->progress);
    go_on_if_all_have_ended(now);
  }
  return take();
}

void Hub::keep_from_restarting(const Node& node, const Cause& cause) {
  if (!cause_->may_restart || options_.max_restarts == 0) return;
  cause_->may_restart = false;
  const std::string where = options_.max_nodes > 1 ? "node " + node.name + ": " : "";
  cause_->not_restarted = "not restarted: " + (cause.signal != 0 ? "asked to end meanwhile" : where + cause.text);
}

void Hub::blame(const Node& node, Cause cause, TimePoint now) {
  if (phase_ != Phase::running) return;
  if (!says_more(cause, cause_)) return;
  if (cause.node.empty()) cause.node = node.name;
  cause_ = std::move(cause);
  const auto wait = wait_for_more(*cause_);
  if (wait.count() == 0) return end_attempt(now);
  if (!settle_at_) settle_at_ = now + wait;
}

// No better cause than a victim's has come. Whom it lost may have ended with 0 in the middle of the job.
void Hub::settle(TimePoint now) {
  if (left_.contains(cause_->lost_peer)) cause_ = left_early(*cause_, node_of(cause_->lost_peer));
  end_attempt(now);
}

std::string Hub::node_of(int rank) const {
  for (const auto& [id, node] : nodes_) {
    const int local_rank = rank - node.first_rank;
    if (node.takes_part && local_rank >= 0 && local_rank < node.hello.workers) return node.name;
  }
  return "";
}

void Hub::end_attempt(TimePoint now) {
  phase_ = Phase::ending;
  settle_at_.reset();
  left_alone_at_.reset();
  stopped_at_.reset();  // whatever ends an attempt continues all clocks
  attempts_.push_back({now - started_at_});
  for (const auto& [id, node] : nodes_) {
    if (node.takes_part) send(id, wire::HubEnds{attempt_, *cause_});
  }
  go_on_if_all_have_ended(now);
}

void Hub::go_on_if_all_have_ended(TimePoint now) {
  if (phase_ != Phase::running && phase_ != Phase::ending) return;
  if (still_run_ > 0) return;
  // All workers of all nodes are gone. A victim whose culprit nobody knows is all that there is.
  if (!cause_) return finish({}, now);
  if (phase_ == Phase::running) return settle(now);
  if (!cause_->may_restart) return finish(*cause_, now);
  attempts_.back().progress = progress_;
  const RestartDecision decision = decide_restart(attempts_, options_.max_restarts);
  if (const auto* none = std::get_if<NoRestart>(&decision)) {
    cause_->not_restarted = none->reason;
    return finish(*cause_, now);
  }
  phase_ = Phase::pausing;
  ++attempt_;
  const auto delay = std::get<RestartAfter>(decision).delay;
  go_on_at_ = now + delay;
  const wire::HubRestarts news{"restart " + std::to_string(attempt_) + " of " + std::to_string(options_.max_restarts) +
                               " in " + base::human_duration(delay)};
  for (const auto& [id, node] : nodes_) send(id, news);
}

void Hub::finish(Cause cause, TimePoint now) {
  phase_ = Phase::over;
  left_alone_at_.reset();
  go_on_at_ = now + options_.node_timeout;
  for (const auto& [id, node] : nodes_) {
    send(id, wire::HubIsDone{cause});
    if (id != kOwnNode) close(id);
  }
  if (everybody_has_left()) actions_.emplace_back(HubIsThrough{});
}

std::string Hub::who_is_left() const {
  std::vector<std::string> names;
  for (const NodeId id : in_order()) {
    const Node& node = nodes_.at(id);
    std::vector<int> ranks;
    for (int rank = node.first_rank; rank < node.first_rank + node.hello.workers; ++rank) {
      if (!left_.contains(rank)) ranks.push_back(rank);
    }
    if (!node.takes_part || node.has_ended || ranks.empty()) continue;
    names.push_back((ranks.size() == 1 ? "rank " : "ranks ") + base::rank_list(ranks) + " on " + node.name);
  }
  return base::join(names, ", ");
}

bool Hub::everybody_has_left() const {
  return nodes_.size() == 1;
}

std::vector<HubAction> Hub::lost(NodeId who, const std::string& why, TimePoint now) {
  lose(who, why, now);
  return take();
}

void Hub::lose(NodeId who, const std::string& why, TimePoint now) {
  const auto found = nodes_.find(who);
  if (found == nodes_.end()) return;
  const Node node = found->second;
  forget(who);
  if (phase_ == Phase::over) {
    if (everybody_has_left()) actions_.emplace_back(HubIsThrough{});
    return;
  }
  const bool was_needed = node.takes_part && !node.has_ended;
  if (was_needed) --still_run_;
  if (was_needed && phase_ == Phase::running) {
    const Cause cause{.text = "lost: " + why, .exit_code = base::kExitOwnFault, .may_restart = true};
    flapping_.was_lost(node.hello.host, now);
    // Its ranks' peers may have told before, as victims.
    blame(node, cause, now);
  } else {
    const std::string line = "node " + node.name + " has left: " + why;
    if (node.takes_part) {
      tell(line);
    } else {
      tell_of_stranger(node.address, line);
    }
  }
  if (phase_ == Phase::gathering) gather_more(now);
  go_on_if_all_have_ended(now);
}

void Hub::look_for_silence(TimePoint now) {
  std::vector<NodeId> silent;
  for (const auto& [id, node] : nodes_) {
    if (id != kOwnNode && now - node.heard_at >= options_.node_timeout) silent.push_back(id);
  }
  for (const NodeId id : silent) {
    close(id);
    lose(id, "no word from it for " + base::human_duration(options_.node_timeout), now);
  }
}

std::vector<HubAction> Hub::ask(wire::Subject what) {
  if (phase_ != Phase::running) return {};
  for (const auto& [id, node] : nodes_) {
    if (id != kOwnNode && node.takes_part && !node.has_ended) send(id, wire::HubAsks{attempt_, what});
  }
  return take();
}

void Hub::stop_clocks(TimePoint now) {
  if (!stopped_at_) stopped_at_ = now;
}

void Hub::continue_clocks(TimePoint now) {
  if (!stopped_at_) return;
  const auto stood = now - *std::exchange(stopped_at_, std::nullopt);
  if (settle_at_) *settle_at_ += stood;
  if (left_alone_at_) *left_alone_at_ += stood;
  if (phase_ == Phase::pausing) go_on_at_ += stood;
}

std::vector<HubAction> Hub::tick(TimePoint now) {
  if (now >= next_beat_) {
    next_beat_ = now + limits::kNodeBeat;
    for (const auto& [id, node] : nodes_) {
      if (id != kOwnNode) send(id, wire::Beat{});
    }
    if (phase_ != Phase::over) look_for_silence(now);
  }
  if (settle_at_ && !stopped_at_ && now >= *settle_at_) settle(now);
  if (left_alone_at_ && !stopped_at_ && now >= *left_alone_at_) {
    cause_ = Cause{.text = "ranks did not end within " + base::human_duration(options_.exit_timeout) +
                           " of the last one that did (--exit-timeout): " + who_is_left(),
                   .exit_code = base::kExitHung,
                   .may_restart = true,
                   .exit_timed_out = true};
    end_attempt(now);
  }
  if (phase_ == Phase::gathering && now >= look_again_at_) gather_more(now);
  if (phase_ == Phase::gathering && is_enough_ && now >= enough_since_ + options_.last_call) start(now);
  if (phase_ == Phase::gathering && !is_enough_ && now >= gathering_since_ + options_.join_timeout) {
    finish({.text = "only " + base::counted(static_cast<std::int64_t>(nodes_.size()), "node") + " of " +
                    std::to_string(options_.min_nodes) + " came within " + base::human_duration(options_.join_timeout) +
                    " (" + here() + ")",
            .exit_code = base::kExitOwnFault},
           now);
  }
  if (phase_ == Phase::gathering && now >= next_word_) tell_who_is_missing(now);
  if (phase_ == Phase::pausing && !stopped_at_ && now >= go_on_at_) gather(now);
  if (phase_ == Phase::over && now >= go_on_at_) actions_.emplace_back(HubIsThrough{});
  return take();
}

Hub::TimePoint Hub::alarm() const {
  // A node alone sends no beats.
  TimePoint next = nodes_.size() > 1 ? next_beat_ : TimePoint::max();
  if (settle_at_ && !stopped_at_) next = std::min(next, *settle_at_);
  if (left_alone_at_ && !stopped_at_) next = std::min(next, *left_alone_at_);
  if (phase_ == Phase::gathering) {
    next = std::min({next, next_word_, look_again_at_,
                     is_enough_ ? enough_since_ + options_.last_call : gathering_since_ + options_.join_timeout});
  }
  if ((phase_ == Phase::pausing && !stopped_at_) || phase_ == Phase::over) next = std::min(next, go_on_at_);
  return next;
}

}  // namespace ddp::launcher
