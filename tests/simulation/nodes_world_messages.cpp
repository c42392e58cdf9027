// Implements the connections, and the messages of the coordinator and the agents.
#include <algorithm>
#include <utility>

#include "launcher/limits.h"
#include "simulation/nodes_world.h"

namespace ddp::test {

using namespace std::chrono_literals;
using namespace launcher;

void NodesWorld::push(std::size_t id, Pipe& pipe, std::optional<wire::ControlMessage> message) {
  pipe.last_due = std::max(pipe.last_due, now_ + delay());
  pipe.parcels.push_back({pipe.last_due, std::move(message)});
  move(id, pipe);
}

void NodesWorld::move(std::size_t id, Pipe& pipe) {
  if (pipe.is_moving || pipe.parcels.empty()) return;
  pipe.is_moving = true;
  const Kind kind = &pipe == &machines_[id]->to_coordinator ? Kind::to_coordinator : Kind::to_node;
  at(std::max<Duration>(pipe.parcels.front().due - now_, 0s),
     {.kind = kind, .machine = static_cast<std::uint32_t>(id)});
}

void NodesWorld::deliver(std::size_t id, Kind kind) {
  Machine& machine = *machines_[id];
  const bool is_for_coordinator = kind == Kind::to_coordinator;
  Pipe& pipe = is_for_coordinator ? machine.to_coordinator : machine.from_coordinator;
  pipe.is_moving = false;
  if (machine.is_cut || (is_for_coordinator ? !coordinator_hears() : machine.is_frozen)) return;
  if (pipe.parcels.empty() || pipe.parcels.front().due > now_) return move(id, pipe);
  const auto message = std::move(pipe.parcels.front().message);
  pipe.parcels.pop_front();
  if (is_for_coordinator && machine.is_coordinator_connected) {
    if (!message) {
      coordinator_loses(id);
    } else if (!machine.is_closed_by_coordinator) {
      const bool is_hello = std::holds_alternative<wire::NodeHello>(*message);
      if (const auto* failed = std::get_if<wire::NodeFailed>(&*message)) rules_.coordinator_hears_failure(id, *failed);
      auto actions = coordinator_->heard(machine.connection, "10.0.0.1", *message, now_);
      const bool is_refused = std::ranges::any_of(actions, [](const CoordinatorAction& action) {
        const auto* send = std::get_if<SendToNode>(&action);
        return send != nullptr && std::holds_alternative<wire::CoordinatorRefuses>(send->message);
      });
      if (is_hello) machine.has_said_hello = true;
      if (is_hello && !is_refused) rules_.coordinator_takes_in(id);
      coordinator_acts(std::move(actions));
    }
  }
  if (!is_for_coordinator && machine.is_connected) {
    if (message) {
      machine.has_heard = true;
      rules_.hears(id);
      agent_acts(id, machine.agent.heard(*message, now_));
    } else if (machine.has_heard) {
      machine.is_connected = false;
      push(id, machine.to_coordinator, std::nullopt);
      agent_acts(id, machine.agent.coordinator_lost("it has closed the connection"));
    } else {
      // The launcher does the same if it was too early. With another connection it counts as another node.
      machine.is_connected = false;
      machine.is_dead = true;
      rules_.is_gone(id);
      is_done_with(id);
      at(limits::kNodeConnectPause, {.kind = Kind::comes, .local_rank = static_cast<std::uint32_t>(id) + 1});
    }
  }
  move(id, pipe);
}

// Messages in transit arrive first. When the node has read the end, it closes its own end.
void NodesWorld::coordinator_closes(NodeId connection) {
  const std::size_t id = machine_of_[connection];
  Machine& machine = *machines_[id];
  if (machine.connection != connection || !machine.is_coordinator_connected) return;
  if (std::exchange(machine.is_closed_by_coordinator, true)) return;
  rules_.coordinator_gives_up(id);
  push(id, machine.from_coordinator, std::nullopt);
}

void NodesWorld::coordinator_loses(std::size_t id) {
  Machine& machine = *machines_[id];
  if (!std::exchange(machine.is_coordinator_connected, false) || is_coordinator_gone_) return;
  rules_.coordinator_gives_up(id);
  coordinator_acts(coordinator_->lost(machine.connection, "it has closed the connection", true, now_));
}

void NodesWorld::coordinator_acts(std::vector<CoordinatorAction> actions) {
  rules_.coordinator_acts(actions, [this](NodeId connection) { return machine_of_[connection]; });
  for (CoordinatorAction& action : actions) coordinator_waiting_.push_back(std::move(action));
  if (std::exchange(is_coordinator_acting_, true)) return;
  while (!coordinator_waiting_.empty()) {
    const CoordinatorAction action = std::move(coordinator_waiting_.front());
    coordinator_waiting_.pop_front();
    carry_out(action);
  }
  is_coordinator_acting_ = false;
  const TimePoint next = std::max(coordinator_->alarm(), now_);
  if (is_coordinator_gone_ || next == next_coordinator_tick_) return;
  next_coordinator_tick_ = next;
  if (next == TimePoint::max()) return;
  at(next - now_, {.kind = Kind::coordinator_tick});
}

void NodesWorld::carry_out(const CoordinatorAction& action) {
  if (const auto* send = std::get_if<SendToNode>(&action)) {
    const std::size_t id = machine_of_[send->to];
    Machine& machine = *machines_[id];
    if (id == 0) return agent_acts(0, machine.agent.heard(send->message, now_));
    const bool is_open = machine.is_coordinator_connected && !machine.is_closed_by_coordinator;
    if (machine.connection == send->to && is_open) push(id, machine.from_coordinator, send->message);
  }
  if (const auto* close = std::get_if<CloseNode>(&action)) coordinator_closes(close->who);
  if (std::holds_alternative<EmptyStore>(action)) store_is_emptied();
  if (std::holds_alternative<CoordinatorIsThrough>(action) && !is_coordinator_gone_) {
    is_through_ = true;
    machines_[0]->callbacks.report(OthersKnow{});
  }
}

void NodesWorld::coordinator_closes_all() {
  is_coordinator_gone_ = true;
  for (std::size_t id = 1; id < machines_.size(); ++id) {
    Machine& machine = *machines_[id];
    if (!machine.is_coordinator_connected) continue;
    // A message from the node may reset the connection. That discards the messages in transit.
    if (one_in(2)) machine.from_coordinator.parcels.clear();
    push(id, machine.from_coordinator, std::nullopt);
  }
}

// When the store is emptied, it closes all connections that are not from launchers. Some have not sent a message yet.
void NodesWorld::store_is_emptied() {
  for (std::size_t id = 1; id < machines_.size(); ++id) {
    Machine& machine = *machines_[id];
    if (!machine.is_coordinator_connected || machine.has_said_hello || one_in(2)) continue;
    machine.is_coordinator_connected = false;
    machine.to_coordinator.parcels.clear();
    push(id, machine.from_coordinator, std::nullopt);
  }
}

void NodesWorld::agent_acts(std::size_t id, const std::vector<AgentAction>& actions) {
  Machine& machine = *machines_[id];
  for (const AgentAction& action : actions) {
    if (const auto* start = std::get_if<StartWorkers>(&action)) {
      machine.place = start->place;
      machine.callbacks.report(StartAttempt{placement_of(start->place)});
    }
    if (const auto* end = std::get_if<EndWorkers>(&action)) machine.callbacks.report(*end);
    if (const auto* follows = std::get_if<AttemptFollows>(&action)) machine.callbacks.report(*follows);
    if (const auto* send = std::get_if<SendToCoordinator>(&action)) says(id, send->message);
    if (const auto* leave = std::get_if<LeaveJob>(&action)) {
      rules_.leaves(id, leave->cause);
      machine.callbacks.report(*leave);
    }
  }
}

void NodesWorld::says(std::size_t id, const wire::ControlMessage& message) {
  Machine& machine = *machines_[id];
  if (id != 0 && machine.is_connected) push(id, machine.to_coordinator, message);
  if (id != 0 || is_coordinator_gone_) return;
  if (const auto* failed = std::get_if<wire::NodeFailed>(&message)) rules_.coordinator_hears_failure(0, *failed);
  coordinator_acts(coordinator_->heard(kOwnNode, "", message, now_));
}

}  // namespace ddp::test
