#include "launcher/supervise/supervisor.h"

#include <algorithm>
#include <csignal>
#include <deque>
#include <optional>
#include <utility>

#include "base/exit_code.h"
#include "base/limits.h"
#include "launcher/evidence/evidence_taker.h"

namespace ddp::launcher {
namespace {

class Supervisor {
 public:
  explicit Supervisor(const SupervisorParts& parts)
      : parts_(parts),
        state_({parts.plan.workers, parts.assignment.first_rank, parts.plan.grace, parts.plan.exit_timeout,
                parts.plan.ending_signals},
               Clock::now()),
        hangs_(parts.plan.hang),
        taker_(parts.loop, parts.processes) {}

  JobOutcome run() {
    parts_.inbox = [this](const Event& event) {
      step(event);
      if (asks_for_state(event)) tell_state();
    };
    parts_.processes.on_exit([this](int local_rank, const WorkerExit& exit) { step(describe_end(local_rank, exit)); });
    for (int i = 0; i < parts_.plan.workers && !state_.ending(); ++i) {
      start(i);
      // A worker may fail, or ask the store, while the others are still being started.
      parts_.loop.poll();
    }
    if (parts_.plan.hang.timeout.count() > 0) look_later();
    if (!state_.finished()) parts_.loop.run();
    look_.reset();
    parts_.inbox = nullptr;
    parts_.processes.on_exit(nullptr);
    JobOutcome outcome = state_.outcome();
    outcome.stragglers = stragglers_.report();
    return outcome;
  }

 private:
  using Clock = std::chrono::steady_clock;

  void look_later() {
    looked_at_ = Clock::now();
    look_ = parts_.loop.at(looked_at_ + limits::kHangLook, [this] { look(); });
  }

  // What all ranks are at.
  void look() {
    const auto elapsed = Clock::now() - looked_at_;
    if (!state_.paused() && !state_.ending()) {
      if (const std::uint64_t bytes = parts_.output.bytes_seen(); bytes != bytes_seen_) {
        bytes_seen_ = bytes;
        hangs_.output_seen();
      }
      const auto counted = std::min<std::chrono::nanoseconds>(elapsed, limits::kHangLongestLook);
      // Most looks see nothing new, and are to cost nothing.
      if (!look_at_all(hangs_.depth(), ranks_)) {
        hangs_.nothing_new(counted);
        stragglers_.nothing_new(counted);
        return look_later();
      }
      stragglers_.look(ranks_, counted);
      const auto now = std::chrono::duration_cast<std::chrono::nanoseconds>(Clock::now().time_since_epoch()).count();
      for (const HangNews& news : hangs_.look(ranks_, elapsed, static_cast<std::uint64_t>(now))) consider(news);
    }
    if (!state_.finished()) look_later();
  }

  // The ranks that have been started. False if nothing is new in them.
  bool look_at_all(LookDepth depth, std::vector<RankView>& ranks) {
    bool is_new = depth != LookDepth::boards;
    ranks.resize(static_cast<std::size_t>(parts_.plan.workers));
    for (int i = 0; i < parts_.plan.workers; ++i) {
      is_new = parts_.processes.look(i, depth, ranks[static_cast<std::size_t>(i)]) || is_new;
    }
    std::erase_if(ranks, [](const RankView& view) { return view.pid == 0; });
    return is_new;
  }
  std::vector<RankView> look_at_all(LookDepth depth) {
    std::vector<RankView> ranks;
    look_at_all(depth, ranks);
    return ranks;
  }

  RankView look_at(int local_rank, LookDepth depth) {
    RankView view;
    parts_.processes.look(local_rank, depth, view);
    return view;
  }

  bool asks_for_state(const Event& event) const {
    const auto* signal = std::get_if<SignalArrived>(&event);
    const auto& ending = parts_.plan.ending_signals;
    return signal != nullptr && signal->signal == SIGQUIT && !state_.ending() &&
           std::find(ending.begin(), ending.end(), SIGQUIT) == ending.end();
  }

  void tell_state() {
    if (waiting_for_evidence_) return;
    HangNews news = hangs_.describe(look_at_all(LookDepth::all));
    news.stragglers = stragglers_.report();
    take_evidence(news);
  }

  // What ends the job, or is half way there, is told with stacks and all: they are gone when the processes are.
  void consider(const HangNews& news) {
    using Kind = HangNews::Kind;
    if (news.kind == Kind::goes_on) taken_ = {};
    const bool wants_evidence = (news.kind == Kind::half_over || news.kind == Kind::hung) &&
                                news.verdict.kind != VerdictKind::stopped &&
                                parts_.plan.hang.action != HangAction::warn;
    if (!wants_evidence) return step(news);
    if (waiting_for_evidence_) {
      waiting_for_evidence_ = news;  // what was to be told is told with this
      return;
    }
    if (taken_.empty()) return take_evidence(news);
    // That of half the time is that of now: nothing has gone on.
    HangNews told = news;
    told.evidence = taken_;
    step(told);
  }

  void take_evidence(const HangNews& news) {
    waiting_for_evidence_ = news;
    std::vector<StackTarget> targets;
    std::vector<int> ranks;
    for (int i = 0; i < parts_.plan.workers; ++i) {
      ranks.push_back(parts_.assignment.first_rank + i);
      targets.push_back({ranks.back(), i});
    }
    taker_.take(targets, questions_for(environment_, ranks), [this](Evidence evidence) {
      HangNews told = std::move(*waiting_for_evidence_);
      waiting_for_evidence_.reset();
      told.evidence = std::move(evidence);
      hangs_.looked_into();
      if (told.kind != HangNews::Kind::asked) taken_ = told.evidence;
      step(told);
    });
  }

  void start(int local_rank) {
    const WorkerSpec spec = make_worker_spec(
        parts_.plan, parts_.assignment,
        {local_rank, parts_.directory.file(local_rank, "error.json"), parts_.assignment.attempt, parts_.last_failure});
    environment_ = spec.environment;
    const auto& file = [&](const char* name) { return parts_.directory.file(local_rank, name); };
    const auto streams = parts_.output.open(
        {local_rank, parts_.assignment.first_rank + local_rank},
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
      return event;
    }
    // Before any of them is asked to end.
    parts_.processes.say_lost(parts_.assignment.first_rank + local_rank);
    event.error = read_error_record(parts_.directory.file(local_rank, "error.json"));
    if (event.error && event.error->is_victim) {
      event.verdict = find_unfinished(look_at(local_rank, LookDepth::calls), /*failed_too=*/true);
    }
    if (event.error && event.error->is_mismatch) event.verdict = find_difference(look_at_all(LookDepth::calls));
    if (exit.status.was_killed_by(SIGKILL)) event.oom = oom_.new_kill();
    return event;
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
    if (state_.ending() && !std::exchange(told_of_end_, true) && parts_.begins_to_end) {
      const JobOutcome so_far = state_.outcome();
      if (!so_far.elsewhere && so_far.exit_code != 0) parts_.begins_to_end(so_far);
    }
    alarm_.reset();
    if (const auto when = state_.alarm()) alarm_ = parts_.loop.at(*when, [this] { step(AlarmRang{}); });
  }

  void carry_out(const SendSignal& action) { parts_.processes.signal(action.local_rank, action.signal, action.target); }
  void carry_out(const Tell& action) { parts_.tell(action.line); }
  void carry_out(const Finish&) { parts_.loop.stop(); }

  const SupervisorParts& parts_;
  JobState state_;
  HangDetector hangs_;
  std::vector<RankView> ranks_;  // as they were seen last
  StragglerTable stragglers_;
  EvidenceTaker taker_;
  std::vector<std::string> environment_;          // of a worker
  std::optional<HangNews> waiting_for_evidence_;  // to be told with it
  Evidence taken_;                                // of the stall that there is
  Clock::time_point looked_at_;
  std::unique_ptr<net::Watch> look_;
  std::uint64_t bytes_seen_ = 0;
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
