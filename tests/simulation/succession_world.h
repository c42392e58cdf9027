// SuccessionWorld simulates who leads a job on several nodes, from a seed, in virtual time. Its boxes have the agents
// and coordinators of launchers, which are killed, freeze and are cut off from each other, in one direction or both.
// Their clocks differ. Some jobs have a witness, which is slow, loses answers, and which a box may not reach. What
// CoordinatorClient and CoordinatorServer do with threads, sockets and files is modelled here.
#pragma once

#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "launcher/run/job/agent.h"
#include "launcher/run/job/coordinator.h"

namespace ddp::test {

class SuccessionWorld {
 public:
  explicit SuccessionWorld(std::uint64_t seed);
  ~SuccessionWorld();

  // Returns the rule that was broken, and when, or an empty string if none was.
  std::string live();

  struct Counts {
    std::uint64_t kills = 0, freezes = 0, cuts = 0, attempts = 0, takeovers = 0, ends = 0;
    std::uint64_t granted = 0, taken = 0;  // claims
  };
  const Counts& counts() const { return counts_; }

 private:
  using Time = std::chrono::nanoseconds;
  using TimePoint = std::chrono::steady_clock::time_point;

  // One direction of a connection. Messages keep their order.
  struct Parcel {
    Time due;
    std::optional<wire::ControlMessage> message;  // none: the end
    bool is_reset = false;
  };
  struct Connection {
    std::size_t client = 0, server = 0;
    std::deque<Parcel> to_server, to_client;
    bool client_reads = true, server_reads = true;
    bool client_is_gone = false, server_is_gone = false;
  };
  // A claim on its way to the witness, or an answer on its way back.
  struct Claim {
    Time due;
    std::size_t box = 0;
    int attempt = -1;
    std::optional<launcher::ClaimAnswer> answer;
  };
  // Looks for a successor.
  struct Search {
    bool needs_proof = false;
    bool was_reset = false;
    bool is_proven = false;
    std::size_t lost = 0;
    std::vector<wire::Successor> successors;
    std::size_t next = 0;
    bool may_lead = false;
    Time until{0};
    Time step_until{0};
    Time due{0};
  };
  struct Box {
    std::string name;
    double rate = 1;  // of its clock
    bool is_alive = true, is_reachable = true, is_frozen = false;
    bool witness_hangs = false;  // instead of an error, if the box does not reach it
    Time lacks_witness_until{0};
    std::optional<launcher::Agent> agent;
    std::optional<launcher::Coordinator> coordinator;
    std::optional<launcher::NodeId> link;  // the connection that its agent reads
    std::optional<Search> search;
    std::size_t follows = 0;  // the box of the last coordinator
    int runs = -1;            // attempt of its workers
    int last_attempt = -1;    // the last one whose workers it has started
    Time workers_end{-1};
    Time workers_fail{-1};
    std::deque<launcher::CoordinatorAction> waiting;
    bool is_acting = false;
  };
  struct Cut {
    std::size_t from, to;
    Time until;
  };
  struct Fault {
    Time when;
    int kind;
  };

  int below(int limit) { return static_cast<int>(random_() % static_cast<unsigned>(limit)); }
  bool one_in(int count) { return below(count) == 0; }
  Time milliseconds_below(int limit) { return std::chrono::milliseconds(below(limit)); }
  TimePoint local(const Box& box) const;
  Time from_local(const Box& box, TimePoint when) const;
  bool is_cut(std::size_t from, std::size_t to) const;
  bool acts(std::size_t id) const { return boxes_[id]->is_alive && !boxes_[id]->is_frozen; }

  void comes(std::size_t leader);
  void strikes_soon(Time when);
  void resets();
  void befalls(int kind);
  void dies(std::size_t id, bool with_host);
  void ends(std::size_t id, bool is_killed);
  Time next() const;
  void move_messages();
  void move_claims();
  // Returns what becomes of a claim that arrives at the witness.
  launcher::ClaimAnswer decide(const Claim& claim);
  void fire_timers();
  void search_on(std::size_t id);
  void give_up(std::size_t id, bool needs_proof);
  void connects(std::size_t id, std::size_t leader);
  void loses(std::size_t id, bool in_order);
  void push(std::deque<Parcel>& pipe, std::optional<wire::ControlMessage> message, bool is_reset = false);
  void agent_acts(std::size_t id, std::vector<launcher::AgentAction> actions);
  void coordinator_acts(std::size_t id, std::vector<launcher::CoordinatorAction> actions);
  void carry_out(std::size_t id, const launcher::CoordinatorAction& action);
  void violate(const std::string& what);
  void trace(const std::string& text) const;  // if DDP_TEST_TRACE is set
  void check_leaders();
  void check_end();
  std::optional<std::size_t> leader() const;

  std::mt19937_64 random_;
  Time now_{0};
  std::vector<std::unique_ptr<Box>> boxes_;
  std::map<launcher::NodeId, Connection> connections_;
  launcher::NodeId next_connection_ = 1;
  std::vector<Cut> cuts_;
  std::vector<Claim> claims_;
  std::map<int, std::size_t> witness_;  // the box that was first, by attempt
  std::vector<Fault> faults_;
  std::vector<Time> begun_;  // when attempts have begun
  launcher::CoordinatorOptions options_;
  // What is expected if there is one fault.
  enum class Expected { anything, goes_on, nothing_happens } expected_ = Expected::anything;
  Time fault_at_{0};
  bool may_reset_ = true;
  Counts counts_;
  std::string violation_;
};

}  // namespace ddp::test
