#include "launcher/supervise/supervisor.h"

#include <algorithm>
#include <csignal>
#include <deque>
#include <optional>
#include <utility>

#include "base/exit_code.h"
#include "launcher/limits.h"
#include "launcher/supervise/activity_watch.h"
#include "launcher/supervise/gpu_watch.h"
#include "launcher/supervise/hang_evidence.h"
#include "launcher/supervise/hang_trace.h"
#include "launcher/supervise/job_state.h"
#include "launcher/supervise/timed_faults.h"
#include "wire/worker_env.h"

namespace ddp::launcher {
namespace {

class Supervisor {
 public:
  explicit Supervisor(const SupervisorParts& parts)
      : parts_(parts),
        state_({parts.plan.workers, parts.placement.first_rank, parts.plan.grace, parts.plan.exit_timeout.count() > 0,
                parts.plan.ending_signals},
               Clock::now()),
        hangs_(parts.plan.hang, judged_elsewhere(parts), longest_look(parts)),
        trace_(parts.plan.hang.trace_file, parts.tell),
        faults_(parts.loop, parts.processes, parts.plan, parts.placement, parts.tell),
        gpus_(parts.loop, parts.plan.machine_has_gpus),
        activity_(
            parts.processes, gpus_, parts.placement.first_rank, parts.placement.master_port,
            [this](int local_rank) { return parts_.output.bytes_of(local_rank); },
            [this](int rank, const ActivitySample& sample, std::chrono::nanoseconds now) {
              trace_.sample(rank, sample, now);
            }),
        evidence_({parts.loop, parts.processes, parts.plan.workers, parts.placement.first_rank, parts.plan.hang.action,
                   sees_others(parts) ? &parts.exchange : nullptr, [this](const HangNews& news) { step(news); },
                   [this] { return what_they_are_at(); }, [this] { activity_.discard_windows(); }}) {}

  JobOutcome run() {
    parts_.inbox = [this](const Event& event) {
      step(event);
      if (asks_for_state(event)) evidence_.asked();
    };
    parts_.processes.on_exit([this](int local_rank, const WorkerExit& exit) { step(describe_end(local_rank, exit)); });
    for (int i = 0; i < parts_.plan.workers && !state_.ending(); ++i) {
      start(i);
      // A worker may fail, or ask the store, while the others are still being started.
      parts_.loop.poll();
    }
    parts_.exchange.on_asked = [this](wire::Subject what) { show(what); };
    parts_.exchange.on_evidence = [this] { evidence_.tell_if_complete(); };
    faults_.begin();
    if (!parts_.plan.hang.is_off()) look_later();
    if (!state_.finished()) parts_.loop.run();
    look_.reset();
    parts_.exchange.on_asked = nullptr;
    parts_.exchange.on_evidence = nullptr;
    parts_.inbox = nullptr;
    parts_.processes.on_exit(nullptr);
    JobOutcome outcome = state_.outcome();
    outcome.stragglers = stragglers_.report();
    return outcome;
  }

 private:
  using Clock = std::chrono::steady_clock;

  // The hub judges the ranks of all nodes, and is to be the first to.
  static bool judged_elsewhere(const SupervisorParts& parts) {
    return parts.exchange.has_others() && !parts.exchange.is_hub();
  }
  // The hub looks the more rarely the more ranks there are.
  static Clock::duration time_between_looks(const SupervisorParts& parts) {
    const auto share = sees_others(parts) ? parts.placement.world_size * limits::kHangLookShare : Clock::duration(0);
    return std::max<Clock::duration>(limits::kHangLook, share);
  }
  static Clock::duration longest_look(const SupervisorParts& parts) {
    return std::max<Clock::duration>(limits::kHangLongestLook, 2 * time_between_looks(parts));
  }
  static bool sees_others(const SupervisorParts& parts) {
    return parts.exchange.has_others() && parts.exchange.is_hub();
  }
  bool sees_others() const { return sees_others(parts_); }

  void look_later() {
    look_ = parts_.loop.at(Clock::now() + time_between_looks(parts_), [this] { look(); });
  }

  // What all ranks are at.
  void look() {
    const auto begun = Clock::now();
    const auto elapsed = begun - std::exchange(looked_at_, begun);
    if (!state_.paused() && !state_.ending()) {
      const auto counted = std::min<std::chrono::nanoseconds>(elapsed, longest_look(parts_));
      const LookDepth depth = hangs_.depth();
      const bool is_measured = hangs_.wants_activity();
      const bool others_are_new = sees_others() && parts_.exchange.take_news();
      const bool ours_are_new = look_at_own(depth, ranks_);
      if (is_measured) activity_.measure(ranks_, Clock::now().time_since_epoch());
      is_to_show_ = is_to_show_ || ours_are_new;
      show_ranks();
      if (sees_others() && (ours_are_new || others_are_new || difference_since_)) look_for_differences();
      // Most looks see nothing new, and are to cost nothing.
      if (!ours_are_new && !others_are_new) {
        hangs_.nothing_new(counted);
        trace_.nothing_new(counted);
        stragglers_.nothing_new(counted);
        return look_later();
      }
      stragglers_.look(ranks_, counted);
      // What is deeper than the boards will be there when it is looked at the next time.
      if (sees_others() && depth == LookDepth::all) parts_.exchange.ask_for_ranks();
      const auto now = std::chrono::duration_cast<std::chrono::nanoseconds>(Clock::now().time_since_epoch()).count();
      const std::vector<RankView> all = with_others(ranks_);
      trace_.look(all, elapsed, static_cast<std::uint64_t>(now));
      for (const HangNews& news : hangs_.look(all, elapsed, static_cast<std::uint64_t>(now))) {
        evidence_.consider(news);
      }
    }
    if (!state_.finished()) look_later();
  }

  // Of another node: the hub is shown what is new here.
  void show_ranks() {
    if (!is_to_show_ || !parts_.exchange.may_show(Clock::now())) return;
    is_to_show_ = false;
    parts_.exchange.show(look_at_own(LookDepth::calls), Clock::now());
  }
  void show(wire::Subject what) {
    if (what == wire::Subject::ranks) parts_.exchange.show_in_full(measure_own());
    if (!HangEvidence::is_evidence(what)) return;
    evidence_.take_own(what, [this, what](const Evidence& evidence) { parts_.exchange.show(evidence, what); });
  }

  // Ranks of different nodes do not compare their calls themselves. What the nodes show is enough to see a difference;
  // then they are asked what was called.
  void look_for_differences() {
    if (told_difference_) return;
    const auto verdict = find_difference(with_others(look_at_own(LookDepth::calls)));
    if (!verdict) return difference_since_.reset();
    if (!std::exchange(asked_of_difference_, true)) parts_.exchange.ask_for_ranks();
    if (!difference_since_) difference_since_ = Clock::now();
    const auto passed = Clock::now() - *difference_since_;
    if (!verdict->is_described() && passed < limits::kShownEvidenceTime) return;
    if (verdict->is_open && passed < limits::kSettleTime) return;
    told_difference_ = true;
    HangNews news = hangs_.describe(with_others(look_at_own(LookDepth::all)));
    news.kind = HangNews::Kind::hung;
    news.verdict = *verdict;
    news.judgement.hang_class = HangClass::certain;
    news.judgement.why = "what they do together is wrong";
    news.ends_job = parts_.plan.hang.action == HangAction::kill;
    step(news);
  }

  // The ranks that have been started. False if nothing is new in them.
  bool look_at_own(LookDepth depth, std::vector<RankView>& ranks) {
    bool is_new = depth != LookDepth::boards;
    ranks.resize(static_cast<std::size_t>(parts_.plan.workers));
    for (int i = 0; i < parts_.plan.workers; ++i) {
      is_new = parts_.processes.look(i, depth, ranks[static_cast<std::size_t>(i)]) || is_new;
    }
    std::erase_if(ranks, [](const RankView& view) { return view.pid == 0; });
    return is_new;
  }
  std::vector<RankView> look_at_own(LookDepth depth) {
    std::vector<RankView> ranks;
    look_at_own(depth, ranks);
    return ranks;
  }
  std::vector<RankView> measure_own() {
    std::vector<RankView> ranks = look_at_own(LookDepth::all);
    activity_.measure(ranks, Clock::now().time_since_epoch());
    return ranks;
  }
  // Those of other nodes, too, as they were shown last, where this is the hub.
  std::vector<RankView> with_others(std::vector<RankView> ranks) const {
    if (!sees_others()) return ranks;
    for (const auto& [rank, view] : parts_.exchange.far()) ranks.push_back(view);
    return ranks;
  }

  RankView look_at(int local_rank, LookDepth depth) {
    RankView view;
    parts_.processes.look(local_rank, depth, view);
    return view;
  }

  HangNews what_they_are_at() {
    HangNews news = hangs_.describe(with_others(measure_own()));
    news.stragglers = stragglers_.report();
    return news;
  }

  bool asks_for_state(const Event& event) const {
    const auto* signal = std::get_if<SignalArrived>(&event);
    return signal != nullptr && signal->signal == SIGQUIT && !state_.ending() &&
           !is_ending_signal(event, parts_.plan.ending_signals);
  }

  void start(int local_rank) {
    const WorkerSpec spec =
        make_worker_spec(parts_.plan, parts_.placement,
                         {local_rank, parts_.directory.file(local_rank, "error.json"), parts_.last_failure});
    evidence_.set_environment(spec.environment);
    gpus_.sees(local_rank, find_variable(spec.environment, wire::env::kCudaVisibleDevices));
    const auto& file = [&](const char* name) { return parts_.directory.file(local_rank, name); };
    const auto streams = parts_.output.open(
        {local_rank, parts_.placement.first_rank + local_rank},
        {file("stdout.log"), file("stderr.log"), parts_.directory.attempt_file("filtered_stdout.log"),
         parts_.directory.attempt_file("filtered_stderr.log")});
    if (!streams) return step(SpawnFailed{local_rank, {base::kExitOwnFault, streams.error().message}});
    const auto pid = parts_.processes.spawn(local_rank, spec, streams.value().out.get(), streams.value().err.get());
    if (pid) return step(WorkerStarted{local_rank, pid.value()});
    step(SpawnFailed{local_rank, pid.error()});
  }

  WorkerEnded describe_end(int local_rank, const WorkerExit& exit) {
    WorkerEnded event{local_rank, exit.status, std::nullopt, exit.peak_rss_bytes, std::nullopt, std::nullopt};
    if (exit.status.success()) {
      event.verdict = find_unfinished(look_at(local_rank, LookDepth::calls), /*failed_too=*/false);
      if (!state_.ending()) parts_.exchange.rank_left(parts_.placement.first_rank + local_rank);
      return event;
    }
    // Before any of them is asked to end.
    parts_.processes.say_lost(parts_.placement.first_rank + local_rank);
    event.error = read_error_record(parts_.directory.file(local_rank, "error.json"));
    event.another_failed_before = event.error && another_failed_before(*event.error);
    if (event.error && event.error->is_victim) {
      event.verdict = find_unfinished(look_at(local_rank, LookDepth::calls), /*failed_too=*/true);
    }
    // The hub sees more calls than ours.
    if (event.error && event.error->is_mismatch && judged_elsewhere(parts_)) show(wire::Subject::ranks);
    if (event.error && event.error->is_mismatch)
      event.verdict = find_difference(with_others(look_at_own(LookDepth::calls)));
    if (exit.status.was_killed_by(SIGKILL)) event.oom = oom_.new_kill();
    return event;
  }

  // Python takes its time to end after an exception; the ranks that lost the failing one may be faster.
  bool another_failed_before(const ErrorRecord& record) const {
    for (const int local_rank : state_.alive_local_ranks()) {
      const auto other = read_error_record(parts_.directory.file(local_rank, "error.json"));
      if (other && !other->is_victim && other->written_at < record.written_at) return true;
    }
    return false;
  }

  // What is told or carried out may bring about the next event (a console that closes); it has its turn afterwards.
  void step(const Event& event) {
    waiting_.push_back(event);
    if (waiting_.size() > 1) return;
    for (; !waiting_.empty(); waiting_.pop_front()) {
      parts_.observe(waiting_.front());
      for (const Action& action : state_.step(waiting_.front(), Clock::now())) {
        std::visit([this](const auto& specific) { carry_out(specific); }, action);
      }
    }
    if (state_.ending() && !std::exchange(told_of_end_, true)) {
      // Who has asked what they are at is told now: nobody will answer any more.
      evidence_.end();
      show_calls();
    }
    alarm_.reset();
    if (const auto when = state_.alarm()) alarm_ = parts_.loop.at(*when, [this] { step(AlarmRang{}); });
  }

  // With that of other nodes' ranks it may tell more than how they ended.
  void show_calls() {
    if (judged_elsewhere(parts_)) parts_.exchange.show_in_full(look_at_own(LookDepth::calls));
  }

  void carry_out(const SendSignal& action) { parts_.processes.signal(action.local_rank, action.signal, action.target); }
  void carry_out(const Tell& action) { parts_.tell(action.line); }
  void carry_out(const ReportCause&) {
    show_calls();
    parts_.report(state_.outcome());
  }
  void carry_out(const Finish&) { parts_.loop.stop(); }

  const SupervisorParts& parts_;
  JobState state_;
  HangDetector hangs_;
  HangTrace trace_;
  TimedFaults faults_;
  GpuWatch gpus_;
  ActivityWatch activity_;
  std::vector<RankView> ranks_;  // as they were seen last
  StragglerTable stragglers_;
  HangEvidence evidence_;
  bool is_to_show_ = true;
  std::optional<Clock::time_point> difference_since_;
  bool asked_of_difference_ = false;
  bool told_difference_ = false;
  Clock::time_point looked_at_ = Clock::now();
  std::unique_ptr<net::Watch> look_;
  OomWatch oom_;
  bool told_of_end_ = false;
  std::deque<Event> waiting_;  // the first one is being worked on
  std::unique_ptr<net::Watch> alarm_;
};

}  // namespace

JobOutcome supervise(const SupervisorParts& parts) {
  return Supervisor(parts).run();
}

}  // namespace ddp::launcher
