// Agent decides what one node of a job does, as its coordinator requests. It turns events and times into actions,
// without a clock or sockets.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "launcher/run/job/succession.h"
#include "launcher/start/log/log_line.h"
#include "wire/control_message.h"

namespace ddp::launcher {

struct StartWorkers {
  wire::CoordinatorBegins place;
};
// Ends the workers because of an event on this node or on another one. They may have ended already.
struct EndWorkers {
  wire::Cause cause;
};
struct SendToCoordinator {
  wire::ControlMessage message;
};
// Shows the coordinator what it asks for.
struct ShowCoordinator {
  wire::Subject what;
  std::uint64_t asked_at = 0;  // see wire::CoordinatorAsks
};
// Another attempt follows, so the last attempt is not the job's end.
struct AttemptFollows {
  std::string line;
};
// The job is over for this node, whose workers have all ended.
struct LeaveJob {
  wire::Cause cause;
};

using AgentAction =
    std::variant<StartWorkers, EndWorkers, SendToCoordinator, ShowCoordinator, LogLine, AttemptFollows, LeaveJob>;

// The states are: waiting ──the coordinator begins──▶ running ──all workers have ended──▶ waiting … ──the coordinator
// is done, or lost──▶ left. If the job may go on without the coordinator, the node ends its workers when it is lost,
// and then waits for another one, or becomes it.
class Agent {
 public:
  using TimePoint = std::chrono::steady_clock::time_point;

  // `coordinator` is for messages. A coordinator that sends nothing for `node_timeout` is lost; 0 means that it cannot
  // be lost.
  Agent(std::string coordinator, std::chrono::milliseconds node_timeout, TimePoint now)
      : coordinator_(std::move(coordinator)), node_timeout_(node_timeout), heard_at_(now), next_heartbeat_(now) {}

  // The node has connected to the coordinator, possibly after a long search, or has connected again.
  std::vector<AgentAction> connected(const wire::NodeHello& hello, TimePoint now);
  std::vector<AgentAction> heard(const wire::ControlMessage& message, TimePoint now);
  std::vector<AgentAction> coordinator_lost(const std::string& why) { return leave_coordinator("is lost: " + why); }

  // --- These are for a coordinator whose connection has ended in order, without a farewell, or which is silent.
  // Returns whether the job may go on without the coordinator.
  bool may_outlive_coordinator() const;
  // Ends the workers. Afterwards, this node is an orphan until it connects to another coordinator or becomes it.
  std::vector<AgentAction> coordinator_is_gone(const std::string& why);
  // It is certain that the coordinator runs no longer.
  void coordinator_died() { succession_.coordinator_died(); }
  // Returns whether the coordinator has been silent for so long that it leads the job no longer, if most of the other
  // nodes do not hear it either. Its connection must stay open, because a closed one would mean that this node has
  // ended.
  bool may_leave_silent_coordinator(TimePoint now) const {
    return is_orphan_ && is_silent(now) && now - heard_at_ >= 5 * node_timeout_ / 4;
  }
  void coordinator_is_silent() { succession_.coordinator_is_silent(); }
  // The node goes on with another coordinator. connected() follows.
  void follows(const wire::Successor& successor);
  // The node becomes the coordinator. leads() returns what it says to itself then.
  void take_over();
  std::vector<AgentAction> leads();
  const Succession& succession() const { return succession_; }
  Takeover takeover() const;

  // The coordinator has answered and does not let this node in, for example because its token differs.
  std::vector<AgentAction> coordinator_refuses(const std::string& why) {
    return leave_coordinator("does not accept this node: " + why);
  }
  // Reports a cause on this node, a cause that shows more than the last one, or a request to end this node. A spare
  // node leaves.
  std::vector<AgentAction> failed(const wire::Cause& cause);
  // Reports that a worker has exited with 0.
  std::vector<AgentAction> rank_left(int rank);
  // Shows information about workers that run.
  std::vector<AgentAction> show(wire::Subject what, std::string text);
  // Reports that no worker of the attempt runs anymore.
  std::vector<AgentAction> workers_ended(wire::NodeEnded end);
  // Must be called at alarm() or later.
  std::vector<AgentAction> tick(TimePoint now);
  TimePoint alarm() const { return next_heartbeat_; }

  // Returns whether workers run and their end was not decided without the coordinator.
  bool runs() const { return runs_ && !last_; }
  bool has_left() const { return has_left_; }
  // Returns whether the job has not begun for this node. In that case a lost coordinator may be found again.
  bool may_search_again() const { return !takes_part_ && !is_spare_ && !has_left_; }
  bool is_silent(TimePoint now) const { return node_timeout_.count() > 0 && now - heard_at_ >= node_timeout_; }

 private:
  void begin(const wire::CoordinatorBegins& begins, TimePoint now);
  wire::Cause refusal(const std::string& why) const;
  std::vector<AgentAction> leave_coordinator(const std::string& why);
  void leave(const wire::Cause& cause);
  void add(AgentAction action) { actions_.push_back(std::move(action)); }
  std::vector<AgentAction> take() { return std::exchange(actions_, {}); }

  wire::Cause loss_of_coordinator() const;

  std::string coordinator_;
  std::chrono::milliseconds node_timeout_;
  std::vector<AgentAction> actions_;
  TimePoint heard_at_;
  TimePoint next_heartbeat_;
  int attempt_ = 0;
  bool runs_ = false;
  bool takes_part_ = false;  // the node has its place in the job, also between attempts
  bool is_spare_ = false;    // the job runs without this node
  bool has_left_ = false;
  std::optional<wire::Cause> last_;  // cause to leave with when the workers have ended
  Succession succession_;
  bool is_orphan_ = false;
  std::string why_lost_;                  // the coordinator, if it is
  std::optional<wire::Cause> ends_;       // cause with which the coordinator has ended the attempt
  std::optional<wire::Cause> asked_;      // request of a user to end this node
  std::optional<wire::NodeEnded> ended_;  // what was said of the end of the attempt
  TimePoint began_at_{};                  // when the attempt did
  TimePoint answered_at_{};               // the last heartbeat of the coordinator
  std::int64_t read_ = 0;                 // when the coordinator sent its last heartbeat: see wire::NodeHeartbeat
  wire::NodeHeartbeat own_heartbeat() const { return {takes_part_ ? attempt_ : -1, {}, read_}; }
};

}  // namespace ddp::launcher
