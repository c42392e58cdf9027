#include "launcher/run/job/agent.h"

#include "base/exit_code.h"
#include "base/text.h"
#include "launcher/limits.h"
#include "launcher/run/job/blame.h"
#include "net/address.h"

namespace ddp::launcher {

std::vector<AgentAction> Agent::connected(const wire::NodeHello& hello, TimePoint now) {
  heard_at_ = next_heartbeat_ = now;
  is_orphan_ = false;
  read_ = 0;
  wire::NodeHello vote = hello;
  vote.vote = succession_.vote(!runs_);
  add(SendToCoordinator{std::move(vote)});
  if (ended_) add(SendToCoordinator{*ended_});
  return take();
}

std::vector<AgentAction> Agent::heard(const wire::ControlMessage& message, TimePoint now) {
  heard_at_ = now;
  if (has_left_ || last_) return {};
  // The coordinator was only silent for some time.
  if (std::exchange(is_orphan_, false) && ended_) add(SendToCoordinator{*ended_});
  if (const auto* begins = std::get_if<wire::CoordinatorBegins>(&message); begins != nullptr && !runs_) {
    begin(*begins, now);
  } else if (const auto* beat = std::get_if<wire::NodeHeartbeat>(&message)) {
    read_ = beat->sent_at;
    succession_.hears(beat->electorate);
    if (node_timeout_.count() > 0 && read_ != 0) {
      add(SendToCoordinator{own_heartbeat()});
      answered_at_ = now;
    }
  } else if (const auto* ends = std::get_if<wire::CoordinatorEnds>(&message)) {
    if (!takes_part_ || ends->attempt != attempt_) return take();
    ends_ = ends->cause;
    add(EndWorkers{ends->cause});
  } else if (const auto* asks = std::get_if<wire::CoordinatorAsks>(&message)) {
    if (runs_ && asks->attempt == attempt_) add(ShowCoordinator{asks->what, asks->sent_at});
  } else if (const auto* done = std::get_if<wire::CoordinatorIsDone>(&message)) {
    leave(done->cause);
  } else if (const auto* refuses = std::get_if<wire::CoordinatorRefuses>(&message)) {
    leave(refusal(refuses->why));
  } else if (const auto* waits = std::get_if<wire::CoordinatorWaits>(&message)) {
    is_spare_ = waits->is_spare;
    if (is_spare_) succession_.hears(waits->standing);
    add(LogLine{LogLevel::note, LogSource::nodes, waits->text});
  } else if (const auto* restarts = std::get_if<wire::CoordinatorRestarts>(&message)) {
    add(AttemptFollows{restarts->text});
  }
  return take();
}

void Agent::begin(const wire::CoordinatorBegins& begins, TimePoint now) {
  attempt_ = begins.attempt;
  runs_ = takes_part_ = true;
  is_spare_ = false;
  began_at_ = now;
  ends_.reset();
  ended_.reset();
  succession_.hears(begins);
  if (succession_.is_possible()) add(SendToCoordinator{own_heartbeat()});
  add(StartWorkers{begins});
}

wire::Cause Agent::refusal(const std::string& why) const {
  const std::string text = takes_part_ ? "lost: the first node (" + coordinator_ + ") goes on without this one: "
                                       : "the job at " + coordinator_ + " does not accept this node: ";
  return {.text = text + why,
          .exit_code = base::kExitOwnFault,
          .code = takes_part_ ? wire::CauseCode::lost_node : wire::CauseCode::cannot_start};
}

bool Agent::may_outlive_coordinator() const {
  const bool is_over = has_left_ || last_ || asked_ || (ends_ && !ends_->may_restart);
  return !is_over && (takes_part_ || is_spare_) && node_timeout_.count() > 0 && succession_.is_possible();
}

wire::Cause Agent::loss_of_coordinator() const {
  return lost_node("the first node (" + coordinator_ + ") is lost: " + why_lost_, /*may_restart=*/true);
}

std::vector<AgentAction> Agent::coordinator_is_gone(const std::string& why) {
  is_orphan_ = true;
  why_lost_ = why;
  if (runs_ && !ends_) add(EndWorkers{loss_of_coordinator()});
  return take();
}

void Agent::follows(const wire::Successor& successor) {
  succession_.follows(successor);
  coordinator_ = net::host_and_port(successor.address, successor.port);
}

void Agent::take_over() {
  node_timeout_ = std::chrono::milliseconds(0);
  is_orphan_ = false;
}

std::vector<AgentAction> Agent::leads() {
  if (ended_) add(SendToCoordinator{*ended_});
  return take();
}

Takeover Agent::takeover() const {
  return {succession_.vote(!runs_), ends_.value_or(loss_of_coordinator()), began_at_};
}

std::vector<AgentAction> Agent::leave_coordinator(const std::string& why) {
  if (has_left_ || last_) return {};
  leave(asked_.value_or(lost_node("the first node (" + coordinator_ + ") " + why, /*may_restart=*/false)));
  return take();
}

// If workers run, the node leaves when they have ended.
void Agent::leave(const wire::Cause& cause) {
  if (runs_) {
    last_ = cause;
    add(EndWorkers{cause});
  } else {
    has_left_ = true;
    add(LeaveJob{cause});
  }
}

std::vector<AgentAction> Agent::failed(const wire::Cause& cause) {
  if (has_left_ || last_) return {};
  const bool is_coordinators_own = node_timeout_.count() == 0;
  if (is_orphan_ && cause.signal == 0) return {};
  if (cause.signal != 0 && !is_coordinators_own) asked_ = cause;
  if ((takes_part_ && !is_orphan_) || is_coordinators_own) {
    add(SendToCoordinator{wire::NodeFailed{attempt_, cause}});
  } else {
    leave(cause);
  }
  return take();
}

std::vector<AgentAction> Agent::rank_left(int rank) {
  if (runs_ && !last_) add(SendToCoordinator{wire::NodeLeft{attempt_, rank}});
  return take();
}

std::vector<AgentAction> Agent::show(wire::Subject what, std::string text) {
  if (runs_ && !last_) add(SendToCoordinator{wire::NodeShows{attempt_, what, std::move(text)}});
  return take();
}

std::vector<AgentAction> Agent::workers_ended(wire::NodeEnded end) {
  if (!std::exchange(runs_, false)) return {};
  if (last_) {
    leave(*last_);
  } else {
    end.attempt = attempt_;
    ended_ = end;
    if (is_orphan_) {
      add(AttemptFollows{"the job goes on with another first node, if most of the other nodes agree"});
    } else {
      add(SendToCoordinator{std::move(end)});
    }
  }
  return take();
}

std::vector<AgentAction> Agent::tick(TimePoint now) {
  if (now < next_heartbeat_) return {};
  next_heartbeat_ = now + limits::kNodeHeartbeat;
  if (has_left_) return {};
  if (!is_silent(now)) {
    const bool has_answered = now - answered_at_ < limits::kNodeHeartbeat;
    if (node_timeout_.count() > 0 && !has_answered) add(SendToCoordinator{own_heartbeat()});
    return take();
  }
  // If packets are lost in one direction only, the coordinator still receives this message. It then does not blame the
  // ranks that lose this node's ranks.
  if (is_orphan_) return {};
  if (runs_ && !last_) {
    const std::string text = "lost: it received nothing from the first node (" + coordinator_ + ") for " +
                             base::human_duration(node_timeout_);
    add(SendToCoordinator{wire::NodeFailed{attempt_, lost_node(text, /*may_restart=*/true)}});
  }
  const std::string why = "it has sent nothing for " + base::human_duration(node_timeout_);
  return may_outlive_coordinator() ? coordinator_is_gone(why) : coordinator_lost(why);
}

}  // namespace ddp::launcher
