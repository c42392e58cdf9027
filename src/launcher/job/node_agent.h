// NodeAgent: what one node of a job does, as its coordinator tells it. Events and times in, actions out; no clock, no
// sockets.
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "launcher/log/log_line.h"
#include "wire/control_message.h"

namespace ddp::launcher {

struct StartWorkers {
  wire::CoordinatorBegins place;
};
// Because of what happened here or elsewhere. They may have ended already.
struct EndWorkers {
  wire::Cause cause;
};
struct SendToCoordinator {
  wire::ControlMessage message;
};
// The coordinator wants to see this.
struct ShowCoordinator {
  wire::Subject what;
};
struct TellHere {
  LogLine line;
};
// The last attempt is not the job's end.
struct AttemptFollows {
  std::string line;
};
// The job is over for this node, whose workers have all ended.
struct LeaveJob {
  wire::Cause cause;
};

using NodeAction =
    std::variant<StartWorkers, EndWorkers, SendToCoordinator, ShowCoordinator, TellHere, AttemptFollows, LeaveJob>;

// Waiting ──the coordinator begins──▶ running ──all workers have ended──▶ waiting … ──the coordinator is done, or
// lost──▶ left.
class NodeAgent {
 public:
  using TimePoint = std::chrono::steady_clock::time_point;

  // `coordinator`: for messages. A coordinator that says nothing for `node_timeout` is lost; 0: it cannot be.
  NodeAgent(std::string coordinator, std::chrono::milliseconds node_timeout, TimePoint now)
      : coordinator_(std::move(coordinator)), node_timeout_(node_timeout), heard_at_(now), next_heartbeat_(now) {}

  // To the coordinator, after a search that may have been long, or again.
  std::vector<NodeAction> connected(const wire::NodeHello& hello, TimePoint now);
  std::vector<NodeAction> heard(const wire::ControlMessage& message, TimePoint now);
  std::vector<NodeAction> coordinator_lost(const std::string& why) { return leave_coordinator("is lost: " + why); }
  // It has answered, and does not let this node in: another token, say.
  std::vector<NodeAction> coordinator_refuses(const std::string& why) {
    return leave_coordinator("does not take this node: " + why);
  }
  // A cause here, or one of which more is known than of the last; or that somebody asks this node to end. A spare
  // leaves.
  std::vector<NodeAction> failed(const wire::Cause& cause);
  // A worker has ended with 0.
  std::vector<NodeAction> rank_left(int rank);
  // Of workers that run.
  std::vector<NodeAction> show(wire::Subject what, std::string text);
  // No worker of the attempt runs any more.
  std::vector<NodeAction> workers_ended(wire::Progress progress);
  // At alarm(), or later.
  std::vector<NodeAction> tick(TimePoint now);
  TimePoint alarm() const { return next_heartbeat_; }

  // Its workers, and their end has not been decided without the coordinator.
  bool runs() const { return runs_ && !last_; }
  bool has_left() const { return has_left_; }
  // The job has not begun for this node: a coordinator that is lost may be found again.
  bool may_look_again() const { return !takes_part_ && !is_spare_ && !has_left_; }
  bool is_silent(TimePoint now) const { return node_timeout_.count() > 0 && now - heard_at_ >= node_timeout_; }

 private:
  std::vector<NodeAction> leave_coordinator(const std::string& why);
  void leave(const wire::Cause& cause);
  void add(NodeAction action) { actions_.push_back(std::move(action)); }
  std::vector<NodeAction> take() { return std::exchange(actions_, {}); }

  const std::string coordinator_;
  const std::chrono::milliseconds node_timeout_;
  std::vector<NodeAction> actions_;
  TimePoint heard_at_;
  TimePoint next_heartbeat_;
  int attempt_ = 0;
  bool runs_ = false;
  bool takes_part_ = false;  // in the job; when attempts are over it has its place in the next one
  bool is_spare_ = false;    // the job runs without it
  bool has_left_ = false;
  std::optional<wire::Cause> last_;  // to leave with, when the workers have ended
};

}  // namespace ddp::launcher
