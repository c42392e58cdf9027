// Node holds what both kinds of node have: the agent, and the callbacks that it calls.
#pragma once

#include <chrono>
#include <deque>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "launcher/job/node_agent.h"
#include "launcher/job/nodes.h"

namespace ddp::launcher {

// Carrying out an action may produce more actions. These are queued and carried out afterwards.
template <typename Action>
class ActionQueue {
 public:
  template <typename CarryOut>
  void take(std::vector<Action> actions, CarryOut&& carry_out) {
    for (Action& action : actions) waiting_.push_back(std::move(action));
    if (std::exchange(is_taking_, true)) return;
    while (!waiting_.empty()) {
      const Action action = std::move(waiting_.front());
      waiting_.pop_front();
      std::visit(carry_out, action);
    }
    is_taking_ = false;
  }
  bool is_taking() const { return is_taking_; }

 private:
  std::deque<Action> waiting_;
  bool is_taking_ = false;
};

class Node : public Nodes {
 public:
  Node(net::EventLoop& loop, const LaunchPlan& plan, Callbacks callbacks, std::chrono::milliseconds node_timeout);
  Node(net::EventLoop& loop, const LaunchPlan& plan, Callbacks callbacks, NodeAgent agent)
      : loop_(loop), plan_(plan), callbacks_(std::move(callbacks)), agent_(std::move(agent)) {}

  void failed(const wire::Cause& cause) override { act(agent_.failed(cause)); }
  void rank_left(int rank) override { act(agent_.rank_left(rank)); }
  void workers_ended(wire::NodeEnded end) override { act(agent_.workers_ended(std::move(end))); }

 protected:
  virtual void send(const wire::ControlMessage& message) = 0;
  // Sets the addresses only. Each kind of node determines them in its own way.
  virtual void set_addresses(Placement& place) const = 0;

  void act(std::vector<NodeAction> actions) {
    queue_.take(std::move(actions), [this](const auto& specific) { carry_out(specific); });
  }
  std::string endpoint() const;

  net::EventLoop& loop_;
  const LaunchPlan& plan_;
  const Callbacks callbacks_;
  NodeAgent agent_;

 private:
  void carry_out(const StartWorkers& action);
  void carry_out(const EndWorkers& action) { callbacks_.end(action.cause); }
  void carry_out(const SendToCoordinator& action) { send(action.message); }
  void carry_out(const ShowCoordinator& action) { callbacks_.asked(action.what, action.asked_at); }
  void carry_out(const TellHere& action) { callbacks_.log(action.line); }
  void carry_out(const AttemptFollows& action) { callbacks_.again(action.line); }
  void carry_out(const LeaveJob& action) { callbacks_.leave(action.cause); }

  ActionQueue<NodeAction> queue_;
};

}  // namespace ddp::launcher
