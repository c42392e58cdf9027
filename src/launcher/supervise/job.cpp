#include "launcher/supervise/job.h"

#include <algorithm>
#include <csignal>
#include <optional>
#include <utility>

#include "base/exit_code.h"
#include "base/signals.h"
#include "base/text.h"
#include "launcher/nodes/nodes.h"
#include "launcher/output/gathered_lines.h"
#include "launcher/supervise/attempt.h"
#include "launcher/supervise/verdict_text.h"

namespace ddp::launcher {
namespace {

wire::Cause cause_of(const SignalArrived& event) {
  return {.text = event.reason.empty() ? "ended by " + base::signal_name(event.signal) : event.reason,
          .exit_code = 128 + event.signal,
          .signal = event.signal};
}

// With what is left of this attempt no other one can begin.
wire::Cause remains_of(const JobOutcome& outcome) {
  std::vector<int> ranks;
  for (const RankAndPid& worker : outcome.unkillable) ranks.push_back(worker.rank);
  return {.text = "rank " + base::rank_list(ranks) + " cannot be killed", .exit_code = outcome.status.shell_code()};
}

wire::Cause own_fault(const std::string& text) {
  return {.text = text, .exit_code = base::kExitOwnFault};
}

class Job {
 public:
  explicit Job(const JobParts& parts)
      : parts_(parts), attempts_(parts, exchange_, [this](const Event& event) { observe(event); }) {}

  base::Result<JobOutcome> run() {
    if (parts_.plan.nodes.several()) parts_.observer.looks_for_nodes();
    if (auto failure = open()) return *failure;
    if (parts_.plan.gather_output && !nodes_->is_hub()) send_output_to_hub();
    while (wait()) {
      const Placement place = *std::exchange(start_, std::nullopt);
      // It was over before a worker could be started.
      if (std::exchange(is_over_before_, false)) {
        nodes_->workers_ended();
        continue;
      }
      place_ = place;
      has_reported_ = false;
      attempts_.prepare(place.attempt);
      exchange_.begin(*nodes_, place);
      runs_ = true;
      auto outcome = attempts_.run(place, last_failure_, [this](const JobOutcome& so_far) {
        has_reported_ = true;
        nodes_->failed(cause_of(so_far));
      });
      runs_ = false;
      if (!outcome) return outcome;
      attempt_has_ended(std::move(outcome).value());
    }
    return over();
  }

 private:
  Nodes::Callbacks make_callbacks() {
    Nodes::Callbacks callbacks;
    callbacks.start = [this](const Placement& place) {
      start_ = place;
      parts_.loop.stop();
    };
    callbacks.end = [this](const wire::Cause& cause) { end_workers(cause); };
    callbacks.leave = [this](const wire::Cause& cause) {
      leave_ = cause;
      parts_.loop.stop();
    };
    callbacks.asked = [this](wire::Subject what) {
      if (exchange_.on_asked) exchange_.on_asked(what);
    };
    callbacks.shown = [this](const Shown& shown) {
      if (shown.what == wire::Subject::output || shown.what == wire::Subject::errors) {
        const int which = shown.what == wire::Subject::output ? kStdout : kStderr;
        return gathered_.feed(shown.from, which, wire::text_to_bytes(shown.text));
      }
      exchange_.shown(shown);
      if (!runs_) judge_differences();
    };
    callbacks.can_print = [this] { parts_.output.room_elsewhere(); };
    callbacks.again = [this](const std::string& line) {
      last_.reset();
      if (!is_ending_attempt_) return parts_.observer.tell(line);
      what_follows_ = line;
    };
    callbacks.tell = parts_.observer.tell;
    callbacks.inform = parts_.observer.inform;
    callbacks.warn = [this](const std::string& text) { attempts_.warn(text); };
    callbacks.worker_sockets = [this] { return attempts_.worker_sockets(); };
    // Not from within: it is destroyed then.
    callbacks.is_first = [this] {
      again_ = parts_.loop.at(std::chrono::steady_clock::now(), [this] {
        if (auto failure = open()) leave_at_once(own_fault(failure->message));
      });
    };
    return callbacks;
  }

  std::optional<base::Failure> open() {
    nodes_.reset();
    auto nodes = Nodes::open(parts_.loop, parts_.plan, make_callbacks());
    if (!nodes) return nodes.error();
    nodes_ = std::move(nodes).value();
    if (const auto warning = nodes_->warning()) parts_.observer.warn(*warning);
    return std::nullopt;
  }

  void send_output_to_hub() {
    parts_.output.go_round(
        [this](int which, std::string_view bytes) {
          if (!nodes_) return std::optional<std::size_t>();
          return nodes_->print(which == kStdout ? wire::Subject::output : wire::Subject::errors, bytes);
        },
        [this] { return nodes_ ? nodes_->print_descriptor() : -1; });
  }

  // Whatever comes from outside, at any time.
  void observe(const Event& event) {
    parts_.observer.event(event);
    const auto* signal = std::get_if<SignalArrived>(&event);
    if (signal == nullptr || !nodes_) return;
    if (signal->signal == SIGTSTP) nodes_->stop_clocks();
    if (signal->signal == SIGCONT) nodes_->continue_clocks();
  }

  std::string own_name() const { return place_.node_name.empty() ? parts_.plan.host_name : place_.node_name; }

  void end_workers(const wire::Cause& cause) {
    is_over_before_ = start_.has_value();
    if (start_ || !parts_.inbox) return;
    const bool is_ours = has_reported_ && cause.node == own_name();
    const bool is_late = cause.exit_timed_out && place_.node_count == 1;
    parts_.inbox(is_ours ? Event(Settled{}) : is_late ? Event(ExitTimedOut{}) : Event(EndedElsewhere{cause}));
  }

  // The hub says what follows, at once if no other node's workers still run: then the summary says it, too.
  void attempt_has_ended(JobOutcome outcome) {
    judge_differences();
    // Whoever asked meanwhile does not want another attempt; where all is done, there is nothing to end.
    const bool is_done = outcome.status.success() && place_.node_count == 1;
    if (attempts_.request() && !is_done) nodes_->failed(cause_of(*attempts_.request()));
    if (!outcome.unkillable.empty()) nodes_->failed(remains_of(outcome));
    last_failure_ = describe_failure(outcome);
    last_ = outcome;
    what_follows_.clear();
    is_ending_attempt_ = true;
    nodes_->workers_ended();
    is_ending_attempt_ = false;
    if (leave_) what_follows_ = leave_->not_restarted;
    parts_.observer.attempt_ended(outcome, what_follows_, /*is_last=*/leave_ && !parts_.plan.nodes.several());
  }

  // For the hub's next word; false: this node leaves.
  bool wait() {
    parts_.inbox = [this](const Event& event) {
      observe(event);
      if (std::holds_alternative<GuardianLost>(event)) {
        asked_ = GuardianLost{};
        return leave_at_once(own_fault("the launcher's first process was killed"));
      }
      if (!attempts_.is_request(event)) return;
      const auto& request = std::get<SignalArrived>(event);
      // Who asks again does not want to wait for the others to hear of it.
      if (!std::holds_alternative<std::monostate>(asked_)) return leave_at_once(cause_of(request));
      asked_ = request;
      nodes_->failed(cause_of(request));
    };
    if (!start_ && !leave_) parts_.loop.run();
    parts_.inbox = nullptr;
    return start_ && !leave_;
  }

  // Ranks that found that they call different things have ended before anybody saw all of them: their boards remain.
  void judge_differences() {
    const HangPlan& hang = parts_.plan.hang;
    const bool sees_others = nodes_->is_hub() && exchange_.has_others();
    if (!sees_others || hang.is_off() || hang.action != HangAction::kill) return;
    std::vector<RankView> ranks(static_cast<std::size_t>(parts_.plan.workers));
    for (int i = 0; i < parts_.plan.workers; ++i) {
      parts_.processes.look(i, LookDepth::calls, ranks[static_cast<std::size_t>(i)]);
    }
    std::erase_if(ranks, [](const RankView& view) { return view.pid == 0; });
    for (const auto& [rank, view] : exchange_.far()) ranks.push_back(view);
    const auto verdict = find_difference(ranks);
    if (!verdict || verdict->is_open) return;
    HangNews news;
    news.verdict = *verdict;
    news.ranks = ranks;
    nodes_->failed({.text = hang_headline(*verdict),
                    .node = node_of_culprit(news),
                    .exit_code = base::kExitHung,
                    .may_restart = true});
  }

  // Without a word: the others see the connection end.
  void leave_at_once(const wire::Cause& cause) {
    leave_ = cause;
    in_haste_ = true;
    parts_.loop.stop();
  }

  // The same cause and exit code as on all other nodes.
  JobOutcome over() {
    // Who asks now does not want to wait for the others to hear of the end.
    parts_.inbox = [this](const Event& event) {
      if (attempts_.is_request(event)) parts_.loop.stop();
    };
    if (!in_haste_ && !nodes_->is_through()) parts_.loop.run();
    parts_.inbox = nullptr;
    nodes_.reset();  // what is left to print may take its time, and nobody else has to wait for that
    gathered_.finish();
    parts_.output.drain();
    if (last_ && !parts_.plan.nodes.several()) return std::move(*last_);
    const bool is_between = !last_;
    JobOutcome outcome = last_ ? std::move(*last_) : JobOutcome{};
    const wire::Cause& cause = *leave_;
    const std::string told = describe_failure(outcome);
    const bool is_own = cause.node == own_name();
    const bool was_asked = cause.signal != 0 && outcome.status.was_killed_by(cause.signal);
    const bool is_asked = told.empty() && cause.signal != 0 && (is_own || cause.node.empty());
    outcome.status =
        was_asked || is_asked ? base::ExitStatus::killed(cause.signal) : base::ExitStatus::exited(cause.exit_code);
    if (cause.exit_code == 0) return outcome;
    const bool is_asked_for = in_haste_ || outcome.status.was_killed();
    const bool was_asked_here = is_between && is_asked_for && !std::holds_alternative<std::monostate>(asked_);
    if (was_asked_here) {
      outcome.cause = asked_;
    } else if (told.empty() || (!was_asked && outcome.cause_as<SignalArrived>() != nullptr)) {
      outcome.cause = EndedElsewhere{cause};
    }
    if (was_asked_here && !attempts_.run_times().empty()) {
      parts_.observer.ended_between_attempts(outcome);
      return outcome;
    }
    const bool is_new = !cause.not_restarted.empty() && cause.not_restarted != what_follows_;
    if (told.empty() || is_new || (!is_own && told != describe(cause))) parts_.observer.tell(describe(cause));
    return outcome;
  }

  const JobParts& parts_;
  RankExchange exchange_;
  GatheredLines gathered_{[this](int which, std::string_view line) { parts_.output.show_gathered(which, line); }};
  Attempts attempts_;
  std::unique_ptr<Nodes> nodes_;  // null: it is left, or could not be opened again
  std::unique_ptr<net::Watch> again_;
  bool in_haste_ = false;
  std::optional<Placement> start_;
  bool is_over_before_ = false;  // the attempt that is to start
  Placement place_;              // in the attempt that runs, or was the last
  bool runs_ = false;            // its workers are supervised
  bool has_reported_ = false;    // a cause in it, to the hub
  bool is_ending_attempt_ = false;
  std::string what_follows_;        // the attempt that has ended
  std::optional<JobOutcome> last_;  // of the attempt that no other one follows
  std::string last_failure_;
  RootCause asked_;  // while no attempt ran: who asked this node to end
  std::optional<wire::Cause> leave_;
};

}  // namespace

base::Result<JobOutcome> run_job(const JobParts& parts) {
  return Job(parts).run();
}

}  // namespace ddp::launcher
