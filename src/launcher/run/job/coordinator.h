// Coordinator decides which nodes take part in a job, of one node or of many. It also decides about attempts, their
// causes, restarts and the end. It turns events and times into actions, without a clock or sockets. See
// docs/development/decisions/0022-one-port-one-hub-one-fate.md and docs/development/decisions/0029-one-lifecycle.md.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "launcher/limits.h"
#include "launcher/run/job/node_roster.h"
#include "launcher/run/job/restart_policy.h"
#include "launcher/run/job/restore_plan.h"
#include "launcher/run/job/succession.h"
#include "launcher/run/job/witness_claims.h"
#include "launcher/run/ranks/job_clock.h"
#include "launcher/run/ranks/shown.h"
#include "launcher/start/log/log_line.h"
#include "launcher/start/plan/launch_plan.h"
#include "wire/control_message.h"

namespace ddp::launcher {

struct CoordinatorOptions {
  std::string job_key;  // random; empty if no other node may lead the job
  NodesPlan nodes;
  int max_restarts = 0;
  double image_cost = 0;  // of all nodes, as a share of the time
  bool has_image_dir = false;
  int attempts_before = 0;
  std::int64_t job_began = 0;                 // Unix time, ms
  std::chrono::milliseconds exit_timeout{0};  // how long other ranks may run after one exited with 0; 0 means no limit
};

struct SendToNode {
  NodeId to;
  wire::ControlMessage message;
};
// Closes the connection when the node has read all that was sent. After that, only the loss of the node is reported.
struct CloseNode {
  NodeId who;
};
// Empties the store before an attempt begins.
struct EmptyStore {};
// Claims the electorate of an attempt at the witness. claimed() follows, unless the witness hangs.
struct ClaimElectorate {
  std::string job_key;
  int attempt = -1;
};
// The job is over, and the other nodes have left or were waited for long enough.
struct CoordinatorIsThrough {};

// A node has shown something of its ranks (Shown), a line is to be logged, and this launcher must follow the
// coordinator that the job has already (CoordinatorIsElsewhere).
using CoordinatorAction = std::variant<SendToNode, CloseNode, EmptyStore, Shown, LogLine, ClaimElectorate,
                                       CoordinatorIsThrough, wire::CoordinatorIsElsewhere>;

// The phases are: gathering ──enough nodes──▶ running ──the first cause, or all have ended──▶ ending ──all have
// ended──▶ pausing ──▶ gathering, or over. If the cause is a secondary failure, the coordinator waits for a better one:
// see wait_for_more(). The loss of a node that takes part is a cause, and so is a node that leaves because it was asked
// to, while the job may go on without it (docs/development/decisions/0057-a-node-that-leaves-is-a-lost-node.md).
// Messages of an earlier attempt are ignored.
class Coordinator {
 public:
  using TimePoint = std::chrono::steady_clock::time_point;

  // With `takeover`, the job has run before. It goes on if most of its nodes follow, and ends otherwise.
  Coordinator(const CoordinatorOptions& options, wire::NodeHello own, TimePoint now,
              const std::optional<Takeover>& takeover = std::nullopt);

  // Says what --image-dir has. The next attempt may begin with it. It must be called before begin().
  void finds(std::vector<wire::KeptImage> images);
  // Starts the coordinator, with its own node present.
  std::vector<CoordinatorAction> begin(TimePoint now);
  // Processes a message of a node, which may be the coordinator's own. The first message of a connection is its hello.
  // `address` is for log lines.
  std::vector<CoordinatorAction> heard(NodeId from, const std::string& address, const wire::ControlMessage& message,
                                       TimePoint now);
  // Processes the end of a node's connection. `in_order` means that the node itself has closed it.
  std::vector<CoordinatorAction> lost(NodeId who, const std::string& why, bool in_order, TimePoint now);
  // Processes what became of a claim.
  std::vector<CoordinatorAction> claimed(int attempt, const ClaimAnswer& answer, TimePoint now);
  // Asks the other nodes to show this.
  std::vector<CoordinatorAction> ask(wire::Subject what);
  // Returns whether this node decides for the job: it is neither over nor to be elected, and most nodes answer.
  bool leads(TimePoint now) const {
    return phase_ != Phase::over && !election_ && (now < lease_until_ || now < lease_ends());
  }
  // Returns the names of the nodes that wait until a place is free.
  std::vector<std::string> spares() const { return roster_.spares(); }
  // Returns the line to log about a peer that has connected and does not belong to the job, or std::nullopt if enough
  // was logged. Such peers determine the text, and may connect repeatedly. The last line about an address says that it
  // is the last one.
  std::optional<std::string> limited_line_about(const std::string& address, const std::string& line) {
    if (!lines_by_address_.contains(address) && lines_by_address_.size() >= limits::kShownAddresses)
      return std::nullopt;
    const int number = ++lines_by_address_[address];
    if (number > limits::kLinesPerAddress) return std::nullopt;
    return line + (number == limits::kLinesPerAddress ? " (further lines about this address are not shown)" : "");
  }
  // The coordinator's own node was stopped (Ctrl-Z) or continued. While it is stopped, the job's clock stands still for
  // these waits: for a better cause, for ranks to follow the others to the end, and before a restart.
  void set_paused(bool is_paused, TimePoint now) {
    clock_.pass_until(now);
    clock_.set_standing_still(is_paused);
  }
  // Must be called at alarm() or later.
  std::vector<CoordinatorAction> tick(TimePoint now);
  TimePoint alarm() const;

 private:
  enum class Phase : std::uint8_t { gathering, running, ending, pausing, over };
  using Node = NodeRoster::Entry;

  void hears(NodeId from, Node& node, const wire::NodeFailed& failed, TimePoint now);
  void hears(const wire::NodeLeft& left);
  void hears(NodeId from, const Node& node, const wire::NodeShows& shows);
  void hears(NodeId from, Node& node, const wire::NodeEnded& ended, TimePoint now);
  void lose(NodeId who, const std::string& why, bool in_order, TimePoint now);
  void urge();
  void keep_from_restarting(const Node& node, const wire::Cause& cause);
  void greet(NodeId from, const std::string& address, const wire::NodeHello& hello, TimePoint now);
  void tell(LogLevel level, std::string text) {
    actions_.emplace_back(LogLine{level, LogSource::nodes, std::move(text)});
  }
  // Logs a limited number of lines per address. Returns false if the line was not logged.
  bool log_about_peer(const std::string& address, const std::string& line);
  void send_away(NodeId from, const std::string& host, const std::string& address, const std::string& why);
  void has_no_place(NodeId from, const std::string& host, const std::string& address);
  void gather(TimePoint now);
  void gather_more(TimePoint now);
  std::chrono::milliseconds wait_for_nodes() const;
  void tell_who_is_missing(TimePoint now);
  void start(TimePoint now);
  void blame(const Node& node, wire::Cause cause, TimePoint now);
  void settle_within(std::chrono::milliseconds wait);
  // Returns whether this time of the job has come. It does not come while the clock stands still.
  bool is_due(const std::optional<JobTime>& when) const {
    return when && !clock_.stands_still() && clock_.now() >= *when;
  }
  void settle(TimePoint now);
  void end_attempt(TimePoint now);
  void go_on_if_all_have_ended(TimePoint now);
  // Returns whether the job may go on without this node and without those that leave already.
  bool can_do_without(NodeId who) const;
  bool can_do_without_leavers() const;
  void let_go(NodeId who, const wire::Cause& request, TimePoint now);
  void hand_over(TimePoint now);
  void dismiss(NodeId who, TimePoint now);
  void dismiss_leavers(TimePoint now);
  std::vector<RestoringNode> restoring_nodes(std::span<const NodeId> in_order) const;
  // Returns the newest step that a rank has finished, if another attempt of the same nodes would begin with a kept one.
  std::optional<std::int64_t> newest_step() const;
  KeptImages on_disk() const { return {images_, standing_.history.job_began}; }
  void finish(wire::Cause cause, TimePoint now);

  // --- These functions are in coordinator_succession.cpp.
  void take_over(const Takeover& takeover, TimePoint now);
  // Another coordinator says that the job runs already.
  void hears_of_another(NodeId from, const std::string& address, const wire::CoordinatorIsElsewhere& other);
  // Takes in a node that has lost the coordinator before this one.
  void welcome(NodeId from, const std::string& address, const wire::NodeHello& hello, TimePoint now);
  // Goes on with the job when most of its nodes have come and their workers have ended, and ends it if they do not
  // come. Until then, this node decides nothing.
  void check_election(TimePoint now);
  wire::Electorate propose(std::span<const NodeId> seated, TimePoint now);
  // The node has ended.
  void forget(const Node& node, TimePoint now);
  // The connection of the node broke, or it was given up.
  void misses(const Node& node, TimePoint now);
  void tell_soon(TimePoint now);
  void replace_electorate(TimePoint now);
  wire::NodeHeartbeat heartbeat(TimePoint now) const;
  // Returns the voters that have answered what was sent less than the node timeout ago, and this node.
  std::set<int> answering_voters(TimePoint now) const;
  // Returns when this node no longer leads the job, unless more nodes answer.
  TimePoint lease_ends() const;
  // Ends the job for this node if the others may go on without it.
  void check_lease(TimePoint now);
  Leads leads_how() const;
  void claim(int attempt, TimePoint now);
  // Returns whether this node waits for an answer of the witness. The other node can lead later at the earliest.
  bool waits_for_claim(TimePoint now);
  std::string why_it_leads_no_longer() const;
  std::vector<wire::Successor> successors(std::span<const NodeId> seated) const;
  void find_silent_nodes(TimePoint now);
  bool everybody_has_left() const { return roster_.size() == 1; }
  void send(NodeId to, wire::ControlMessage message) { actions_.emplace_back(SendToNode{to, std::move(message)}); }
  void send_to_others(const wire::ControlMessage& message) {
    for (const auto& [id, node] : roster_.all()) {
      if (id != kOwnNode) send(id, message);
    }
  }
  void close(NodeId who) { actions_.emplace_back(CloseNode{who}); }
  std::vector<CoordinatorAction> take() { return std::exchange(actions_, {}); }

  const CoordinatorOptions options_;
  const wire::NodeHello own_;
  std::vector<CoordinatorAction> actions_;
  Phase phase_ = Phase::gathering;
  NodeRoster roster_;
  int still_run_ = 0;  // nodes that take part and have not ended; counted, as each message needs the number
  int attempt_ = 0;
  int own_from_ = 0;       // the first attempt that this coordinator has begun
  int seen_attempt_;  // the newest one that another coordinator has run
  TimePoint gathering_since_;
  TimePoint enough_since_;
  bool is_enough_ = false;
  int last_count_ = 0;  // number of nodes at the last check
  TimePoint next_heartbeat_;
  TimePoint next_word_;  // when the missing nodes are reported next
  TimePoint started_at_;
  std::chrono::nanoseconds run_time_{0};  // of the attempt that ends
  bool has_begun_ = false;
  std::vector<wire::KeptImage> images_;  // in --image-dir
  wire::Standing standing_;              // with the history of all attempts that have ended
  wire::Electorate proposed_;            // the nodes of the last attempt, until they are the electorate
  std::optional<Election> election_;
  TimePoint election_since_;
  TimePoint election_alarm_;
  TimePoint lease_until_ = TimePoint::max();  // this node leads the job at least until then
  WitnessClaims claims_;
  TimePoint electorate_since_;  // no other node has known the electorate before
  TimePoint lost_answered_;     // what the last voter had answered whose connection broke: see Node::answered
  bool has_saved_ = false;      // a node's ranks of the current attempt were asked to save and to leave
  wire::Progress progress_{};   // progress of the current attempt, from the nodes that have ended
  std::optional<wire::Cause> cause_;
  std::set<int> left_;  // ranks that exited with 0
  TimePoint leave_at_;  // the latest time to leave, in phase `over`
  JobClock clock_;      // the following times are those of the job
  std::optional<JobTime> settle_at_;
  std::optional<JobTime> left_alone_at_;
  std::optional<JobTime> restart_at_;
  std::set<std::string> warned_of_;
  std::map<std::string, int> lines_by_address_;  // number of lines by address
  QuarantinedNodes quarantined_;
};

}  // namespace ddp::launcher
