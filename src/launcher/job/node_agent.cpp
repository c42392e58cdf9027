#include "launcher/job/node_agent.h"

#include "base/exit_code.h"
#include "base/text.h"
#include "launcher/limits.h"

namespace ddp::launcher {

std::vector<NodeAction> NodeAgent::connected(const wire::NodeHello& hello, TimePoint now) {
  heard_at_ = next_heartbeat_ = now;
  add(SendToCoordinator{hello});
  return take();
}

std::vector<NodeAction> NodeAgent::heard(const wire::ControlMessage& message, TimePoint now) {
  heard_at_ = now;
  if (has_left_ || last_) return {};
  if (const auto* begins = std::get_if<wire::CoordinatorBegins>(&message); begins != nullptr && !runs_) {
    attempt_ = begins->attempt;
    runs_ = takes_part_ = true;
    add(StartWorkers{*begins});
  } else if (const auto* ends = std::get_if<wire::CoordinatorEnds>(&message)) {
    if (takes_part_ && ends->attempt == attempt_) add(EndWorkers{ends->cause});
  } else if (const auto* asks = std::get_if<wire::CoordinatorAsks>(&message)) {
    if (runs_ && asks->attempt == attempt_) add(ShowCoordinator{asks->what, asks->sent_at});
  } else if (const auto* done = std::get_if<wire::CoordinatorIsDone>(&message)) {
    leave(done->cause);
  } else if (const auto* refuses = std::get_if<wire::CoordinatorRefuses>(&message)) {
    leave({.text = "the job at " + coordinator_ + " does not accept this node: " + refuses->why,
           .exit_code = base::kExitOwnFault});
  } else if (const auto* waits = std::get_if<wire::CoordinatorWaits>(&message)) {
    is_spare_ = waits->is_spare;
    add(TellHere{{LogLevel::note, LogSource::nodes, waits->text}});
  } else if (const auto* restarts = std::get_if<wire::CoordinatorRestarts>(&message)) {
    add(AttemptFollows{restarts->text});
  }
  return take();
}

std::vector<NodeAction> NodeAgent::leave_coordinator(const std::string& why) {
  if (has_left_ || last_) return {};
  leave({.text = "the first node (" + coordinator_ + ") " + why,
         .exit_code = base::kExitOwnFault,
         .code = wire::CauseCode::lost_node});
  return take();
}

// If workers run, the node leaves when they have ended.
void NodeAgent::leave(const wire::Cause& cause) {
  if (runs_) {
    last_ = cause;
    add(EndWorkers{cause});
  } else {
    has_left_ = true;
    add(LeaveJob{cause});
  }
}

std::vector<NodeAction> NodeAgent::failed(const wire::Cause& cause) {
  if (has_left_ || last_) return {};
  const bool is_coordinators_own = node_timeout_.count() == 0;
  if (takes_part_ || is_coordinators_own) {
    add(SendToCoordinator{wire::NodeFailed{attempt_, cause}});
  } else {
    leave(cause);
  }
  return take();
}

std::vector<NodeAction> NodeAgent::rank_left(int rank) {
  if (runs_ && !last_) add(SendToCoordinator{wire::NodeLeft{attempt_, rank}});
  return take();
}

std::vector<NodeAction> NodeAgent::show(wire::Subject what, std::string text) {
  if (runs_ && !last_) add(SendToCoordinator{wire::NodeShows{attempt_, what, std::move(text)}});
  return take();
}

std::vector<NodeAction> NodeAgent::workers_ended(wire::NodeEnded end) {
  if (!std::exchange(runs_, false)) return {};
  if (last_) {
    leave(*last_);
  } else {
    end.attempt = attempt_;
    add(SendToCoordinator{std::move(end)});
  }
  return take();
}

std::vector<NodeAction> NodeAgent::tick(TimePoint now) {
  if (now < next_heartbeat_) return {};
  next_heartbeat_ = now + limits::kNodeHeartbeat;
  if (has_left_) return {};
  if (!is_silent(now)) {
    if (node_timeout_.count() > 0) add(SendToCoordinator{wire::NodeHeartbeat{}});
    return take();
  }
  // If packets are lost in one direction only, the coordinator still receives this message. It then does not blame the
  // ranks that lose this node's ranks.
  if (runs_ && !last_) {
    const std::string text = "lost: it received nothing from the first node (" + coordinator_ + ") for " +
                             base::human_duration(node_timeout_);
    add(SendToCoordinator{wire::NodeFailed{
        attempt_,
        {.text = text, .exit_code = base::kExitOwnFault, .may_restart = true, .code = wire::CauseCode::lost_node}}});
  }
  return coordinator_lost("it has sent nothing for " + base::human_duration(node_timeout_));
}

}  // namespace ddp::launcher
