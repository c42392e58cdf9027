#include "launcher/run/job/coordinator.h"

#include <algorithm>
#include <csignal>

#include "base/exit_code.h"
#include "base/printable.h"
#include "base/text.h"
#include "launcher/limits.h"
#include "launcher/run/job/blame.h"
#include "launcher/run/job/node_hello.h"

namespace ddp::launcher {
namespace {

using wire::NodeHello;

constexpr const char* kNoCheck = "it has come too late for the check";
constexpr const char* kNoPlace =
    "the job has all of its nodes and is never restarted (--max-restarts), so no other node can join";

// Returns how many nodes are connected, except those that leave.
std::ptrdiff_t count_staying(const NodeRoster& roster) {
  return std::ranges::count_if(roster.all(), [](const auto& entry) { return !entry.second.leaves.has_value(); });
}

// Returns a cause that a node has sent with texts that can be shown and with an exit code of a failure, from 1 to 255.
wire::Cause checked(wire::Cause cause) {
  cause.text = base::printable(cause.text, limits::kShownReason);
  cause.node = base::printable(cause.node, limits::kShownName);
  cause.not_restarted = base::printable(cause.not_restarted, limits::kShownReason);
  cause.error = base::printable(cause.error, limits::kShownReason);
  if (cause.exit_code < 1 || cause.exit_code > 255) cause.exit_code = 1;
  return cause;
}

}  // namespace

Coordinator::Coordinator(const CoordinatorOptions& options, NodeHello own, TimePoint now,
                         const std::optional<Takeover>& takeover)
    : options_(options),
      own_(std::move(own)),
      roster_(options.nodes.max, options.nodes.rank.has_value()),
      seen_attempt_(options.attempts_before - 1),
      next_heartbeat_(now + limits::kNodeHeartbeat),
      claims_(options.nodes.witness) {
  clock_.pass_until(now);
  roster_.add(kOwnNode, "", own_, now, now);
  standing_.job_key = options.job_key;
  standing_.history.job_began = options.job_began;
  if (takeover) take_over(*takeover, now);
}

void Coordinator::finds(std::vector<wire::KeptImage> images) {
  images_ = std::move(images);
  // The clocks of hosts differ, but a job is later than those before it.
  if (has_begun_ || election_) return;
  for (const wire::KeptImage& image : images_)
    standing_.history.job_began = std::max(standing_.history.job_began, image.job_began + 1);
}

std::vector<CoordinatorAction> Coordinator::begin(TimePoint now) {
  has_begun_ = true;
  if (!election_) gather(now);
  return take();
}

std::vector<CoordinatorAction> Coordinator::heard(NodeId from, const std::string& address,
                                                  const wire::ControlMessage& message, TimePoint now) {
  clock_.pass_until(now);
  Node* const found = roster_.find(from);
  const auto* beat = std::get_if<wire::NodeHeartbeat>(&message);
  if (found != nullptr && beat != nullptr) {
    const TimePoint sent_at{std::chrono::nanoseconds(beat->sent_at)};
    if (sent_at <= now) found->answered = std::max(found->answered, sent_at);
    if (std::exchange(found->knows_attempt, beat->attempt) < beat->attempt) tell_soon(now);
  }
  check_lease(now);
  if (found == nullptr) {
    if (const auto* hello = std::get_if<NodeHello>(&message)) {
      greet(from, address, *hello, now);
    } else if (const auto* other = std::get_if<wire::CoordinatorIsElsewhere>(&message)) {
      hears_of_another(from, address, *other);
    } else {
      close(from);  // the node was refused or is lost, or the peer is not a node
    }
    return take();
  }
  found->heard_at = now;
  if (const auto* failed = std::get_if<wire::NodeFailed>(&message)) hears(from, *found, *failed, now);
  if (const auto* left = std::get_if<wire::NodeLeft>(&message)) hears(*left);
  if (const auto* shows = std::get_if<wire::NodeShows>(&message)) hears(from, *found, *shows);
  if (const auto* ended = std::get_if<wire::NodeEnded>(&message)) hears(from, *found, *ended, now);
  return take();
}

void Coordinator::hears(NodeId from, Node& node, const wire::NodeFailed& failed, TimePoint now) {
  wire::Cause cause = checked(failed.cause);
  const bool asks = cause.signal != 0;  // a user asks the job to end, whatever the attempt was
  const bool nobody_runs = phase_ == Phase::gathering || phase_ == Phase::pausing;
  // Ctrl-C at the first node ends the job, because it would leave one behind otherwise.
  const bool may_leave = from != kOwnNode || cause.signal == SIGTERM;
  if (asks && cause.may_restart && may_leave && can_do_without(from)) return let_go(from, cause, now);
  if (asks) cause.may_restart = false;
  if (nobody_runs && (asks || from == kOwnNode)) {
    cause.node = node.name;
    finish(cause, now);
  } else if (phase_ == Phase::ending && (asks || !cause.may_restart)) {
    keep_from_restarting(node, cause);
    if (cause.is_urgent) urge();
  } else if (asks || (failed.attempt == attempt_ && node.takes_part)) {
    if (cause.code == wire::CauseCode::lost_node) quarantined_.was_lost(node.hello.host, now);
    blame(node, cause, now);
  }
}

void Coordinator::hears(const wire::NodeLeft& left) {
  if (left.attempt != attempt_) return;
  left_.insert(left.rank);
  if (settle_at_ && cause_ && cause_->lost_peer == left.rank) settle_within(limits::kSecondaryWait);
  if (phase_ == Phase::running && options_.exit_timeout.count() > 0)
    left_alone_at_ = clock_.now() + options_.exit_timeout;
}

void Coordinator::hears(NodeId from, const Node& node, const wire::NodeShows& shows) {
  if (shows.attempt != attempt_ || !node.takes_part || node.has_ended) return;
  actions_.emplace_back(Shown{from, node.name, node.clock_ahead, shows.what, shows.text});
}

void Coordinator::hears(NodeId from, Node& node, const wire::NodeEnded& ended, TimePoint now) {
  if (node.may_begin == TimePoint::max()) {
    roster_.admit(from, now);
    if (phase_ == Phase::gathering) gather_more(now);
  }
  if (ended.attempt != attempt_ && !election_) return;
  if (!std::exchange(node.has_ended, true) && node.takes_part) --still_run_;
  progress_ = std::max(progress_, ended.progress);
  if (ended.was_asked_to_save && !node.leaves) node.leaves = wire::Cause{.has_saved = true};
  has_saved_ = has_saved_ || ended.was_asked_to_save;
  node.kept = ended.kept;
  go_on_if_all_have_ended(now);
}

void Coordinator::greet(NodeId from, const std::string& address, const NodeHello& hello, TimePoint now) {
  // The next job may soon use this endpoint. A node that gets no answer continues its search.
  if (phase_ == Phase::over) return close(from);
  // The job follows its check at this endpoint, and a launcher that comes too late for the check may take part in it.
  if (options_.nodes.is_check && own_.job == name_of_check(hello.job)) return close(from);
  if (hello.job == name_of_check(own_.job)) {
    send(from, wire::CoordinatorRefuses{kNoCheck, standing_.job_key});
    return close(from);
  }
  if (const std::string why = difference_of_kind(hello, own_, options_.nodes.rank.has_value(), options_.nodes.max);
      !why.empty())
    return send_away(from, hello.host, address, why);
  if (const auto other = roster_.with_number(hello.node_rank)) {
    // The silent node may have lost its connection and be back. It gets its place when the old connection is given up.
    if (other != kOwnNode && now - roster_.at(*other).heard_at > 2 * limits::kNodeHeartbeat) return close(from);
    return send_away(from, hello.host, address,
                     "node " + roster_.at(*other).name + " already has --node-rank=" + std::to_string(hello.node_rank));
  }
  if (!hello.vote.job_key.empty()) return welcome(from, address, hello, now);
  if (phase_ != Phase::gathering && options_.max_restarts == 0) return has_no_place(from, hello.host, address);
  for (const Remark& remark : remarks_on(hello, own_, now.time_since_epoch())) {
    if (!warned_of_.contains(remark.of) && log_about_peer(address, remark.line)) warned_of_.insert(remark.of);
    send(from, wire::CoordinatorWaits{remark.line});
  }
  roster_.add(from, address, hello, quarantined_.may_return(hello.host), now);
  if (const TimePoint when = roster_.at(from).may_begin; when > now) {
    const std::string text = "this node was lost repeatedly and may join again in " + base::human_duration(when - now);
    log_about_peer(address, "node " + roster_.at(from).name + " (" + address + "): " + text);
    send(from, wire::CoordinatorWaits{text});
  }
  if (phase_ == Phase::gathering) return gather_more(now);
  send(from, wire::CoordinatorWaits{"the job is running; this node waits until it can join", true, standing_});
}

void Coordinator::send_away(NodeId from, const std::string& host, const std::string& address, const std::string& why) {
  log_about_peer(address, "node " + base::printable(host, limits::kShownName) + " (" + address +
                              ") was refused: " + base::printable(why, limits::kShownReason));
  send(from, wire::CoordinatorRefuses{why, standing_.job_key});
  close(from);
}

void Coordinator::has_no_place(NodeId from, const std::string& host, const std::string& address) {
  options_.nodes.is_check ? close(from) : send_away(from, host, address, kNoPlace);
}

bool Coordinator::log_about_peer(const std::string& address, const std::string& line) {
  const auto allowed = limited_line_about(address, line);
  if (allowed) tell(LogLevel::warning, *allowed);
  return allowed.has_value();
}

void Coordinator::gather(TimePoint now) {
  phase_ = Phase::gathering;
  gathering_since_ = now;
  next_word_ = now + limits::kNodeFirstWord;
  is_enough_ = false;
  last_count_ = 0;
  cause_.reset();
  settle_at_.reset();
  restart_at_.reset();
  left_.clear();
  still_run_ = 0;
  roster_.clear_seats();
  gather_more(now);
}

void Coordinator::gather_more(TimePoint now) {
  const int count = roster_.count_those_that_may(now);
  if (count >= options_.nodes.max) return start(now);
  const bool was_enough = std::exchange(is_enough_, count >= options_.nodes.min);
  // The wait begins again whenever another node arrives.
  const bool has_come = count > std::exchange(last_count_, count);
  if (is_enough_ && has_come) enough_since_ = now;
  if (is_enough_ && !was_enough && options_.nodes.last_call.count() == 0) return start(now);
}

std::chrono::milliseconds Coordinator::wait_for_nodes() const {
  if (!is_enough_) return options_.nodes.join_timeout;
  const bool has_all = options_.nodes.expected && last_count_ >= *options_.nodes.expected;
  return has_all ? std::min(options_.nodes.last_call, limits::kCheckedLastCall) : options_.nodes.last_call;
}

void Coordinator::tell_who_is_missing(TimePoint now) {
  const int have = roster_.count_those_that_may(now);
  const auto wanted = is_enough_ ? options_.nodes.max : options_.nodes.min;
  const auto limit = wait_for_nodes();
  const auto since = is_enough_ ? enough_since_ : gathering_since_;
  const std::string text = "waiting for " + std::to_string(wanted - have) + " of " + std::to_string(wanted) +
                           " nodes (have: " + roster_.here() + "; " + base::human_duration(now - since) + " of " +
                           base::human_duration(limit) + ")";
  tell(LogLevel::note, text);
  send_to_others(wire::CoordinatorWaits{text});
  next_word_ = now + limits::kNodeNextWord;
}

void Coordinator::start(TimePoint now) {
  const NodeRoster::Seating seating = roster_.seat(now);
  const auto count = static_cast<int>(seating.seated.size());
  attempt_ = std::max(attempt_, seen_attempt_ + 1);
  still_run_ = count;
  phase_ = Phase::running;
  started_at_ = now;
  progress_ = wire::Progress::unknown;
  has_saved_ = false;
  actions_.emplace_back(EmptyStore{});
  std::vector<wire::RestorePlan> restores = plan_restore(restoring_nodes(seating.seated), on_disk());
  restores.resize(seating.seated.size());
  // The loss of a node does not count, so it may always be followed by a restart.
  const bool may_restart =
      standing_.history.counted < options_.max_restarts || (options_.max_restarts > 0 && options_.nodes.several());
  proposed_ = propose(seating.seated, now);
  for (int i = 0; i < count; ++i) {
    const NodeId id = seating.seated[static_cast<std::size_t>(i)];
    const Node& node = roster_.at(id);
    send(id, wire::CoordinatorBegins{attempt_, i, count, node.first_rank, seating.world_size, seating.text,
                                     node.name == node.hello.host ? "" : node.name, may_restart,
                                     may_restart || options_.has_image_dir ? options_.image_cost : 0,
                                     restores[static_cast<std::size_t>(i)], standing_});
  }
  for (const NodeId id : seating.left_over) {
    if (options_.max_restarts > 0) {
      send(id,
           wire::CoordinatorWaits{"the job has all of its nodes; this node waits until it can join", true, standing_});
      continue;
    }
    const Node spare = roster_.at(id);
    roster_.remove(id);
    has_no_place(id, spare.name, spare.address);
  }
}

std::vector<RestoringNode> Coordinator::restoring_nodes(std::span<const NodeId> in_order) const {
  std::vector<RestoringNode> nodes;
  for (const NodeId id : in_order) {
    const Node& node = roster_.all().at(id);
    nodes.push_back({node.first_rank, node.hello.workers, node.kept});
  }
  return nodes;
}

std::optional<std::int64_t> Coordinator::newest_step() const {
  std::vector<NodeId> members;
  for (const auto& [id, node] : roster_.all()) {
    if (node.takes_part) members.push_back(id);
  }
  std::ranges::sort(members, {}, [&](NodeId id) { return roster_.all().at(id).first_rank; });
  const std::vector<wire::RestorePlan> plans = plan_restore(restoring_nodes(members), on_disk());
  return plans.empty() ? std::nullopt : std::optional(plans.front().step + plans.front().lost_steps);
}

void Coordinator::keep_from_restarting(const Node& node, const wire::Cause& cause) {
  if (!cause_->may_restart || options_.max_restarts == 0) return;
  cause_->may_restart = false;
  const std::string where = options_.nodes.several() ? "node " + node.name + ": " : "";
  cause_->not_restarted =
      "not restarted: " + (cause.signal != 0 ? "the job was asked to stop meanwhile" : where + cause.text);
}

// The cause itself does not change.
void Coordinator::urge() {
  if (std::exchange(cause_->is_urgent, true)) return;
  for (const auto& [id, node] : roster_.all()) {
    if (node.takes_part && !node.has_ended) send(id, wire::CoordinatorEnds{attempt_, *cause_});
  }
}

void Coordinator::blame(const Node& node, wire::Cause cause, TimePoint now) {
  if (phase_ != Phase::running) return;
  if (!says_more(cause, cause_)) return;
  if (cause.node.empty()) cause.node = node.name;
  cause_ = std::move(cause);
  const auto wait = wait_for_more(*cause_);
  if (wait.count() == 0) return end_attempt(now);
  settle_within(left_.contains(cause_->lost_peer) ? limits::kSecondaryWait : wait);
}

void Coordinator::settle_within(std::chrono::milliseconds wait) {
  settle_at_ = std::min(settle_at_.value_or(JobTime::max()), clock_.now() + wait);
}

// No better cause than a secondary failure was reported. The rank that it lost may have exited with 0 in the middle of
// the job.
void Coordinator::settle(TimePoint now) {
  if (left_.contains(cause_->lost_peer)) cause_ = left_early(*cause_, roster_.node_of(cause_->lost_peer));
  end_attempt(now);
}

void Coordinator::end_attempt(TimePoint now) {
  phase_ = Phase::ending;
  settle_at_.reset();
  left_alone_at_.reset();
  clock_.set_standing_still(false);  // any end of an attempt continues the clock
  // A silent node may have been lost that much earlier.
  const bool is_silence = cause_->code == wire::CauseCode::lost_node;
  run_time_ = now - started_at_ - (is_silence ? options_.nodes.node_timeout : std::chrono::milliseconds(0));
  for (const auto& [id, node] : roster_.all()) {
    if (node.takes_part) send(id, wire::CoordinatorEnds{attempt_, *cause_});
  }
  go_on_if_all_have_ended(now);
}

void Coordinator::go_on_if_all_have_ended(TimePoint now) {
  if (phase_ != Phase::running && phase_ != Phase::ending) return;
  if (still_run_ > 0 || election_) return;
  // All workers of all nodes have ended. If there is a cause, it is a secondary failure, and no node has named its
  // culprit.
  if (cause_ && phase_ == Phase::running) return settle(now);
  if (cause_ && !cause_->may_restart) return finish(*cause_, now);
  if (!cause_) run_time_ = now - started_at_;
  const auto code = cause_ ? cause_->code : wire::CauseCode::preempted;
  const std::string error = cause_ ? cause_->error : "";
  standing_.history = add(standing_.history, {run_time_, progress_, code, error, newest_step()});
  const auto& own_leave = roster_.at(kOwnNode).leaves;
  if (own_leave && own_leave->signal != 0) return hand_over(now);
  const RestartDecision decision = decide_restart(standing_.history, options_.max_restarts);
  const auto* none = std::get_if<NoRestart>(&decision);
  const bool asks_others = has_saved_ && none == nullptr && can_do_without_leavers();
  if (!cause_ && !asks_others) return finish({.has_saved = has_saved_}, now);
  if (none != nullptr) {
    cause_->not_restarted = none->reason;
    if (none->is_repeated) cause_->code = wire::CauseCode::repeated_error;
    return finish(*cause_, now);
  }
  if (has_saved_ && !asks_others) {
    cause_->exit_code = base::kExitSaved;
    cause_->code = wire::CauseCode::preempted;
    cause_->not_restarted =
        "not restarted: the program was asked to save and exit; exit code 75 asks to start the job again";
    return finish(*cause_, now);
  }
  dismiss_leavers(now);
  phase_ = Phase::pausing;
  ++attempt_;
  const auto& restart = std::get<RestartAfter>(decision);
  restart_at_ = clock_.now() + restart.delay;
  const wire::CoordinatorRestarts news{describe(restart, options_.max_restarts)};
  for (const auto& [id, node] : roster_.all()) send(id, news);
}

bool Coordinator::can_do_without(NodeId who) const {
  const bool may_lead_on = !standing_.job_key.empty() && standing_.electorate.attempt >= 0;
  if ((who == kOwnNode && !may_lead_on) || options_.max_restarts == 0) return false;
  const bool is_counted = !roster_.all().at(who).leaves;
  return count_staying(roster_) - (is_counted ? 1 : 0) >= options_.nodes.min;
}

bool Coordinator::can_do_without_leavers() const {
  return !roster_.all().at(kOwnNode).leaves && count_staying(roster_) >= options_.nodes.min;
}

void Coordinator::let_go(NodeId who, const wire::Cause& request, TimePoint now) {
  Node& node = roster_.at(who);
  if (!node.leaves || node.leaves->signal == 0) node.leaves = request;
  node.leaves->node = node.name;
  node.leaves->may_restart = false;
  if (phase_ == Phase::gathering || phase_ == Phase::pausing) {
    if (who == kOwnNode) return hand_over(now);
    tell(LogLevel::warning, "node " + node.name + " has left: " + request.text);
    dismiss(who, now);
    if (phase_ == Phase::gathering) gather_more(now);
  } else if (phase_ == Phase::running && node.takes_part) {
    blame(node,
          {.text = "left: " + request.text,
           .exit_code = request.exit_code,
           .may_restart = true,
           .code = wire::CauseCode::preempted},
          now);
  }
}

// The other nodes see that this launcher has ended, and one of them takes over.
void Coordinator::hand_over(TimePoint now) {
  dismiss_leavers(now);
  phase_ = Phase::over;
  leave_at_ = now;
  send(kOwnNode, wire::CoordinatorIsDone{*roster_.at(kOwnNode).leaves});
}

void Coordinator::dismiss(NodeId who, TimePoint now) {
  const Node node = roster_.at(who);
  wire::Cause cause = *node.leaves;
  const bool has_failed = cause.signal == 0 && cause_.has_value();
  if (has_failed) cause = *cause_;
  if (has_failed) {
    cause.exit_code = base::kExitSaved;
    cause.code = wire::CauseCode::preempted;
  }
  send(who, wire::CoordinatorIsDone{cause});
  close(who);
  roster_.remove(who);
  forget(node, now);
}

void Coordinator::dismiss_leavers(TimePoint now) {
  std::vector<NodeId> leavers;
  for (const auto& [id, node] : roster_.all()) {
    if (node.leaves && id != kOwnNode) leavers.push_back(id);
  }
  for (const NodeId id : leavers) dismiss(id, now);
}

void Coordinator::finish(wire::Cause cause, TimePoint now) {
  phase_ = Phase::over;
  election_.reset();
  left_alone_at_.reset();
  restart_at_.reset();
  leave_at_ = now + options_.nodes.node_timeout;
  for (const auto& [id, node] : roster_.all()) {
    const bool has_own = node.leaves && node.leaves->signal != 0;
    send(id, wire::CoordinatorIsDone{has_own ? *node.leaves : cause});
    if (id != kOwnNode) close(id);
  }
  if (everybody_has_left()) actions_.emplace_back(CoordinatorIsThrough{});
}

std::vector<CoordinatorAction> Coordinator::lost(NodeId who, const std::string& why, bool in_order, TimePoint now) {
  clock_.pass_until(now);
  check_lease(now);
  lose(who, why, in_order, now);
  return take();
}

void Coordinator::lose(NodeId who, const std::string& why, bool in_order, TimePoint now) {
  if (roster_.find(who) == nullptr) return;
  const Node node = roster_.at(who);
  if (election_) election_->lose(who, in_order);
  roster_.remove(who);
  in_order ? forget(node, now) : misses(node, now);
  if (phase_ == Phase::over) {
    if (everybody_has_left()) actions_.emplace_back(CoordinatorIsThrough{});
    return;
  }
  const bool was_needed = node.takes_part && !node.has_ended;
  if (was_needed) --still_run_;
  if (was_needed && phase_ == Phase::running) {
    quarantined_.was_lost(node.hello.host, now);
    // Peers of its ranks may already have reported secondary failures.
    blame(node, lost_node("lost: " + why, /*may_restart=*/true), now);
  } else {
    const std::string line = "node " + node.name + " has left: " + why;
    if (node.takes_part) {
      tell(LogLevel::warning, line);
    } else {
      log_about_peer(node.address, line);
    }
  }
  if (phase_ == Phase::gathering) gather_more(now);
  go_on_if_all_have_ended(now);
}

void Coordinator::find_silent_nodes(TimePoint now) {
  // If this node no longer leads, the others may go on without it.
  if (phase_ == Phase::over && now >= leave_at_) return;
  // If most nodes are about to be silent, it is this one that is cut off, and they need each other to go on without it.
  const auto soon = std::min<std::chrono::milliseconds>(2 * limits::kNodeHeartbeat, options_.nodes.node_timeout / 4);
  if (lease_ends() < now + soon) return;
  std::vector<NodeId> silent;
  for (const auto& [id, node] : roster_.all()) {
    if (id != kOwnNode && now - node.heard_at >= options_.nodes.node_timeout) silent.push_back(id);
  }
  for (const NodeId id : silent) {
    // The node must not take the end of the connection for that of this launcher.
    send(id, wire::CoordinatorRefuses{"it has sent nothing for " + base::human_duration(options_.nodes.node_timeout)});
    close(id);
    lose(id, "it has sent nothing for " + base::human_duration(options_.nodes.node_timeout), /*in_order=*/false, now);
  }
}

std::vector<CoordinatorAction> Coordinator::ask(wire::Subject what) {
  if (phase_ != Phase::running) return {};
  for (const auto& [id, node] : roster_.all()) {
    if (id != kOwnNode && node.takes_part && !node.has_ended) send(id, wire::CoordinatorAsks{attempt_, what});
  }
  return take();
}

std::vector<CoordinatorAction> Coordinator::tick(TimePoint now) {
  clock_.pass_until(now);
  check_lease(now);
  if (now >= next_heartbeat_) {
    next_heartbeat_ = now + limits::kNodeHeartbeat;
    replace_electorate(now);
    send_to_others(heartbeat(now));
    find_silent_nodes(now);
  }
  check_election(now);
  if (is_due(settle_at_)) settle(now);
  if (is_due(left_alone_at_)) {
    cause_ = wire::Cause{.text = "ranks did not exit within " + base::human_duration(options_.exit_timeout) +
                                 " after the last rank that exited (--exit-timeout): " + roster_.ranks_but(left_),
                         .exit_code = base::kExitHung,
                         .may_restart = true,
                         .exit_timed_out = true,
                         .code = wire::CauseCode::hang};
    end_attempt(now);
  }
  if (phase_ == Phase::gathering && now >= roster_.check_again_at()) gather_more(now);
  if (phase_ == Phase::gathering && is_enough_ && now >= enough_since_ + wait_for_nodes()) start(now);
  if (phase_ == Phase::gathering && !is_enough_ && now >= gathering_since_ + options_.nodes.join_timeout) {
    const std::string text = "only " + base::counted(static_cast<std::int64_t>(roster_.size()), "node") + " of " +
                             std::to_string(options_.nodes.min) + " joined within " +
                             base::human_duration(options_.nodes.join_timeout) + " (" + roster_.here() + ")";
    finish(lost_node(text, /*may_restart=*/false), now);
  }
  if (phase_ == Phase::gathering && now >= next_word_) tell_who_is_missing(now);
  if (phase_ == Phase::pausing && is_due(restart_at_)) gather(now);
  if (phase_ == Phase::over && now >= leave_at_) actions_.emplace_back(CoordinatorIsThrough{});
  return take();
}

Coordinator::TimePoint Coordinator::alarm() const {
  // A single node sends no heartbeats.
  TimePoint next = roster_.size() > 1 ? next_heartbeat_ : TimePoint::max();
  if (phase_ != Phase::over) next = std::min(next, lease_until_);
  if (election_) next = std::min(next, election_alarm_);
  for (const auto& when : {settle_at_, left_alone_at_, restart_at_}) {
    if (when && !clock_.stands_still()) next = std::min(next, clock_.when(*when));
  }
  if (phase_ == Phase::gathering) {
    next = std::min({next, next_word_, roster_.check_again_at(),
                     (is_enough_ ? enough_since_ : gathering_since_) + wait_for_nodes()});
  }
  if (phase_ == Phase::over) next = std::min(next, leave_at_);
  return next;
}

}  // namespace ddp::launcher
