#include "launcher/run/job/outcome.h"

#include <csignal>
#include <string>
#include <utility>

#include "support/catch.h"

using namespace ddp::launcher;
using ddp::base::ExitStatus;
using namespace ddp;
using base::ExitStatus;

namespace {

std::string text_of(RootCause cause) {
  JobOutcome outcome;
  outcome.cause = std::move(cause);
  outcome.ended_ranks = {1, 2};
  return describe_failure(outcome);
}

WorkerEnd rank_three(ExitStatus status, bool after_signal = false) {
  WorkerEnd end;
  end.rank = 3;
  end.status = status;
  end.after_signal = after_signal;
  return end;
}

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
const wire::Cause kRequest{.text = "terminated by SIGINT", .node = "a", .exit_code = 130, .signal = SIGINT};

}  // namespace

TEST_CASE("each cause has a short description") {
  CHECK(text_of({}).empty());
  CHECK(text_of(WorkerFailed{rank_three(ExitStatus::killed(SIGSEGV)), {}}) == "rank 3: killed by SIGSEGV");
  CHECK(text_of(WorkerFailed{rank_three(ExitStatus::exited(0)), {}}) ==
        "rank 3: exit code 0 before its collectives were done");
  CHECK(text_of(WorkerFailed{rank_three(ExitStatus::killed(SIGTERM), true), {}}) == "rank 3: failed with an error");
  CHECK(text_of(SpawnFailed{0, {126, "cannot start ./x"}}) == "cannot start ./x");
  CHECK(text_of(SignalArrived{SIGINT}) == "terminated by SIGINT");
  CHECK(text_of(SignalArrived{SIGHUP, "the connection is lost"}) == "the connection is lost");
  CHECK(text_of(GuardianLost{}) == "the launcher's first process was killed");
  CHECK(text_of(ExitTimedOut{}) == "ranks 1, 2 did not exit");
  CHECK(text_of(HangNews{}).starts_with("the job hung: no rank shows any activity"));
  ddp::wire::Cause elsewhere;
  elsewhere.text = "rank 5: exit code 3";
  CHECK(text_of(EndedElsewhere{elsewhere}) == "rank 5: exit code 3");
  elsewhere.node = "b";
  CHECK(text_of(EndedElsewhere{elsewhere}) == "node b: rank 5: exit code 3");
  elsewhere.not_restarted = "not restarted: asked to end meanwhile";
  CHECK(text_of(EndedElsewhere{elsewhere}) == "node b: rank 5: exit code 3; not restarted: asked to end meanwhile");
}

TEST_CASE("only a worker's failure has a culprit") {
  JobOutcome outcome;
  CHECK(outcome.culprit() == nullptr);
  outcome.cause = GuardianLost{};
  CHECK(outcome.culprit() == nullptr);
  CHECK(outcome.cause_as<GuardianLost>() != nullptr);
  outcome.cause = WorkerFailed{rank_three(ExitStatus::exited(1)), {}};
  REQUIRE(outcome.culprit() != nullptr);
  CHECK(outcome.culprit()->rank == 3);
}

TEST_CASE("success, user requests and programs that cannot start do not lead to a restart") {
  const auto is_worth = [](RootCause cause) {
    JobOutcome outcome;
    outcome.cause = std::move(cause);
    return is_worth_another(outcome);
  };
  CHECK_FALSE(is_worth({}));
  CHECK_FALSE(is_worth(SignalArrived{SIGTERM}));
  CHECK_FALSE(is_worth(GuardianLost{}));
  CHECK_FALSE(is_worth(SpawnFailed{0, {127, "x"}}));
  CHECK_FALSE(is_worth(EndedElsewhere{}));
  CHECK(is_worth(WorkerFailed{rank_three(ExitStatus::exited(1)), {}}));
  CHECK(is_worth(ExitTimedOut{}));
  CHECK(is_worth(HangNews{}));
}

TEST_CASE("a job of one node ends with the result of its last attempt") {
  const Conclusion end = conclude({.last = failed(7), .is_alone = true, .has_run = true, .own_name = "a"}, kFailure);
  CHECK(end.outcome.status == ExitStatus::exited(7));
  CHECK(end.line.empty());
}

TEST_CASE("all nodes exit with the code of the cause, and print it only once") {
  Conclusion end = conclude({.last = failed(7), .has_run = true, .own_name = "a"}, kFailure);
  CHECK(end.outcome.status == ExitStatus::exited(3));
  CHECK(end.line == "node b: rank 5: exit code 3");
  CHECK(end.is_from_another_node);
  JobOutcome reported;
  reported.cause = EndedElsewhere{kFailure};
  end = conclude({.last = reported, .has_run = true, .own_name = "a"}, kFailure);
  CHECK(end.outcome.status == ExitStatus::exited(3));
  CHECK(end.line.empty());
  CHECK_FALSE(end.is_from_another_node);
  wire::Cause given_up = kFailure;
  given_up.not_restarted = "ddplaunch gave up after 2 restarts";
  end = conclude({.last = reported, .has_run = true, .own_name = "a"}, given_up);
  CHECK(end.line == "node b: rank 5: exit code 3; ddplaunch gave up after 2 restarts");
  wire::Cause own = kFailure;
  own.node = "a";
  CHECK_FALSE(conclude({.last = failed(7), .has_run = true, .own_name = "a"}, own).is_from_another_node);
}

TEST_CASE("a successful job is a success even if it was asked to end") {
  const Conclusion end = conclude({.last = JobOutcome(), .has_run = true, .own_name = "a"}, {});
  CHECK(end.outcome.status.success());
  CHECK(end.line.empty());
}

TEST_CASE("a request to end between two attempts is the cause of the end") {
  LastFacts facts{.asked = SignalArrived{SIGINT}, .is_alone = true, .has_run = true, .own_name = "a"};
  Conclusion end = conclude(facts, kRequest);
  CHECK(end.outcome.status == ExitStatus::killed(SIGINT));
  CHECK(end.outcome.cause_as<SignalArrived>() != nullptr);
  CHECK(end.was_ended_between_attempts);
  CHECK(end.line.empty());
  // Before the first attempt there was nothing to end, so a line reports the signal.
  facts.has_run = false;
  end = conclude(facts, kRequest);
  CHECK_FALSE(end.was_ended_between_attempts);
  CHECK(end.line == "node a: terminated by SIGINT");
}

TEST_CASE("a node that leaves early reports the reason") {
  const LastFacts facts{.asked = GuardianLost{}, .in_haste = true, .is_alone = true, .has_run = true, .own_name = "a"};
  const Conclusion end = conclude(facts, {.text = "the launcher's first process was killed", .exit_code = 125});
  CHECK(end.outcome.status == ExitStatus::exited(125));
  CHECK(end.outcome.cause_as<GuardianLost>() != nullptr);
  CHECK(end.was_ended_between_attempts);
}

TEST_CASE("a later cause replaces one that only shows a lost rank") {
  const auto ended = [](wire::Knowledge knowledge) {
    JobOutcome outcome = failed(1);
    outcome.knowledge = knowledge;
    return outcome;
  };
  JobOutcome outcome = ended(wire::Knowledge::secondary);
  CHECK(adopt_cause(outcome, kFailure, "a"));
  CHECK(describe_failure(outcome) == "node b: rank 5: exit code 3");
  REQUIRE(outcome.also_failed.size() == 1);
  CHECK(outcome.also_failed[0].status == ExitStatus::exited(1));
  CHECK_FALSE(adopt_cause(outcome, kFailure, "a"));  // it has been adopted
  // The job has ended as this node says, so nothing remains to be reported.
  const Conclusion end = conclude({.last = outcome, .has_run = true, .own_name = "a"}, kFailure);
  CHECK(end.line.empty());
  CHECK_FALSE(end.is_from_another_node);

  outcome = ended(wire::Knowledge::certain);
  CHECK_FALSE(adopt_cause(outcome, kFailure, "a"));
  outcome = ended(wire::Knowledge::secondary);
  CHECK_FALSE(adopt_cause(outcome, kFailure, "b"));  // this node's own
  wire::Cause guess = kFailure;
  guess.knowledge = wire::Knowledge::secondary;
  CHECK_FALSE(adopt_cause(outcome, guess, "a"));
  outcome = JobOutcome();
  CHECK_FALSE(adopt_cause(outcome, kFailure, "a"));
}
