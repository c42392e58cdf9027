// Jobs on several nodes under random failures: a hub and nodes, messages that take time, machines that die, freeze or
// are cut off. Each schedule comes from its seed, which a failure prints. One fate is always reached, on every node
// that lives; two attempts never run at the same time among nodes that the hub hears.
#include <catch2/catch.hpp>

#include <algorithm>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <queue>
#include <random>
#include <set>

#include "launcher/nodes/hub.h"
#include "launcher/nodes/node_agent.h"
#include "support/random_seed.h"

using namespace ddp;
using namespace ddp::launcher;
using namespace std::chrono_literals;

namespace {

using TimePoint = Hub::TimePoint;
using Duration = TimePoint::duration;

class Simulation {
 public:
  explicit Simulation(std::uint64_t seed) : random_(seed) {
    options_.max_nodes = 1 + below(6);
    options_.min_nodes = 1 + below(options_.max_nodes);
    options_.max_restarts = below(4);
    options_.join_timeout = 60s;
    options_.last_call = std::chrono::seconds(below(3) * 5);
    options_.node_timeout = 10s;
    hub_ = std::make_unique<Hub>(options_, hello(0), now_);
    nodes_.push_back(std::make_unique<Node>(now_, 0ms));
    at(0s, [this] { hub_acts(hub_->begin(now_)); });
    const int others = below(options_.max_nodes + 2);
    for (int i = 0; i < others; ++i) at(std::chrono::milliseconds(below(70'000)), [this] { add_node(); });
    const int faults = below(4);
    for (int i = 0; i < faults; ++i) at(std::chrono::milliseconds(below(120'000)), [this] { break_something(); });
  }

  void run() {
    at(0s, [this] { tick_hub(); });
    while (!events_.empty() && now_ < kStart + 1h) {
      const Event event = events_.top();
      events_.pop();
      now_ = std::max(now_, event.when);
      event.deed();
      check_attempts();
      if (is_through_ && everybody_is_done()) break;
    }
    // Whatever happened, everybody who lives has come to an end, and to the same one.
    CHECK(is_through_);
    for (const auto& node : nodes_) {
      if (node->is_dead || node->is_frozen) continue;
      CHECK(node->agent.has_left());
      CHECK_FALSE(node->runs);
      // Who was cut off, or refused, has a cause of its own.
      if (!node->was_cut && node->left_with && node->hears_the_end) CHECK(node->left_with->text == fate_);
    }
  }

 private:
  static constexpr TimePoint kStart{1h};
  struct Event {
    TimePoint when;
    std::uint64_t number;
    std::function<void()> deed;
    bool operator<(const Event& other) const { return std::pair(other.when, other.number) < std::pair(when, number); }
  };
  struct Node {
    Node(TimePoint now, std::chrono::milliseconds timeout) : agent("hub", timeout, now) {}
    NodeAgent agent;
    bool runs = false;
    int attempt = -1;
    bool is_dead = false;
    bool is_frozen = false;
    bool was_cut = false;
    bool hears_the_end = false;
    std::optional<wire::Cause> left_with;
    TimePoint to_hub_at;  // its last message arrives; connections keep the order
    TimePoint from_hub_at;
  };

  int below(int limit) { return static_cast<int>(random_() % static_cast<unsigned>(std::max(limit, 1))); }
  void at(Duration delay, std::function<void()> deed) { events_.push({now_ + delay, ++number_, std::move(deed)}); }
  Duration delay() { return std::chrono::microseconds(50 + below(below(10) == 0 ? 400'000 : 2'000)); }

  wire::NodeHello hello(std::size_t node) const {
    wire::NodeHello result;
    result.host = "n" + std::to_string(node);
    result.workers = 2;
    return result;
  }

  void add_node() {
    const std::size_t id = nodes_.size();
    nodes_.push_back(std::make_unique<Node>(now_, options_.node_timeout));
    nodes_[id]->to_hub_at = nodes_[id]->from_hub_at = now_;
    const wire::ControlMessage first = hello(id);
    send_to_hub(id, first);
    tick_node(id);
  }

  void break_something() {
    const std::size_t id = static_cast<std::size_t>(below(static_cast<int>(nodes_.size())));
    Node& node = *nodes_[id];
    if (node.runs) broken_.insert(node.attempt);
    switch (below(4)) {
      case 0:  // the machine, or its launcher; that of the hub is the end of all, and another test's
        if (id == 0) return fail(id, false);
        node.is_dead = true;
        node.runs = false;
        at(delay(), [this, id] { hub_acts(hub_->lost(id, "it has closed the connection", now_)); });
        return;
      case 1:
        if (id == 0) return fail(id, false);
        node.is_frozen = true;
        return;
      case 2:
        if (id == 0) return fail(id, true);
        node.was_cut = true;
        return;
      default:
        fail(id, below(3) == 0);
    }
  }

  void fail(std::size_t id, bool is_victim) {
    Node& node = *nodes_[id];
    if (!node.runs || node.is_frozen) return;
    wire::Cause cause{"rank of n" + std::to_string(id) + ": exited with code 3", "", 3, 0, is_victim, true};
    node_acts(id, node.agent.failed(cause));
    end_workers(id);
  }

  void end_workers(std::size_t id) {
    at(std::chrono::milliseconds(below(5000)), [this, id] {
      Node& node = *nodes_[id];
      if (!node.runs || node.is_frozen || node.is_dead) return;
      node.runs = false;
      node_acts(id, node.agent.workers_ended());
    });
  }

  void send_to_hub(std::size_t id, const wire::ControlMessage& message) {
    Node& node = *nodes_[id];
    node.to_hub_at = std::max(node.to_hub_at, now_ + (id == 0 ? 0s : delay()));
    const auto deliver = [this, id, message] {
      if (nodes_[id]->was_cut && id != 0) return;
      hub_acts(hub_->heard(id, "10.0.0." + std::to_string(id), message, now_));
    };
    id == 0 ? deliver() : at(node.to_hub_at - now_, deliver);
  }

  void hub_acts(const std::vector<HubAction>& actions) {
    for (const HubAction& action : actions) {
      if (const auto* send = std::get_if<SendToNode>(&action))
        send_to_node(static_cast<std::size_t>(send->to), send->message);
      if (const auto* close = std::get_if<CloseNode>(&action)) close_node(static_cast<std::size_t>(close->who));
      if (std::holds_alternative<HubIsThrough>(action)) is_through_ = true;
    }
  }

  void send_to_node(std::size_t id, const wire::ControlMessage& message) {
    Node& node = *nodes_[id];
    if (const auto* done = std::get_if<wire::HubIsDone>(&message)) {
      if (fate_) CHECK(*fate_ == done->cause.text);
      fate_ = done->cause.text;
    }
    node.from_hub_at = std::max(node.from_hub_at, now_ + (id == 0 ? 0s : delay()));
    at(node.from_hub_at - now_, [this, id, message] {
      Node& to = *nodes_[id];
      if (to.is_dead || to.is_frozen || (to.was_cut && id != 0)) return;
      if (std::holds_alternative<wire::HubIsDone>(message)) to.hears_the_end = true;
      node_acts(id, to.agent.heard(message, now_));
    });
  }

  // All that was sent arrives before the end of the connection.
  void close_node(std::size_t id) {
    Node& node = *nodes_[id];
    at(std::max(node.from_hub_at, now_) - now_ + delay(), [this, id] {
      Node& to = *nodes_[id];
      if (!to.is_dead && !to.is_frozen && !to.was_cut) node_acts(id, to.agent.hub_lost("it has closed the connection"));
      at(delay(), [this, id] { hub_acts(hub_->lost(id, "it has closed the connection", now_)); });
    });
  }

  void node_acts(std::size_t id, const std::vector<NodeAction>& actions) {
    Node& node = *nodes_[id];
    for (const NodeAction& action : actions) {
      if (const auto* start = std::get_if<StartWorkers>(&action)) {
        node.runs = true;
        node.attempt = start->place.attempt;
        // It may come to a good end.
        at(std::chrono::milliseconds(1000 + below(60'000)), [this, id, attempt = node.attempt] {
          Node& now = *nodes_[id];
          if (!now.runs || now.attempt != attempt || now.is_dead || now.is_frozen) return;
          // Where a rank is missing, the others wait for it until somebody ends them.
          if (broken_.contains(attempt)) return;
          now.runs = false;
          node_acts(id, now.agent.workers_ended());
        });
      }
      if (std::holds_alternative<EndWorkers>(action)) end_workers(id);
      if (const auto* send = std::get_if<SendToHub>(&action)) send_to_hub(id, send->message);
      if (const auto* leave = std::get_if<LeaveJob>(&action)) {
        node.left_with = leave->cause;
        if (id != 0 && !node.was_cut) {
          at(delay(), [this, id] { hub_acts(hub_->lost(id, "it has closed the connection", now_)); });
        }
      }
    }
  }

  void tick_hub() {
    hub_acts(hub_->tick(now_));
    if (!is_through_) at(std::max<Duration>(hub_->alarm() - now_, 1ms), [this] { tick_hub(); });
  }
  void tick_node(std::size_t id) {
    Node& node = *nodes_[id];
    if (node.is_dead || node.is_frozen || node.agent.has_left()) return;
    node_acts(id, node.agent.tick(now_));
    at(std::max<Duration>(node.agent.alarm() - now_, 1ms), [this, id] { tick_node(id); });
  }

  void check_attempts() {
    int attempt = -1;
    for (const auto& node : nodes_) {
      // What the hub cannot see may run on until it notices.
      if (!node->runs || node->was_cut || node->is_frozen || node->is_dead) continue;
      if (attempt >= 0) CHECK(node->attempt == attempt);
      attempt = node->attempt;
    }
  }
  bool everybody_is_done() const {
    return std::all_of(nodes_.begin(), nodes_.end(), [](const auto& node) {
      return node->is_dead || node->is_frozen || (node->agent.has_left() && !node->runs);
    });
  }

  std::mt19937_64 random_;
  HubOptions options_;
  TimePoint now_ = kStart;
  std::uint64_t number_ = 0;
  std::priority_queue<Event> events_;
  std::unique_ptr<Hub> hub_;
  std::vector<std::unique_ptr<Node>> nodes_;
  std::set<int> broken_;  // attempts
  bool is_through_ = false;
  std::optional<std::string> fate_;
};

}  // namespace

TEST_CASE("jobs on several nodes come to one end whatever happens") {
  const std::uint64_t first = test::random_seed();
  for (std::uint64_t seed = first; seed < first + 20'000; ++seed) {
    CAPTURE(seed);
    Simulation(seed).run();
  }
}
