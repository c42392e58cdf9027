// NodeRoster lists the launchers that are connected to a coordinator, including its own. It keeps their names, numbers
// and order, and which of them take part in an attempt. It is pure.
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

// Identifies a launcher's connection. The coordinator's own node has no connection.
using NodeId = std::uint64_t;
inline constexpr NodeId kOwnNode = 0;

class NodeRoster {
 public:
  using TimePoint = std::chrono::steady_clock::time_point;

  struct Entry {
    wire::NodeHello hello;
    std::string name;  // host name for log lines; no two nodes have the same name
    std::string address;
    int order = 0;  // order of arrival
    std::chrono::nanoseconds clock_ahead{0};
    TimePoint heard_at;
    TimePoint may_begin;  // earliest time to take part, if its host is quarantined
    bool takes_part = false;
    bool has_ended = false;
    int first_rank = 0;
    int place = -1;  // number in the last attempt in which it took part; -1 if there is none
    std::vector<wire::Membership> memberships;
    int knows_attempt = -1;             // the last one of which it has said that it knows
    TimePoint answered;                 // when the newest message was sent that it has answered
    std::vector<wire::KeptState> kept;  // what its memory held at the end of the last attempt
    std::optional<wire::Cause> leaves;  // it was asked to end, or to save, and leaves with this when it has ended
  };

  // Lists the nodes that take part in an attempt, in rank order, and those that do not.
  struct Seating {
    std::vector<NodeId> seated;
    std::vector<NodeId> left_over;
    int world_size = 0;
    std::string text;  // for example "a (ranks 0-3), b (ranks 4-7)"
  };

  // If `is_static`, every node gives its number.
  NodeRoster(int max_nodes, bool is_static) : max_nodes_(max_nodes), is_static_(is_static) {}

  void add(NodeId id, const std::string& address, const wire::NodeHello& hello, TimePoint may_begin, TimePoint now);
  void remove(NodeId id);

  std::map<NodeId, Entry>& all() { return nodes_; }
  const std::map<NodeId, Entry>& all() const { return nodes_; }
  Entry& at(NodeId id) { return nodes_.at(id); }
  // Returns null if there is no such node.
  Entry* find(NodeId id);
  // The node may take part from now on, or not until this is called again.
  void admit(NodeId id, TimePoint when);
  // Returns the node with this --node-rank, or std::nullopt if there is none.
  std::optional<NodeId> with_number(int number) const;
  std::size_t size() const { return nodes_.size(); }

  // Returns how many nodes may take part now. The number is valid until check_again_at(), unless another node joins.
  int count_those_that_may(TimePoint now);
  TimePoint check_again_at() const { return check_again_at_; }

  // After this, no node takes part anymore.
  void clear_seats() {
    for (auto& [id, node] : nodes_) node.takes_part = node.has_ended = false;
  }
  // Gives places to as many nodes as the job may have, by number if they have one, otherwise by arrival. Of the latter,
  // those that took part before keep their places, as far as there are so many, and the others fill the gaps.
  Seating seat(TimePoint now);

  // Returns a text such as "a, b; missing: --node-rank 2".
  std::string here() const;
  // Returns the name of the node on which this rank runs, or an empty string if there is none.
  std::string node_of(int rank) const;
  // Returns the names of the nodes that do not take part, while others do.
  std::vector<std::string> spares() const;
  // Returns a text such as "ranks 2, 3 on b". It lists the ranks of nodes that have not ended, except `ranks`.
  std::string ranks_but(const std::set<int>& ranks) const;

 private:
  std::string name_for(const std::string& host) const;
  std::vector<NodeId> in_order() const;
  void keep_places(std::vector<NodeId>& seated) const;

  const int max_nodes_;
  const bool is_static_;
  std::map<NodeId, Entry> nodes_;
  std::map<int, NodeId> numbered_;  // nodes that have a number
  std::set<NodeId> kept_out_;       // nodes whose hosts are quarantined
  TimePoint check_again_at_ = TimePoint::max();
  int next_order_ = 0;
};

// QuarantinedNodes records the hosts that were lost repeatedly while they took part, and when they may take part again.
class QuarantinedNodes {
 public:
  using TimePoint = std::chrono::steady_clock::time_point;

  // Records that a node on this host was lost in the middle of an attempt.
  void was_lost(const std::string& host, TimePoint now);
  // Returns when the host may take part again. After one loss, it may do so at once. Each further loss within
  // limits::kFlapMemory doubles the delay, from limits::kFlapDelay to limits::kLongestFlapDelay.
  TimePoint may_return(const std::string& host) const;

 private:
  struct History {
    int losses = 0;
    TimePoint last;
  };
  std::map<std::string, History> hosts_;
};

}  // namespace ddp::launcher
