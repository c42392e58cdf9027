// Nodes that leave because they were asked to, while the job goes on without them.
#include <algorithm>

#include "base/exit_code.h"
#include "launcher/run/job/coordinator.h"

namespace ddp::launcher {

namespace {

// Returns how many nodes are connected, except those that leave.
std::ptrdiff_t count_staying(const NodeRoster& roster) {
  return std::ranges::count_if(roster.all(), [](const auto& entry) { return !entry.second.leaves.has_value(); });
}

}  // namespace

bool Coordinator::can_do_without(NodeId who) const {
  const bool may_lead_on = !standing_.job_key.empty() && standing_.electorate.attempt >= 0;
  if ((who == kOwnNode && !may_lead_on) || options_.max_restarts == 0) return false;
  const bool is_counted = !roster_.all().at(who).leaves;
  return count_staying(roster_) - (is_counted ? 1 : 0) >= options_.nodes.min;
}

bool Coordinator::can_do_without_leavers() const {
  return !roster_.all().at(kOwnNode).leaves && count_staying(roster_) >= options_.nodes.min;
}

void Coordinator::let_go(NodeId who, const wire::Cause& request, TimePoint now) {
  Node& node = roster_.at(who);
  if (!node.leaves || node.leaves->signal == 0) node.leaves = request;
  node.leaves->node = node.name;
  node.leaves->may_restart = false;
  if (phase_ == Phase::gathering || phase_ == Phase::pausing) {
    if (who == kOwnNode) return hand_over(now);
    tell(LogLevel::warning, "node " + node.name + " has left: " + request.text);
    dismiss(who, now);
    if (phase_ == Phase::gathering) gather_more(now);
  } else if (phase_ == Phase::running && node.takes_part) {
    blame(node,
          {.text = "left: " + request.text,
           .exit_code = request.exit_code,
           .may_restart = true,
           .code = wire::CauseCode::preempted},
          now);
  }
}

// The other nodes see that this launcher has ended, and one of them takes over.
void Coordinator::hand_over(TimePoint now) {
  dismiss_leavers(now);
  phase_ = Phase::over;
  leave_at_ = now;
  send(kOwnNode, wire::CoordinatorIsDone{*roster_.at(kOwnNode).leaves});
}

void Coordinator::dismiss(NodeId who, TimePoint now) {
  const Node node = roster_.at(who);
  wire::Cause cause = *node.leaves;
  const bool has_failed = cause.signal == 0 && cause_.has_value();
  if (has_failed) cause = *cause_;
  if (has_failed) {
    cause.exit_code = base::kExitSaved;
    cause.code = wire::CauseCode::preempted;
  }
  send(who, wire::CoordinatorIsDone{cause});
  close(who);
  roster_.remove(who);
  forget(node, now);
}

void Coordinator::dismiss_leavers(TimePoint now) {
  std::vector<NodeId> leavers;
  for (const auto& [id, node] : roster_.all()) {
    if (node.leaves && id != kOwnNode) leavers.push_back(id);
  }
  for (const NodeId id : leavers) dismiss(id, now);
}

}  // namespace ddp::launcher
