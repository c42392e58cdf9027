// Tests what the ranks' calls reveal about the cause.
#include <csignal>

#include "launcher/run/job/job_state.h"
#include "support/catch.h"
#include "support/job_fixture.h"

using namespace ddp::launcher;
using namespace std::chrono_literals;
using Ranks = std::vector<int>;

namespace {

WorkerEnd ended(int rank, int code) {
  return {rank, ddp::base::ExitStatus::exited(code)};
}

// Returns the end of one of three ranks because of a mismatch.
WorkerEnd ended_by_mismatch(int rank, std::vector<int> culprits, bool is_open) {
  WorkerEnd event = ended(rank, 1);
  event.error = ErrorRecord{"different", false, true};
  Verdict verdict;
  verdict.kind = VerdictKind::different_call;
  verdict.culprits = std::move(culprits);
  verdict.sides = {{0, {}}, {2, {}}};
  verdict.is_open = is_open;
  event.verdict = verdict;
  return event;
}

// Returns the end of a rank that got data of another size, before any calls were seen.
WorkerEnd aborted_by_gloo(int rank) {
  WorkerEnd event{rank, ddp::base::ExitStatus::killed(SIGABRT)};
  event.error = ErrorRecord{.message = "data of another size", .is_mismatch = true};
  return event;
}

JobState three_ranks() {
  JobState state({3, 0, 5s, true, {SIGTERM}}, {});
  for (int rank = 0; rank < 3; ++rank) state.step(WorkerStarted{rank, 1000 + rank}, {});
  return state;
}

const Verdict* verdict_in(const JobOutcome& outcome) {
  const auto* failed = outcome.cause_as<WorkerFailed>();
  return failed == nullptr || !failed->verdict ? nullptr : &*failed->verdict;
}

const TimePoint kBegin{};

}  // namespace

TEST_CASE("the ranks whose calls differ from most others are the cause") {
  JobState state = three_ranks();
  state.step(ended_by_mismatch(0, {0, 2}, true), kBegin);
  CHECK_FALSE(state.ending());  // it is not known yet which rank is right
  state.step(ended_by_mismatch(2, {2}, false), kBegin + 10ms);
  CHECK(state.ending());
  state.step(WorkerEnd{1, ddp::base::ExitStatus::killed(SIGTERM)}, kBegin + 20ms);
  const JobOutcome outcome = state.outcome();
  CHECK(outcome.status.shell_code() == 1);
  REQUIRE(outcome.culprit());
  CHECK(outcome.culprit()->rank == 2);
  REQUIRE(verdict_in(outcome));
  CHECK(verdict_in(outcome)->culprits == Ranks{2});
}

TEST_CASE("a rank that found a mismatch is judged when the calls of the other ranks are known") {
  JobState state = three_ranks();
  state.step(aborted_by_gloo(0), kBegin);
  CHECK_FALSE(state.ending());
  WorkerEnd lost = ended_by_mismatch(2, {2}, false);
  lost.error = ErrorRecord{.message = "lost", .is_secondary = true};
  state.step(lost, kBegin + 10ms);
  state.step(Settled{}, kBegin + 500ms);
  CHECK(state.ending());
  state.step(WorkerEnd{1, ddp::base::ExitStatus::killed(SIGTERM)}, kBegin + 510ms);
  const JobOutcome outcome = state.outcome();
  REQUIRE(outcome.culprit());
  CHECK(outcome.culprit()->rank == 2);
  REQUIRE(verdict_in(outcome));
  CHECK(verdict_in(outcome)->culprits == Ranks{2});
}

// PyTorch's last calls are read a moment after a rank has ended, in any order.
TEST_CASE("differing calls are reported even if a rank exits before they were read") {
  WorkerEnd lost = ended(2, 1);
  lost.error = ErrorRecord{.message = "lost", .is_secondary = true};
  WorkerEnd lost_and_seen = ended_by_mismatch(1, {2}, false);
  lost_and_seen.error = lost.error;
  const bool culprit_is_first = GENERATE(true, false);
  CAPTURE(culprit_is_first);
  JobState state = three_ranks();
  if (culprit_is_first) state.step(lost, kBegin);
  state.step(aborted_by_gloo(0), kBegin + 10ms);
  if (!culprit_is_first) state.step(lost, kBegin + 20ms);
  state.step(lost_and_seen, kBegin + 30ms);
  const JobOutcome outcome = state.outcome();
  REQUIRE(outcome.culprit());
  CHECK(outcome.culprit()->rank == 2);
  REQUIRE(verdict_in(outcome));
  CHECK(verdict_in(outcome)->culprits == Ranks{2});
}

TEST_CASE("a rank that found a mismatch is the cause if no calls of other ranks were read") {
  JobState state = three_ranks();
  state.step(aborted_by_gloo(0), kBegin);
  state.step(Settled{}, kBegin + 500ms);
  for (const int rank : {1, 2}) state.step(WorkerEnd{rank, ddp::base::ExitStatus::killed(SIGTERM)}, kBegin + 510ms);
  REQUIRE(state.outcome().culprit());
  CHECK(state.outcome().culprit()->rank == 0);
  CHECK(verdict_in(state.outcome()) == nullptr);
}

TEST_CASE("ranks that never call delay the end of a job with differing calls only briefly") {
  JobState state = three_ranks();
  state.step(ended_by_mismatch(0, {0, 2}, true), kBegin);
  CHECK(state.outcome().knowledge == ddp::wire::Knowledge::disputed);
  CHECK_FALSE(state.ending());
  state.step(Settled{}, kBegin + 500ms);
  CHECK(state.ending());
}

TEST_CASE("a rank whose own timeout expired gives the exit code, and the verdict names the rank it waited for") {
  JobState state = three_ranks();
  WorkerEnd gave_up = ended(0, 3);
  gave_up.error = ErrorRecord{.message = "rank 1 did not take part", .is_timeout = true};
  gave_up.verdict.emplace();
  gave_up.verdict->kind = VerdictKind::not_called;
  gave_up.verdict->culprits = {1};
  state.step(gave_up, kBegin);
  CHECK(state.ending());
  const JobOutcome outcome = state.outcome();
  CHECK(outcome.status.shell_code() == 3);
  REQUIRE(outcome.culprit());
  CHECK(outcome.culprit()->rank == 0);
  REQUIRE(verdict_in(outcome));
  CHECK(verdict_in(outcome)->culprits == Ranks{1});
  CHECK(cause_of(outcome).gave_up);
}

TEST_CASE("a rank that exited with 0 and is named by a secondary failure is the cause") {
  JobState state = three_ranks();
  state.step(ended(1, 0), kBegin);
  WorkerEnd secondary = ended(0, 1);
  secondary.error = ErrorRecord{"lost", true, false, 1};
  secondary.verdict.emplace();
  secondary.verdict->group = "world";
  secondary.verdict->sequence = 7;
  state.step(secondary, kBegin + 1s);
  secondary.local_rank = 2;
  state.step(secondary, kBegin + 1s);
  const JobOutcome outcome = state.outcome();
  CHECK(outcome.status.shell_code() == 124);
  REQUIRE(outcome.culprit());
  CHECK(outcome.culprit()->rank == 1);
  REQUIRE(verdict_in(outcome));
  CHECK(verdict_in(outcome)->kind == VerdictKind::ended);
  CHECK(verdict_in(outcome)->waiting == Ranks{0, 2});
  CHECK(verdict_in(outcome)->sequence == 7);
  CHECK(outcome.also_failed.size() == 2);
  CHECK(outcome.left_early.empty());
  CHECK(describe_failure(outcome) == "rank 1: exit code 0 before its collectives were done");
}

TEST_CASE("a rank that exited with 0 is the cause also if another secondary failure came first") {
  JobState state = three_ranks();
  state.step(ended(1, 0), kBegin);
  WorkerEnd secondary = ended(2, 1);
  secondary.error = ErrorRecord{"lost", true, false, 0};
  state.step(secondary, kBegin + 10ms);
  secondary.local_rank = 0;
  secondary.error->peer = 1;
  state.step(secondary, kBegin + 20ms);
  const JobOutcome outcome = state.outcome();
  REQUIRE(outcome.culprit());
  CHECK(outcome.culprit()->rank == 1);
  REQUIRE(verdict_in(outcome));
  CHECK(verdict_in(outcome)->kind == VerdictKind::ended);
  CHECK(verdict_in(outcome)->waiting == Ranks{0});
}

TEST_CASE("a rank that exited with 0 is the cause also if secondary failures exited before it") {
  JobState state = three_ranks();
  WorkerEnd secondary = ended(0, 1);
  secondary.error = ErrorRecord{"lost", true, false, 1};
  state.step(secondary, kBegin);
  state.step(ended(1, 0), kBegin + 10ms);
  CHECK_FALSE(state.ending());
  secondary.local_rank = 2;
  state.step(secondary, kBegin + 20ms);
  REQUIRE(state.finished());
  const JobOutcome outcome = state.outcome();
  CHECK(outcome.status.shell_code() == 124);
  REQUIRE(outcome.culprit());
  CHECK(outcome.culprit()->rank == 1);
  CHECK(verdict_in(outcome)->waiting == Ranks{0, 2});
}

TEST_CASE("a rank that exits with 0 within a collective has failed") {
  JobState state = three_ranks();
  WorkerEnd event = ended(1, 0);
  event.verdict.emplace();
  event.verdict->kind = VerdictKind::ended;
  event.verdict->culprits = {1};
  state.step(event, kBegin + 1s);
  CHECK(state.ending());
  for (const int rank : {0, 2}) {
    state.step(WorkerEnd{rank, ddp::base::ExitStatus::killed(SIGTERM)}, kBegin + 2s);
  }
  CHECK(state.outcome().status.shell_code() == 124);
  CHECK(state.outcome().culprit()->rank == 1);
  CHECK(state.outcome().ended_ranks == Ranks{0, 2});
}

TEST_CASE("a rank that was asked to terminate may exit with 0 within a collective") {
  JobState state = three_ranks();
  WorkerEnd secondary = ended(0, 1);
  secondary.error = ErrorRecord{"lost", true};
  state.step(secondary, kBegin);
  state.step(Settled{}, kBegin + 2s);
  REQUIRE(state.ending());
  WorkerEnd event = ended(1, 0);
  event.verdict.emplace();
  event.verdict->kind = VerdictKind::ended;
  event.verdict->culprits = {1};
  state.step(event, kBegin + 2s);
  state.step(WorkerEnd{2, ddp::base::ExitStatus::killed(SIGTERM)}, kBegin + 2s);
  CHECK(state.outcome().status.shell_code() == 1);
  CHECK(state.outcome().culprit()->rank == 0);
  CHECK(state.outcome().ended_ranks == Ranks{1, 2});
}

TEST_CASE("workers that die of a signal which the launcher also gets have not failed") {
  for (const int workers_first : {1, 2}) {
    JobFixture job(2);
    job.start();
    for (int i = 0; i < workers_first; ++i) job.killed(i, SIGTERM);
    CHECK_FALSE(job.state().finished());
    job.passes(50ms).launcher_gets(SIGTERM);
    if (workers_first == 1) job.killed(1, SIGTERM);
    const JobOutcome outcome = job.outcome();
    CHECK(outcome.status == ddp::base::ExitStatus::killed(SIGTERM));
    CHECK_FALSE(outcome.culprit());
    CHECK(outcome.also_failed.empty());
    CHECK(outcome.ended_ranks == Ranks{0, 1});
  }
  // Without a signal to the launcher, the workers have failed.
  JobFixture job(2);
  job.start().killed(0, SIGTERM).killed(1, SIGTERM).passes(600ms);
  CHECK(job.outcome().culprit()->rank == 0);
  CHECK(job.outcome().status.shell_code() == 143);
}

TEST_CASE("the rank with the oldest error record is the cause, even if its exit takes longer") {
  using std::chrono::system_clock;
  const auto failed_at = [](int rank, std::chrono::milliseconds written, ddp::base::ExitStatus status) {
    WorkerEnd event{rank, status};
    event.error = ErrorRecord{"bad batch", false, false, std::nullopt, system_clock::time_point(written)};
    return event;
  };
  WorkerEnd faster = failed_at(0, 20ms, ddp::base::ExitStatus::exited(3));
  faster.another_failed_before = true;

  SECTION("it ends by itself in time") {
    JobState state = three_ranks();
    state.step(faster, kBegin + 30ms);
    CHECK_FALSE(state.ending());
    state.step(failed_at(1, 10ms, ddp::base::ExitStatus::exited(7)), kBegin + 400ms);
    CHECK(state.ending());
    state.step(WorkerEnd{2, ddp::base::ExitStatus::killed(SIGTERM)}, kBegin + 410ms);
    const JobOutcome outcome = state.outcome();
    REQUIRE(outcome.culprit());
    CHECK(outcome.culprit()->rank == 1);
    CHECK(outcome.status.shell_code() == 7);
  }
  SECTION("it has to be ended: the exit code is that of the first to end") {
    JobState state = three_ranks();
    state.step(faster, kBegin + 30ms);
    state.step(Settled{}, kBegin + 2030ms);
    CHECK(state.ending());
    state.step(failed_at(1, 10ms, ddp::base::ExitStatus::killed(SIGTERM)), kBegin + 2040ms);
    state.step(WorkerEnd{2, ddp::base::ExitStatus::killed(SIGTERM)}, kBegin + 2040ms);
    const JobOutcome outcome = state.outcome();
    REQUIRE(outcome.culprit());
    CHECK(outcome.culprit()->rank == 1);
    CHECK(outcome.status.shell_code() == 3);
    CHECK(outcome.run_time == 30ms);
    CHECK(outcome.ended_ranks == Ranks{2});
    REQUIRE(outcome.also_failed.size() == 1);
    CHECK(outcome.also_failed[0].rank == 0);
    CHECK(describe_failure(outcome) == "rank 1: failed with an error");
  }
  SECTION("a secondary failure's record does not count, and a signal says more than the record of another rank") {
    JobState state = three_ranks();
    state.step(WorkerEnd{0, ddp::base::ExitStatus::killed(SIGSEGV)}, kBegin + 30ms);
    CHECK(state.ending());
    WorkerEnd secondary = failed_at(1, 10ms, ddp::base::ExitStatus::exited(1));
    secondary.error->is_secondary = true;
    state.step(secondary, kBegin + 40ms);
    state.step(failed_at(2, 5ms, ddp::base::ExitStatus::killed(SIGTERM)), kBegin + 40ms);
    CHECK(state.outcome().culprit()->rank == 0);
  }
}

TEST_CASE("a rank that exits slowly is the cause if a secondary failure names it") {
  WorkerEnd secondary = ended(0, 1);
  secondary.error = ErrorRecord{.message = "lost", .is_secondary = true, .peer = 2};
  for (const bool is_named : {true, false}) {
    if (!is_named) secondary.error->peer.reset();
    JobState state = three_ranks();
    state.step(secondary, kBegin);
    state.step(ended(2, 9), kBegin + 6s);
    state.step(WorkerEnd{1, ddp::base::ExitStatus::killed(SIGTERM)}, kBegin + 6s);
    CHECK(state.outcome().culprit()->rank == (is_named ? 2 : 0));
  }
}

TEST_CASE("a rank that is terminated long after a secondary failure is not the cause") {
  WorkerEnd secondary = ended(0, 1);
  secondary.error = ErrorRecord{.message = "lost", .is_secondary = true, .peer = 2};
  JobState state = three_ranks();
  state.step(secondary, kBegin);
  state.step(Settled{}, kBegin + 4s);
  state.step(ended(1, 9), kBegin + 5s);
  state.step(WorkerEnd{2, ddp::base::ExitStatus::killed(SIGTERM)}, kBegin + 5s);
  CHECK(state.outcome().culprit()->rank == 0);
}

TEST_CASE("an error record with a reason outranks a lost peer regardless of their times") {
  using std::chrono::system_clock;
  const auto killed = ddp::base::ExitStatus::killed(SIGTERM);
  const auto exited = [](int code) { return ddp::base::ExitStatus::exited(code); };
  const auto at = [](std::chrono::milliseconds time) { return system_clock::time_point(time); };
  const ErrorRecord lost{.message = "lost", .is_secondary = true, .written_at = at(10ms)};
  const ErrorRecord mixed{.message = "own", .is_secondary = true, .written_at = at(10ms), .had_own_error = true};
  const ErrorRecord own{.message = "bad sample", .written_at = at(20ms)};
  const ErrorRecord later{.message = "bad shard", .written_at = at(30ms)};
  const ErrorRecord answer{.message = "asked", .written_at = at(40ms), .is_after_signal = true};
  struct Case {
    const char* what;
    ddp::base::ExitStatus first_status;  // of rank 0, which is seen first
    std::optional<ErrorRecord> first;
    ddp::base::ExitStatus second_status;  // of rank 1, which the launcher has asked to end
    std::optional<ErrorRecord> second;
    int culprit;
  };
  const std::vector<Case> cases = {
      {"it exits too slowly", exited(1), lost, killed, own, 1},
      {"it exits with a code of its own after the signal", exited(1), lost, exited(7), own, 1},
      {"its record answers the launcher's signal", exited(1), lost, killed, answer, 0},
      {"both lost a peer", exited(1), lost, killed, lost, 0},
      {"one of them handled an error of its own", exited(1), lost, exited(1), mixed, 1},
      {"it had left the group because of an error of its own", exited(1), lost, killed, mixed, 1},
      {"a crash beats an error that may be unimportant", ddp::base::ExitStatus::killed(SIGSEGV), std::nullopt, killed,
       mixed, 0},
      {"an exit code alone says nothing", exited(3), std::nullopt, killed, own, 1},
      {"a crash says enough", ddp::base::ExitStatus::killed(SIGSEGV), std::nullopt, killed, own, 0},
      {"the older of two reasons", exited(1), own, killed, later, 0},
      {"the older of two reasons is seen later", exited(1), later, killed, own, 1},
  };
  for (const Case& one : cases) {
    CAPTURE(one.what);
    JobState state = three_ranks();
    state.step(WorkerEnd{0, one.first_status, one.first}, kBegin + 50ms);
    state.step(Settled{}, kBegin + 2050ms);
    state.step(WorkerEnd{1, one.second_status, one.second}, kBegin + 2060ms);
    state.step(WorkerEnd{2, killed}, kBegin + 2060ms);
    REQUIRE(state.outcome().culprit());
    CHECK(state.outcome().culprit()->rank == one.culprit);
  }
}
