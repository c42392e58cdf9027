#include "launcher/limits.h"
#include "launcher/run/job/job_state.h"
#include "support/catch.h"
#include "support/job_fixture.h"

using namespace ddp::launcher;
using namespace std::chrono_literals;
using Ranks = std::vector<int>;

namespace {

const std::string kAskedToEnd = std::to_string(SIGTERM) + " g" + std::to_string(SIGCONT);
const std::string kInterrupted = "g" + std::to_string(SIGINT) + " g" + std::to_string(SIGCONT);

}  // namespace

TEST_CASE("a signal to the launcher ends the job with 128 plus the signal number") {
  for (const int signal : {SIGINT, SIGTERM, SIGHUP, SIGQUIT}) {
    JobFixture job(2);
    job.start().launcher_gets(signal);
    CHECK(job.signals_to(0) == (signal == SIGINT ? kInterrupted : kAskedToEnd));
    job.killed(0, signal == SIGINT ? SIGINT : SIGTERM).exits(1, 0);
    CHECK(job.outcome().status.shell_code() == 128 + signal);
    CHECK(job.outcome().status.was_killed_by(signal));
    CHECK_FALSE(job.outcome().culprit());
  }
}

TEST_CASE("a second signal kills the workers at once") {
  JobFixture job(2);
  job.start().launcher_gets(SIGINT).passes(500ms).launcher_gets(SIGINT);
  const std::string killed = kInterrupted + " g" + std::to_string(SIGKILL);
  CHECK(job.signals_to(0) == killed);
  job.launcher_gets(SIGINT);
  CHECK(job.signals_to(0) == killed);
  job.killed(0, SIGKILL).killed(1, SIGKILL);
  CHECK(job.outcome().status.shell_code() == 130);
}

TEST_CASE("Ctrl-C first interrupts the process groups of the workers, then sends SIGTERM, each with a grace period") {
  JobFixture job(2);
  job.start().launcher_gets(SIGINT).exits(0, 1);  // Python ends like this after a KeyboardInterrupt
  job.passes(JobFixture::kGrace);
  CHECK(job.signals_to(0) == kInterrupted);
  CHECK(job.signals_to(1) == kInterrupted + " " + kAskedToEnd);
  job.passes(JobFixture::kGrace);
  CHECK(job.signals_to(1) == kInterrupted + " " + kAskedToEnd + " g" + std::to_string(SIGKILL));
  job.killed(1, SIGKILL);
  const JobOutcome outcome = job.outcome();
  CHECK(outcome.status.was_killed_by(SIGINT));
  CHECK(outcome.ended_ranks == Ranks{0, 1});
  CHECK(outcome.also_failed.empty());
  CHECK(outcome.asked_with == std::vector{SIGINT, SIGTERM});
}

TEST_CASE("workers on other nodes are interrupted as well") {
  JobState state({1, 0, 5s, false, {SIGTERM}}, {});
  state.step(WorkerStarted{0, 1000}, {});
  const auto actions =
      state.step(EndedElsewhere{{.text = "terminated by SIGINT", .exit_code = 130, .signal = SIGINT}}, {});
  REQUIRE_FALSE(actions.empty());
  CHECK(std::get<SendSignal>(actions.front()) == SendSignal{0, SIGINT, SignalTarget::group});
}

TEST_CASE("a second request on another node kills at once, and one on this node is reported") {
  JobState state({1, 0, 5s, false, {SIGINT}}, {});
  state.step(WorkerStarted{0, 1000}, {});
  EndedElsewhere elsewhere{{.text = "terminated by SIGINT", .exit_code = 130, .signal = SIGINT}};
  state.step(elsewhere, {});
  SECTION("on another one") {
    elsewhere.cause.is_urgent = true;
    CHECK(std::get<SendSignal>(state.step(elsewhere, {}).front()) == SendSignal{0, SIGKILL, SignalTarget::group});
    CHECK(state.step(elsewhere, {}).empty());
  }
  SECTION("on this one") {
    const auto actions = state.step(SignalArrived{SIGINT}, TimePoint{} + 1s);
    REQUIRE(actions.size() == 2);
    CHECK(std::get<SendSignal>(actions[0]) == SendSignal{0, SIGKILL, SignalTarget::group});
    CHECK(std::holds_alternative<ReportUrgency>(actions[1]));
  }
}

TEST_CASE("a program that saves and exits on request gives exit code 75") {
  JobState state({2, 0, 5s, false, {SIGTERM}, 60s, {SIGTERM, SIGUSR1}}, {});
  for (const int local_rank : {0, 1}) state.step(WorkerStarted{local_rank, 1000 + local_rank}, {});
  CHECK(state.asks_to_save(SignalArrived{SIGUSR1}));
  const auto actions = state.step(SignalArrived{SIGUSR1}, {});
  REQUIRE(actions.size() == 2);  // the workers get no signal
  CHECK(std::holds_alternative<AskToSave>(actions[0]));
  CHECK_FALSE(state.asks_to_save(SignalArrived{SIGTERM}));
  SECTION("all have saved") {
    for (const int local_rank : {0, 1})
      state.step(WorkerEnd{local_rank, ddp::base::ExitStatus::exited(0)}, TimePoint{} + 1s);
    CHECK(state.outcome().has_saved);
    CHECK(state.outcome().status == ddp::base::ExitStatus::exited(75));
  }
  SECTION("one fails meanwhile") {
    state.step(WorkerEnd{0, ddp::base::ExitStatus::exited(0)}, TimePoint{} + 1s);
    state.step(WorkerEnd{1, ddp::base::ExitStatus::exited(3)}, TimePoint{} + 1s);
    CHECK_FALSE(state.outcome().has_saved);
    CHECK(state.outcome().status == ddp::base::ExitStatus::exited(3));
  }
  SECTION("the time is over") {
    REQUIRE(state.alarm() == TimePoint{} + 60s);
    CHECK(std::get<SendSignal>(state.step(AlarmRang{}, TimePoint{} + 60s).front()) ==
          SendSignal{0, SIGTERM, SignalTarget::leader});
  }
  SECTION("it is asked again") {
    CHECK(std::get<SendSignal>(state.step(SignalArrived{SIGTERM}, TimePoint{} + 1s).front()) ==
          SendSignal{0, SIGTERM, SignalTarget::leader});
  }
}

TEST_CASE("signals in quick succession count as one request") {
  JobFixture job(1);
  job.start().launcher_gets(SIGTERM).passes(5ms).launcher_gets(SIGHUP);
  CHECK(job.signals_to(0) == kAskedToEnd);
  job.killed(0, SIGTERM);
  CHECK(job.outcome().status.shell_code() == 143);
}

TEST_CASE("other signals are passed on to running workers, and the job continues") {
  JobFixture job(2);
  job.start().exits(0, 0).launcher_gets(SIGUSR1);
  CHECK(job.signals_to(0).empty());
  CHECK(job.signals_to(1) == std::to_string(SIGUSR1));
  job.exits(1, 0);
  CHECK(job.outcome().status.shell_code() == 0);
}

TEST_CASE("a signal before the first worker finishes the job at once") {
  JobFixture job(2);
  job.launcher_gets(SIGTERM);
  CHECK(job.outcome().status.shell_code() == 143);
}

TEST_CASE("Ctrl-Z stops the process groups of the workers and all clocks") {
  JobFixture job(2);
  job.start().exits(0, 0).passes(4min).launcher_gets(SIGTSTP).passes(1h);
  CHECK(job.signals_to(1) == "g19");
  job.launcher_gets(SIGCONT).passes(59s);
  CHECK(job.signals_to(1) == "g19 g18");
  CHECK_FALSE(job.state().ending());
  job.passes(2s);
  CHECK(job.state().ending());
}

TEST_CASE("a request to end reaches stopped workers") {
  JobFixture job(1);
  job.start().launcher_gets(SIGTSTP).launcher_gets(SIGINT);
  CHECK(job.signals_to(0) == "g19 g18 g2 g18");
  job.passes(5s);
  CHECK(job.signals_to(0) == "g19 g18 g2 g18 15 g18");
}

TEST_CASE("signals that the user excluded from the ending signals are passed on") {
  JobState state({1, 0, 5s, false, {SIGUSR1}}, {});
  state.step(WorkerStarted{0, 1000}, {});
  const std::vector<Action> actions = state.step(SignalArrived{SIGTERM}, {});
  REQUIRE(actions.size() == 1);
  CHECK(std::get<SendSignal>(actions[0]) == SendSignal{0, SIGTERM, SignalTarget::leader});
  CHECK_FALSE(state.ending());
  state.step(SignalArrived{SIGUSR1}, {});
  CHECK(state.ending());
}

TEST_CASE("a signal with a reason ends the job with that reason") {
  JobState state({1, 0, 5s, false, {SIGHUP}}, {});
  state.step(SignalArrived{SIGHUP, "the connection is lost"}, {});
  CHECK(state.finished());
  CHECK(describe_failure(state.outcome()) == "the connection is lost");
  CHECK(state.outcome().status.was_killed_by(SIGHUP));
  CHECK(state.outcome().status.shell_code() == 128 + SIGHUP);
}
