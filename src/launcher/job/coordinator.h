// Coordinator: who takes part in a job, of one node or of many, and what becomes of all of them: attempts, their
// causes, restarts, the end. Events and times in, actions out; no clock, no sockets.
// docs/development/decisions/0022-one-port-one-hub-one-fate.md and docs/development/decisions/0029-one-lifecycle.md
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "launcher/job/node_roster.h"
#include "launcher/job/restart_policy.h"
#include "launcher/job/stranger_lines.h"
#include "launcher/log/log_line.h"
#include "launcher/plan/launch_plan.h"
#include "wire/control_message.h"

namespace ddp::launcher {

struct CoordinatorOptions {
  NodesPlan nodes;
  int max_restarts = 0;
  std::chrono::milliseconds exit_timeout{0};  // for the other ranks to end when one has ended with 0; 0: none
};

struct SendToNode {
  NodeId to;
  wire::ControlMessage message;
};
// When it has read all that was sent. Nothing more is heard of it but that it is lost.
struct CloseNode {
  NodeId who;
};
// Before an attempt begins: the store is empty then.
struct EmptyStore {};
// What a node shows of its ranks. `clock_ahead`: of its CLOCK_MONOTONIC, against ours.
struct PassOn {
  NodeId from;
  std::string host;
  std::chrono::nanoseconds clock_ahead;
  wire::Subject what;
  std::string text;
};
struct TellUser {
  LogLine line;
};
// The job is over, and everybody has heard of it.
struct CoordinatorIsThrough {};

using CoordinatorAction = std::variant<SendToNode, CloseNode, EmptyStore, PassOn, TellUser, CoordinatorIsThrough>;

// Gathering ──enough nodes──▶ running ──the first cause, or all have ended──▶ ending ──all have ended──▶ pausing ──▶
// gathering, or over. A cause that is a secondary failure waits for a better one: see wait_for_more(). A node that is
// lost while it takes part is a cause. What comes from an earlier attempt is not listened to.
class Coordinator {
 public:
  using TimePoint = std::chrono::steady_clock::time_point;

  Coordinator(const CoordinatorOptions& options, wire::NodeHello own, TimePoint now);

  // The first moment: the coordinator's own node is there.
  std::vector<CoordinatorAction> begin(TimePoint now);
  // A message of a node, the coordinator's own among them. The first one of a connection is its hello. `address`: for
  // messages.
  std::vector<CoordinatorAction> heard(NodeId from, const std::string& address, const wire::ControlMessage& message,
                                       TimePoint now);
  // A node's connection has ended.
  std::vector<CoordinatorAction> lost(NodeId who, const std::string& why, TimePoint now);
  // For the other nodes to show this.
  std::vector<CoordinatorAction> ask(wire::Subject what);
  // What is said of one who has connected and does not belong to the job; nothing if enough was said of that address.
  std::optional<std::string> line_on_stranger(const std::string& address, const std::string& line) {
    return stranger_lines_.allow(address, line);
  }
  // The coordinator's own node is stopped (Ctrl-Z), or goes on: until then the waits for a better cause, for ranks to
  // follow the others to the end, and before a restart stand still.
  void stop_clocks(TimePoint now) {
    if (!stopped_at_) stopped_at_ = now;
  }
  void continue_clocks(TimePoint now);
  // At alarm(), or later.
  std::vector<CoordinatorAction> tick(TimePoint now);
  TimePoint alarm() const;

 private:
  enum class Phase : std::uint8_t { gathering, running, ending, pausing, over };
  using Node = NodeRoster::Node;

  // Somebody who has connected, and is no node of the job.
  struct Stranger {
    std::string host;
    std::string address;
  };

  void lose(NodeId who, const std::string& why, TimePoint now);
  void urge();
  void keep_from_restarting(const Node& node, const wire::Cause& cause);
  void greet(NodeId from, const std::string& address, const wire::NodeHello& hello, TimePoint now);
  void tell(LogLevel level, std::string text) {
    actions_.emplace_back(TellUser{{level, LogSource::nodes, std::move(text)}});
  }
  // So much for an address, and no more. False: it is not told.
  bool tell_of_stranger(const std::string& address, const std::string& line);
  void send_away(NodeId from, const Stranger& who, const std::string& why);
  void gather(TimePoint now);
  void gather_more(TimePoint now);
  void tell_who_is_missing(TimePoint now);
  void start(TimePoint now);
  void blame(const Node& node, wire::Cause cause, TimePoint now);
  void settle_within(std::chrono::milliseconds wait, TimePoint now);
  void settle(TimePoint now);
  void end_attempt(TimePoint now);
  void go_on_if_all_have_ended(TimePoint now);
  void finish(wire::Cause cause, TimePoint now);
  void look_for_silence(TimePoint now);
  bool everybody_has_left() const { return roster_.size() == 1; }
  void send(NodeId to, wire::ControlMessage message) { actions_.emplace_back(SendToNode{to, std::move(message)}); }
  void close(NodeId who) { actions_.emplace_back(CloseNode{who}); }
  std::vector<CoordinatorAction> take() { return std::exchange(actions_, {}); }

  const CoordinatorOptions options_;
  const wire::NodeHello own_;
  std::vector<CoordinatorAction> actions_;
  Phase phase_ = Phase::gathering;
  NodeRoster roster_;
  int still_run_ = 0;  // of those that take part; what follows depends on all, and is asked at each message
  int attempt_ = 0;
  TimePoint gathering_since_;
  TimePoint enough_since_;
  bool is_enough_ = false;
  int last_count_ = 0;  // when somebody came or went last
  TimePoint next_heartbeat_;
  TimePoint next_word_;  // about who is missing
  TimePoint started_at_;
  std::vector<PastAttempt> attempts_;  // that have ended, or are being ended
  wire::Progress progress_{};          // of the attempt that runs, as far as nodes have ended
  std::optional<wire::Cause> cause_;
  std::optional<TimePoint> settle_at_;
  std::set<int> left_;  // ranks that have ended with 0
  std::optional<TimePoint> left_alone_at_;
  TimePoint go_on_at_;  // when pausing, or over: not later
  std::optional<TimePoint> stopped_at_;
  std::set<std::string> warned_of_;
  StrangerLines stranger_lines_;
  QuarantinedNodes quarantined_;
};

}  // namespace ddp::launcher
