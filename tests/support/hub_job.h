// A hub and what it says, on a clock that a test moves.
#pragma once

#include <algorithm>
#include <chrono>
#include <optional>
#include <string>
#include <vector>

#include "launcher/job/hub.h"

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

inline ddp::wire::Cause failure(const std::string& text = "rank 5: exited with code 3", bool is_victim = false) {
  using ddp::wire::Knowledge;
  return {.text = text,
          .exit_code = 3,
          .knowledge = is_victim ? Knowledge::victim : Knowledge::certain,
          .may_restart = true};
}

// A hub on node a, with a clock that a test moves.
class HubJob {
 public:
  explicit HubJob(HubOptions options = {}, int own_rank = ddp::wire::kAnyNodeRank) {
    options.max_nodes = std::max(options.max_nodes, 2);
    if (options.min_nodes == 1 && options.last_call == std::chrono::milliseconds(0)) options.min_nodes = 2;
    if (options.join_timeout == std::chrono::milliseconds(0)) options.join_timeout = std::chrono::seconds(60);
    options.node_timeout = std::chrono::seconds(10);
    hub.emplace(options, node("a", own_rank), now);
    add(hub->begin(now));
  }
  HubJob& comes(NodeId id, const ddp::wire::NodeHello& hello) {
    add(hub->heard(id, "10.0.0." + std::to_string(id), hello, now));
    return *this;
  }
  HubJob& says(NodeId id, const ddp::wire::ControlMessage& message) {
    add(hub->heard(id, "", message, now));
    return *this;
  }
  HubJob& asks(ddp::wire::Subject what) {
    add(hub->ask(what));
    return *this;
  }
  HubJob& loses(NodeId id) {
    add(hub->lost(id, "it has closed the connection", now));
    return *this;
  }
  // All nodes but `silent` say that they live.
  HubJob& passes(std::chrono::milliseconds time, std::vector<NodeId> beating = {}) {
    for (const auto end = now + time; now < end;) {
      now = std::min(end, std::max(hub->alarm(), now + std::chrono::milliseconds(1)));
      for (const NodeId id : beating) add(hub->heard(id, "", ddp::wire::Beat{}, now));
      add(hub->tick(now));
    }
    return *this;
  }
  template <typename Message>
  std::vector<Message> to(NodeId id) const {
    std::vector<Message> result;
    for (const HubAction& action : actions) {
      const auto* send = std::get_if<SendToNode>(&action);
      if (send == nullptr || send->to != id) continue;
      if (const auto* message = std::get_if<Message>(&send->message)) result.push_back(*message);
    }
    return result;
  }
  std::vector<std::string> told() const {
    std::vector<std::string> result;
    for (const HubAction& action : actions) {
      if (const auto* tell = std::get_if<TellUser>(&action)) result.push_back(tell->line.text);
    }
    return result;
  }
  template <typename Action>
  std::size_t count() const {
    return static_cast<std::size_t>(std::count_if(actions.begin(), actions.end(), [](const HubAction& action) {
      return std::holds_alternative<Action>(action);
    }));
  }

  Hub::TimePoint now{std::chrono::hours(1)};
  std::optional<Hub> hub;
  std::vector<HubAction> actions;

 private:
  void add(std::vector<HubAction> more) {
    actions.insert(actions.end(), std::make_move_iterator(more.begin()), std::make_move_iterator(more.end()));
  }
};

}  // namespace ddp::launcher
