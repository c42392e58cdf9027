// NodeRoster: the launchers that are connected to a coordinator, its own among them: their names, numbers and order,
// and which of them take part in an attempt. Pure.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "wire/control_message.h"

namespace ddp::launcher {

// A connection of a launcher. The coordinator's own node has none.
using NodeId = std::uint64_t;
inline constexpr NodeId kOwnNode = 0;

class NodeRoster {
 public:
  using TimePoint = std::chrono::steady_clock::time_point;

  struct Node {
    wire::NodeHello hello;
    std::string name;  // of its host, for people: no two nodes have the same
    std::string address;
    int order = 0;  // of arrival
    std::chrono::nanoseconds clock_ahead{0};
    TimePoint heard_at;
    TimePoint may_begin;  // not before: its host flaps
    bool takes_part = false;
    bool has_ended = false;
    int first_rank = 0;
  };

  // Who takes part in an attempt, in the order of the ranks.
  struct Seating {
    std::vector<NodeId> seated;
    std::vector<NodeId> left_over;
    int world_size = 0;
    std::string text;  // "a (ranks 0-3), b (ranks 4-7)"
  };

  // `is_static`: every node says its number.
  NodeRoster(int max_nodes, bool is_static) : max_nodes_(max_nodes), is_static_(is_static) {}

  void add(NodeId id, const std::string& address, const wire::NodeHello& hello, TimePoint may_begin, TimePoint now);
  void remove(NodeId id);

  std::map<NodeId, Node>& all() { return nodes_; }
  Node& at(NodeId id) { return nodes_.at(id); }
  // A null pointer if there is none.
  Node* find(NodeId id);
  // Whoever has this --node-rank.
  std::optional<NodeId> with_number(int number) const;
  std::size_t size() const { return nodes_.size(); }

  // How many may take part now. Until look_again_at() that stays so, as long as no other one comes.
  int count_those_that_may(TimePoint now);
  TimePoint look_again_at() const { return look_again_at_; }

  // No node takes part any more.
  void clear_seats() {
    for (auto& [id, node] : nodes_) node.takes_part = node.has_ended = false;
  }
  // As many as there may be take part, by number where they have one, else by arrival.
  Seating seat(TimePoint now);

  // "a, b; missing: --node-rank 2".
  std::string here() const;
  // The name of the node on which this rank runs; empty if none does.
  std::string node_of(int rank) const;
  // "ranks 2, 3 on b": the ranks of nodes that have not ended, except those.
  std::string ranks_but(const std::set<int>& ranks) const;

 private:
  std::string name_for(const std::string& host) const;
  std::vector<NodeId> in_order() const;

  const int max_nodes_;
  const bool is_static_;
  std::map<NodeId, Node> nodes_;
  std::map<int, NodeId> numbered_;  // those that have a number
  std::set<NodeId> kept_out_;       // their hosts flap
  TimePoint look_again_at_ = TimePoint::max();
  int next_order_ = 0;
};

// QuarantinedNodes: hosts that were lost again and again while they took part, and when they may take part once more.
class QuarantinedNodes {
 public:
  using TimePoint = std::chrono::steady_clock::time_point;

  // A node there was lost in the middle of an attempt.
  void was_lost(const std::string& host, TimePoint now);
  // From when on it may take part. After one loss at once; after each more of them within limits::kFlapMemory twice as
  // long after it as before, from limits::kFlapDelay to limits::kLongestFlapDelay.
  TimePoint may_return(const std::string& host) const;

 private:
  struct History {
    int losses = 0;
    TimePoint last;
  };
  std::map<std::string, History> hosts_;
};

}  // namespace ddp::launcher
