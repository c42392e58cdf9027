#include "launcher/job/conclusion.h"

#include <csignal>

#include "support/catch.h"

using namespace ddp;
using namespace ddp::launcher;
using base::ExitStatus;

namespace {

JobOutcome failed(int code) {
  JobOutcome outcome;
  outcome.status = ExitStatus::exited(code);
  WorkerEnd end;
  end.rank = 1;
  end.status = outcome.status;
  outcome.cause = WorkerFailed{end, std::nullopt};
  return outcome;
}

const wire::Cause kFailure{.text = "rank 5: exit code 3", .node = "b", .exit_code = 3, .may_restart = true};
const wire::Cause kRequest{.text = "ended by SIGINT", .node = "a", .exit_code = 130, .signal = SIGINT};

}  // namespace

TEST_CASE("a job of one node ends as its last attempt did") {
  const Conclusion end = conclude({.last = failed(7), .is_alone = true, .has_run = true, .own_name = "a"}, kFailure);
  CHECK(end.outcome.status == ExitStatus::exited(7));
  CHECK(end.line.empty());
}

TEST_CASE("on several nodes all end with the exit code of the cause, and tell what they have not told") {
  Conclusion end = conclude({.last = failed(7), .has_run = true, .own_name = "a"}, kFailure);
  CHECK(end.outcome.status == ExitStatus::exited(3));
  CHECK(end.line == "node b: rank 5: exit code 3");
  JobOutcome told;
  told.cause = EndedElsewhere{kFailure};
  end = conclude({.last = told, .has_run = true, .own_name = "a"}, kFailure);
  CHECK(end.outcome.status == ExitStatus::exited(3));
  CHECK(end.line.empty());
  wire::Cause given_up = kFailure;
  given_up.not_restarted = "given up after 2 restarts";
  end = conclude({.last = told, .has_run = true, .own_name = "a"}, given_up);
  CHECK(end.line == "node b: rank 5: exit code 3; given up after 2 restarts");
}

TEST_CASE("success is success whatever was asked") {
  const Conclusion end = conclude({.last = JobOutcome(), .has_run = true, .own_name = "a"}, {});
  CHECK(end.outcome.status.success());
  CHECK(end.line.empty());
}

TEST_CASE("who asks between two attempts is the cause of the end") {
  LastFacts facts{.asked = SignalArrived{SIGINT}, .is_alone = true, .has_run = true, .own_name = "a"};
  Conclusion end = conclude(facts, kRequest);
  CHECK(end.outcome.status == ExitStatus::killed(SIGINT));
  CHECK(end.outcome.cause_as<SignalArrived>() != nullptr);
  CHECK(end.was_ended_between_attempts);
  CHECK(end.line.empty());
  // Before the first attempt there was nothing to end: a line says it.
  facts.has_run = false;
  end = conclude(facts, kRequest);
  CHECK_FALSE(end.was_ended_between_attempts);
  CHECK(end.line == "node a: ended by SIGINT");
}

TEST_CASE("who leaves in haste says why") {
  const LastFacts facts{.asked = GuardianLost{}, .in_haste = true, .is_alone = true, .has_run = true, .own_name = "a"};
  const Conclusion end = conclude(facts, {.text = "the launcher's first process was killed", .exit_code = 125});
  CHECK(end.outcome.status == ExitStatus::exited(125));
  CHECK(end.outcome.cause_as<GuardianLost>() != nullptr);
  CHECK(end.was_ended_between_attempts);
}
