#include "launcher/run/job/job_state.h"

#include <algorithm>

#include "launcher/limits.h"
#include "support/catch.h"
#include "support/job_fixture.h"

using namespace ddp::launcher;
using namespace std::chrono_literals;
using Ranks = std::vector<int>;

namespace {

const std::string kAskedToEnd = std::to_string(SIGTERM) + " g" + std::to_string(SIGCONT);
const std::string kKilled = kAskedToEnd + " g" + std::to_string(SIGKILL);

}  // namespace

TEST_CASE("a failed rank terminates the other ranks at once") {
  JobFixture job(4);
  job.start().passes(10s).exits(2, 3);
  CHECK_FALSE(job.state().finished());
  for (const int other : {0, 1, 3}) CHECK(job.signals_to(other) == kAskedToEnd);
  CHECK(job.signals_to(2).empty());
  job.killed(0, SIGTERM).killed(1, SIGTERM).killed(3, SIGTERM);
  const JobOutcome outcome = job.outcome();
  CHECK(outcome.status.shell_code() == 3);
  CHECK(outcome.culprit()->rank == 2);
  CHECK(outcome.culprit()->pid == 1002);
  CHECK(outcome.ended_ranks == Ranks{0, 1, 3});
  CHECK(outcome.run_time == 10s);
  CHECK_FALSE(outcome.needed_kill);
}

TEST_CASE("a rank that is killed from outside just after another failure is reported as well") {
  JobFixture job(3);
  job.start().killed(0, SIGKILL).killed(1, SIGKILL).killed(2, SIGTERM);
  const JobOutcome outcome = job.outcome();
  CHECK(outcome.culprit()->rank == 0);
  REQUIRE(outcome.also_failed.size() == 1);
  CHECK(outcome.also_failed[0].rank == 1);
  CHECK(outcome.ended_ranks == Ranks{2});
}

TEST_CASE("a rank killed by a signal gives exit code 128 plus the signal number") {
  CHECK(JobFixture(1).start().killed(0, SIGSEGV).outcome().status.shell_code() == 139);
  CHECK(JobFixture(1).start().killed(0, SIGKILL).outcome().status.shell_code() == 137);
  CHECK(JobFixture(1).start().exits(0, 11).outcome().status.shell_code() == 11);
}

TEST_CASE("a worker that ignores SIGTERM is killed with its process group after the grace period") {
  JobFixture job(2);
  job.start().exits(0, 1).passes(JobFixture::kGrace - 1ms);
  CHECK(job.signals_to(1) == kAskedToEnd);
  job.passes(1ms);
  CHECK(job.signals_to(1) == kKilled);
  job.killed(1, SIGKILL);
  CHECK(job.outcome().status.shell_code() == 1);
  CHECK(job.outcome().needed_kill);
  CHECK(job.outcome().ending_time == JobFixture::kGrace);
}

TEST_CASE("a worker that survives SIGKILL does not block the launcher") {
  JobFixture job(2);
  job.start().exits(0, 1).passes(1h);
  const JobOutcome outcome = job.outcome();
  REQUIRE(outcome.unkillable.size() == 1);
  CHECK(outcome.unkillable[0].rank == 1);
  CHECK(outcome.unkillable[0].pid == 1001);
  CHECK(outcome.status.shell_code() == 1);
}

TEST_CASE("a message says once which ranks the launcher waits for") {
  JobFixture job(3);
  job.start().exits(1, 7).passes(999ms);
  CHECK(job.messages().empty());
  job.passes(3s);
  REQUIRE(job.messages().size() == 1);
  CHECK(job.messages()[0] ==
        "rank 1 failed (exit code 7): waiting for ranks 0, 2 to exit (SIGTERM sent, SIGKILL follows in 4.0 s; see "
        "--grace)");
}

TEST_CASE("a rank that the launcher may not signal is reported") {
  JobFixture one_of_two(3);
  one_of_two.start().exits(1, 7).refuses_signals(2).passes(3s);
  REQUIRE(one_of_two.messages().size() == 1);
  CHECK(one_of_two.messages()[0] ==
        "rank 1 failed (exit code 7): waiting for ranks 0, 2 to exit (SIGTERM sent, SIGKILL follows in 4.0 s; rank 2 "
        "runs "
        "as another user, whose processes the launcher may not signal; see --grace)");
  JobFixture all(2);
  all.start().exits(1, 7).refuses_signals(0).passes(3s);
  REQUIRE(all.messages().size() == 1);
  CHECK(all.messages()[0] ==
        "rank 1 failed (exit code 7): waiting for rank 0 to exit (rank 0 runs as another user, whose processes the "
        "launcher may not signal; see --grace)");
}

TEST_CASE("the first rank that fails is the culprit") {
  JobFixture job(3);
  job.start().killed(1, SIGSEGV).exits(0, 1).exits(2, 1);
  CHECK(job.outcome().culprit()->rank == 1);
  CHECK(job.outcome().status.shell_code() == 139);
  CHECK(job.outcome().ended_ranks == Ranks{0, 2});
}

TEST_CASE("a secondary failure that is seen first does not become the culprit") {
  JobFixture job(3);
  job.start().exits_as_secondary(0, 1).passes(20ms).exits(2, 42).killed(1, SIGTERM);
  CHECK(job.outcome().culprit()->rank == 2);
  CHECK(job.outcome().status.shell_code() == 42);
}

TEST_CASE("if a failed rank does not name the peer that it lost, the only rank that exited with 0 is blamed") {
  JobFixture job(2);
  job.start().exits(1, 0).exits_as_secondary(0, 1);
  CHECK(job.outcome().culprit()->rank == 1);
  CHECK(job.outcome().status.shell_code() == 124);
}

TEST_CASE("a secondary failure is the culprit if no single other rank can be blamed") {
  JobFixture job(4);
  job.start().exits(1, 0).exits(2, 0).exits_as_secondary(0, 1).exits_as_secondary(3, 1);
  CHECK(job.outcome().culprit()->rank == 0);
  CHECK(job.outcome().status.shell_code() == 1);
  CHECK(job.outcome().left_early == Ranks{1, 2});
}

TEST_CASE("a rank that converts SIGTERM to an exit code long after the secondary failure is not the culprit") {
  JobFixture job(3);
  job.start().exits_as_secondary(0, 1).passes(3s).exits(1, 9).exits(2, 9);
  CHECK(job.outcome().culprit()->rank == 0);
}

TEST_CASE("ranks that exit with 0 do not end the job") {
  JobFixture job(2);
  job.start().exits(0, 0).passes(4min);
  CHECK_FALSE(job.state().finished());
  CHECK(job.signals_to(1).empty());
  job.exits(1, 0);
  CHECK(job.outcome().status.shell_code() == 0);
  CHECK_FALSE(job.outcome().culprit());
}

TEST_CASE("a rank that crashes while it is being terminated is reported, and one that obeys is not") {
  JobFixture job(4);
  job.start().exits(0, 3).killed(1, SIGSEGV).exits(2, 143).exits(3, 1);
  const JobOutcome outcome = job.outcome();
  CHECK(outcome.status.shell_code() == 3);
  REQUIRE(outcome.also_failed.size() == 1);
  CHECK(outcome.also_failed[0].rank == 1);
  CHECK(outcome.ended_ranks == Ranks{2, 3});
}

TEST_CASE("a rank that answers SIGTERM with 143 does not become the culprit of a secondary failure") {
  JobFixture job(4);
  job.start().exits(0, 0).exits(3, 0).exits_as_secondary(1, 1).passes(3s).exits(2, 143);
  CHECK(job.outcome().culprit()->rank == 1);
  CHECK(job.outcome().status.shell_code() == 1);
  CHECK(job.outcome().left_early == Ranks{0, 3});
}

TEST_CASE("after a secondary failure the other ranks get a moment to report the reason") {
  JobFixture job(3);
  job.start().exits_as_secondary(0, 1);
  CHECK(job.signals_to(1).empty());
  CHECK(job.signals_to(2).empty());
  SECTION("the one that it lost fails by itself") {
    job.passes(1900ms).exits(2, 17);
    CHECK(job.signals_to(1) == kAskedToEnd);
    job.killed(1, SIGTERM);
    CHECK(job.outcome().culprit()->rank == 2);
    CHECK(job.outcome().status.shell_code() == 17);
  }
  SECTION("nobody else fails") {
    job.passes(2s);
    CHECK(job.signals_to(1) == kAskedToEnd);
    job.killed(1, SIGTERM).killed(2, SIGTERM);
    CHECK(job.outcome().culprit()->rank == 0);
    CHECK(job.outcome().run_time == 0s);
  }
}

TEST_CASE("a worker that cannot be started ends the workers that were started") {
  JobFixture job(3);
  job.start_worker(0).spawn_fails(1, 126);
  CHECK(job.signals_to(0) == kAskedToEnd);
  CHECK_FALSE(job.state().finished());
  job.killed(0, SIGTERM);
  CHECK(job.outcome().status.shell_code() == 126);
  CHECK(job.outcome().cause_as<SpawnFailed>());
}

TEST_CASE("a first worker that cannot be started finishes the job at once") {
  JobFixture job(3);
  job.spawn_fails(0, 127);
  CHECK(job.outcome().status.shell_code() == 127);
}

TEST_CASE("a rank that does not exit with the others is given the exit timeout") {
  JobFixture job(3);
  job.start().exits(0, 0).passes(2min).exits(2, 0).passes(299s);
  CHECK_FALSE(job.state().ending());
  job.passes(2s);
  CHECK(job.signals_to(1) == "15 g18");
  job.killed(1, SIGTERM);
  const JobOutcome outcome = job.outcome();
  CHECK(outcome.cause_as<ExitTimedOut>());
  CHECK(outcome.status.shell_code() == 124);
  CHECK(outcome.left_early == std::vector<int>{0, 2});
  CHECK(outcome.ended_ranks == std::vector<int>{1});
}

TEST_CASE("a job in which all ranks exit in time is a success") {
  JobFixture job(2);
  job.start().exits(0, 0).passes(4min).exits(1, 0);
  CHECK(job.outcome().status.shell_code() == 0);
}

TEST_CASE("the workers are killed at once if the launcher's guardian dies") {
  JobFixture job(2);
  job.start().guardian_dies();
  CHECK(job.signals_to(0) == "15 g18 g9");
  job.killed(0, SIGKILL).killed(1, SIGKILL);
  CHECK(job.outcome().cause_as<GuardianLost>());
  CHECK(job.outcome().status.shell_code() == 125);
}

TEST_CASE("a guardian that dies while the job is ending shortens the grace period") {
  JobFixture job(1);
  job.start().launcher_gets(SIGTERM).guardian_dies();
  CHECK(job.signals_to(0) == "15 g18 g9");
  job.killed(0, SIGKILL);
  CHECK(job.outcome().status.shell_code() == 143);
}

TEST_CASE("a closed console ends the job with SIGPIPE if --on-sigpipe=end is given") {
  JobFixture job(1);
  job.start().console_closes();
  CHECK(job.signals_to(0) == "15 g18");
  job.killed(0, SIGTERM);
  CHECK(job.outcome().status.shell_code() == 141);
}

TEST_CASE("without an exit timeout ranks that outlive the others are reported once, and the job continues") {
  JobFixture job(2, 0ms);
  job.start().exits(1, 0).passes(ddp::limits::kExitNote - 1ms);
  CHECK(job.messages().empty());
  job.passes(2h);
  CHECK(job.messages() ==
        std::vector<std::string>{"rank 1 exited with code 0; rank 0 is still running 1 min later. The job "
                                 "continues (--exit-timeout=SECONDS terminates it)"});
  CHECK_FALSE(job.state().ending());
  CHECK(job.exits(0, 0).outcome().status.shell_code() == 0);
}

TEST_CASE("ranks that run long after the others have exited are reported with their state") {
  JobState state({2, 0, 5s, false, {SIGTERM}}, {});
  for (int rank = 0; rank < 2; ++rank) state.step(WorkerStarted{rank, 1000 + rank}, {});
  state.step(WorkerEnd{1, ddp::base::ExitStatus::exited(0)}, {});
  const auto actions = state.step(AlarmRang{}, TimePoint() + ddp::limits::kExitNote);
  REQUIRE(actions.size() == 2);
  CHECK(std::holds_alternative<LogLine>(actions[0]));
  CHECK(std::holds_alternative<ReportState>(actions[1]));
  CHECK(state.step(AlarmRang{}, TimePoint() + 2 * ddp::limits::kExitNote).empty());
}

TEST_CASE("JobState ends the workers only for a hang whose report ends the job, and not for a stall") {
  JobState state({2, 0, 5s, false, {SIGTERM}}, {});
  for (int rank = 0; rank < 2; ++rank) state.step(WorkerStarted{rank, 1000 + rank}, {});
  HangNews news;
  news.kind = HangNews::Kind::stalled;
  news.ends_job = true;
  CHECK(state.step(news, {}).empty());
  news.kind = HangNews::Kind::hung;
  news.ends_job = false;
  CHECK(state.step(news, {}).empty());
  news.ends_job = true;
  news.verdict.culprits = {1};
  CHECK(state.step(news, {}).size() == 5);
  for (int rank = 0; rank < 2; ++rank) state.step(WorkerEnd{rank, ddp::base::ExitStatus::killed(SIGTERM)}, {});
  CHECK(state.finished());
  const JobOutcome outcome = state.outcome();
  CHECK(outcome.status.shell_code() == 124);
  REQUIRE(outcome.cause_as<HangNews>());
  CHECK(outcome.cause_as<HangNews>()->verdict.culprits == std::vector<int>{1});
  CHECK(outcome.ended_ranks == Ranks{0, 1});
}

namespace {

JobState start_job_that_may_restart(int workers) {
  JobState state({.workers = workers, .grace = 5s, .keeps_states = true}, {});
  for (int rank = 0; rank < workers; ++rank) state.step(WorkerStarted{rank, 1000 + rank}, {});
  return state;
}

template <typename Wanted>
bool has(const std::vector<Action>& actions) {
  return std::ranges::any_of(actions, [](const Action& action) { return std::holds_alternative<Wanted>(action); });
}

const WorkerEnd kKilledRank{1, ddp::base::ExitStatus::killed(SIGKILL)};

}  // namespace

TEST_CASE("workers save their state in memory before they are terminated if another attempt may follow") {
  JobState state = start_job_that_may_restart(3);
  const auto actions = state.step(kKilledRank, {});
  CHECK(has<AskForStates>(actions));
  CHECK(has<ReportCause>(actions));
  CHECK_FALSE(has<SendSignal>(actions));
  // A rank that fails meanwhile because it lost the first one changes nothing.
  state.step(WorkerEnd{2, ddp::base::ExitStatus::exited(1), ErrorRecord{"lost a peer", true}}, {});
  CHECK(has<SendSignal>(state.step(StatesKept{}, {})));
  CHECK(state.step(StatesKept{}, {}).empty());
  state.step(WorkerEnd{0, ddp::base::ExitStatus::killed(SIGTERM)}, {});
  REQUIRE(state.finished());
  CHECK(state.outcome().culprit()->rank == 1);
}

TEST_CASE("workers that do not keep their state in time are terminated") {
  JobState state = start_job_that_may_restart(2);
  state.step(kKilledRank, {});
  REQUIRE(state.alarm() == TimePoint() + ddp::limits::kQuietEnding);
  const auto messages = state.step(AlarmRang{}, TimePoint() + ddp::limits::kQuietEnding);
  REQUIRE(messages.size() == 1);
  CHECK(std::get<LogLine>(messages[0]).text ==
        "rank 1 failed (killed by SIGKILL): waiting for rank 0 to keep the state in memory (for at most 30.0 s)");
  REQUIRE(state.alarm());
  const auto late = TimePoint() + ddp::limits::kStateTime;
  CHECK(has<SendSignal>(state.step(AlarmRang{}, late)));
  CHECK(state.step(StatesKept{}, late).empty());
}

TEST_CASE("the state is requested as soon as a rank fails, before the cause is certain") {
  JobState state = start_job_that_may_restart(2);
  const auto actions = state.step(WorkerEnd{1, ddp::base::ExitStatus::exited(1), ErrorRecord{"lost a peer", true}}, {});
  CHECK(has<AskForStates>(actions));
  CHECK_FALSE(state.ending());
  CHECK(state.step(StatesKept{}, {}).empty());
  CHECK(has<AskForStates>(state.step(Settled{}, {})));
  CHECK(has<SendSignal>(state.step(StatesKept{}, {})));
}

TEST_CASE("no state is kept when the user ends the job or no restart is left") {
  JobState asked = start_job_that_may_restart(2);
  const auto of_user = asked.step(SignalArrived{SIGTERM}, {});
  CHECK(has<SendSignal>(of_user));
  CHECK_FALSE(has<AskForStates>(of_user));
  JobState last({.workers = 2, .grace = 5s}, {});
  for (int rank = 0; rank < 2; ++rank) last.step(WorkerStarted{rank, 1000 + rank}, {});
  CHECK_FALSE(has<AskForStates>(last.step(kKilledRank, {})));
  for (const bool may_restart : {false, true}) {
    JobState other = start_job_that_may_restart(2);
    const auto actions = other.step(EndedElsewhere{{.text = "lost", .exit_code = 1, .may_restart = may_restart}}, {});
    CHECK(has<AskForStates>(actions) == may_restart);
    CHECK(has<SendSignal>(actions) != may_restart);
  }
}

TEST_CASE("a second request kills workers that are keeping their state") {
  JobState state = start_job_that_may_restart(2);
  state.step(kKilledRank, {});
  const auto actions = state.step(SignalArrived{SIGTERM}, TimePoint() + ddp::limits::kSecondRequest);
  REQUIRE(has<SendSignal>(actions));
  CHECK(std::get<SendSignal>(actions.front()).signal == SIGKILL);
  CHECK(state.step(StatesKept{}, TimePoint() + 2 * ddp::limits::kSecondRequest).empty());
}
