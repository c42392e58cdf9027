// AgentDriver is what both kinds of JobLink have: the agent of this node, whose actions it carries out.
#pragma once

#include <chrono>
#include <deque>
#include <memory>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "launcher/run/job/agent.h"
#include "launcher/run/job/job_link.h"

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

// Returns the agent of a node that begins to look for the job at the endpoint of the plan.
Agent new_agent(const LaunchPlan& plan, std::chrono::milliseconds node_timeout);

class AgentDriver : public JobLink {
 public:
  AgentDriver(net::EventLoop& loop, const LaunchPlan& plan, Callbacks callbacks, Agent agent,
              std::unique_ptr<net::Watch> signpost = nullptr)
      : loop_(loop),
        plan_(plan),
        callbacks_(std::move(callbacks)),
        agent_(std::move(agent)),
        signpost_(std::move(signpost)) {}

  void failed(const wire::Cause& cause) override { act(agent_.failed(cause)); }
  void rank_left(int rank) override { act(agent_.rank_left(rank)); }
  void workers_ended(wire::NodeEnded end) override { act(agent_.workers_ended(std::move(end))); }

 protected:
  virtual void send(const wire::ControlMessage& message) = 0;
  // Sets the addresses only. Each kind of link determines them in its own way.
  virtual void set_addresses(Placement& place) const = 0;

  void act(std::vector<AgentAction> actions) {
    queue_.take(std::move(actions), [this](const auto& specific) { carry_out(specific); });
  }
  void log(LogLevel level, std::string text, LogSource source = LogSource::nodes) const {
    callbacks_.report(LogLine{level, source, std::move(text)});
  }

  net::EventLoop& loop_;
  const LaunchPlan& plan_;
  const Callbacks callbacks_;
  Agent agent_;
  std::unique_ptr<net::Watch> signpost_;  // if the endpoint is on this node, and another one leads or led the job

 private:
  void carry_out(const StartWorkers& action);
  void carry_out(const SendToCoordinator& action) { send(action.message); }
  void carry_out(const auto& event) { callbacks_.report(event); }

  ActionQueue<AgentAction> queue_;
};

}  // namespace ddp::launcher
