// Defines a coordinator for tests, on a clock that a test advances.
#pragma once

#include <algorithm>
#include <chrono>
#include <optional>
#include <string>
#include <vector>

#include "launcher/run/job/coordinator.h"

namespace ddp::launcher {

inline ddp::wire::NodeHello node(const std::string& host, int rank = ddp::wire::kAnyNodeRank) {
  ddp::wire::NodeHello hello;
  hello.job = "j";
  hello.host = host;
  hello.node_rank = rank;
  hello.workers = 2;
  hello.nodes = "2";
  hello.same = {{"program train", "aa11"}};
  return hello;
}

inline ddp::wire::Cause failure(const std::string& text = "rank 5: exited with code 3", bool is_secondary = false) {
  using ddp::wire::Knowledge;
  return {.text = text,
          .exit_code = 3,
          .knowledge = is_secondary ? Knowledge::secondary : Knowledge::certain,
          .may_restart = true};
}

// Runs the coordinator on node a and keeps its actions.
class CoordinatorJob {
 public:
  explicit CoordinatorJob(CoordinatorOptions options = {}, int own_rank = ddp::wire::kAnyNodeRank,
                          const std::optional<Takeover>& takeover = std::nullopt) {
    options.nodes.max = std::max(options.nodes.max, 2);
    if (options.nodes.min == 1 && options.nodes.last_call == std::chrono::milliseconds(0)) options.nodes.min = 2;
    if (options.nodes.join_timeout == std::chrono::milliseconds(0))
      options.nodes.join_timeout = std::chrono::seconds(60);
    options.nodes.node_timeout = std::chrono::seconds(10);
    coordinator.emplace(options, node("a", own_rank), now, takeover);
    add(coordinator->begin(now));
  }
  CoordinatorJob& comes(NodeId id, const ddp::wire::NodeHello& hello) {
    add(coordinator->heard(id, "10.0.0." + std::to_string(id), hello, now));
    return *this;
  }
  CoordinatorJob& says(NodeId id, const ddp::wire::ControlMessage& message) {
    add(coordinator->heard(id, "", message, now));
    return *this;
  }
  CoordinatorJob& asks(ddp::wire::Subject what) {
    add(coordinator->ask(what));
    return *this;
  }
  // The node has read all that it was sent.
  CoordinatorJob& answers(NodeId id, int attempt = 0) {
    return says(id, ddp::wire::NodeHeartbeat{attempt, {}, std::chrono::nanoseconds(now.time_since_epoch()).count()});
  }
  CoordinatorJob& loses(NodeId id, bool in_order = true) {
    add(coordinator->lost(id, in_order ? "it has closed the connection" : "its connection broke", in_order, now));
    return *this;
  }
  CoordinatorJob& is_claimed(int attempt, const ClaimAnswer& answer) {
    add(coordinator->claimed(attempt, answer, now));
    return *this;
  }
  // Lets time pass, while the nodes `live` send heartbeats.
  CoordinatorJob& passes(std::chrono::milliseconds time, std::vector<NodeId> live = {}) {
    for (const auto end = now + time; now < end;) {
      now = std::min(end, std::max(coordinator->alarm(), now + std::chrono::milliseconds(1)));
      for (const NodeId id : live) add(coordinator->heard(id, "", ddp::wire::NodeHeartbeat{}, now));
      add(coordinator->tick(now));
    }
    return *this;
  }
  template <typename Message>
  std::vector<Message> to(NodeId id) const {
    std::vector<Message> result;
    for (const CoordinatorAction& action : actions) {
      const auto* send = std::get_if<SendToNode>(&action);
      if (send == nullptr || send->to != id) continue;
      if (const auto* message = std::get_if<Message>(&send->message)) result.push_back(*message);
    }
    return result;
  }
  std::vector<std::string> messages() const {
    std::vector<std::string> result;
    for (const CoordinatorAction& action : actions) {
      if (const auto* tell = std::get_if<LogLine>(&action)) result.push_back(tell->text);
    }
    return result;
  }
  template <typename Action>
  std::size_t count() const {
    return static_cast<std::size_t>(std::count_if(actions.begin(), actions.end(), [](const CoordinatorAction& action) {
      return std::holds_alternative<Action>(action);
    }));
  }

  Coordinator::TimePoint now{std::chrono::hours(1)};
  std::optional<Coordinator> coordinator;
  std::vector<CoordinatorAction> actions;

 private:
  void add(std::vector<CoordinatorAction> more) {
    actions.insert(actions.end(), std::make_move_iterator(more.begin()), std::make_move_iterator(more.end()));
  }
};

}  // namespace ddp::launcher
