#include "launcher/job/outcome.h"

#include <csignal>
#include <string>
#include <utility>

#include "support/catch.h"

using namespace ddp::launcher;
using ddp::base::ExitStatus;

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

}  // namespace

TEST_CASE("each cause is told in a few words") {
  CHECK(text_of({}).empty());
  CHECK(text_of(WorkerFailed{rank_three(ExitStatus::killed(SIGSEGV)), {}}) == "rank 3: killed by SIGSEGV");
  CHECK(text_of(WorkerFailed{rank_three(ExitStatus::exited(0)), {}}) ==
        "rank 3: exit code 0 before its collectives were done");
  CHECK(text_of(WorkerFailed{rank_three(ExitStatus::killed(SIGTERM), true), {}}) == "rank 3: failed with an error");
  CHECK(text_of(SpawnFailed{0, {126, "cannot start ./x"}}) == "cannot start ./x");
  CHECK(text_of(SignalArrived{SIGINT}) == "ended by SIGINT");
  CHECK(text_of(SignalArrived{SIGHUP, "the connection is lost"}) == "the connection is lost");
  CHECK(text_of(GuardianLost{}) == "the launcher's first process was killed");
  CHECK(text_of(ExitTimedOut{}) == "ranks 1, 2 did not end");
  CHECK(text_of(HangNews{}).starts_with("hung: no rank does anything"));
  ddp::wire::Cause elsewhere;
  elsewhere.text = "rank 5: exit code 3";
  CHECK(text_of(EndedElsewhere{elsewhere}) == "rank 5: exit code 3");
  elsewhere.node = "b";
  CHECK(text_of(EndedElsewhere{elsewhere}) == "node b: rank 5: exit code 3");
  elsewhere.not_restarted = "not restarted: asked to end meanwhile";
  CHECK(text_of(EndedElsewhere{elsewhere}) == "node b: rank 5: exit code 3; not restarted: asked to end meanwhile");
}

TEST_CASE("of a worker's failure alone there is a culprit") {
  JobOutcome outcome;
  CHECK(outcome.culprit() == nullptr);
  outcome.cause = GuardianLost{};
  CHECK(outcome.culprit() == nullptr);
  CHECK(outcome.cause_as<GuardianLost>() != nullptr);
  outcome.cause = WorkerFailed{rank_three(ExitStatus::exited(1)), {}};
  REQUIRE(outcome.culprit() != nullptr);
  CHECK(outcome.culprit()->rank == 3);
}

TEST_CASE("success and requests and programs that cannot be started are not worth another attempt") {
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
