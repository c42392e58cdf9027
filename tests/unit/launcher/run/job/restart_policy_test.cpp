#include "launcher/run/job/restart_policy.h"

#include "launcher/limits.h"
#include "support/catch.h"

using namespace ddp::launcher;
using ddp::wire::CauseCode;
using ddp::wire::Progress;
using namespace std::chrono_literals;

namespace {

ddp::wire::RestartHistory history_of(const std::vector<PastAttempt>& attempts) {
  ddp::wire::RestartHistory history;
  for (const PastAttempt& attempt : attempts) history = add(history, attempt);
  return history;
}

// Returns the delay in ms, or -1 if there is no restart.
std::int64_t delay_after(const std::vector<PastAttempt>& attempts, int max_restarts) {
  const RestartDecision decision = decide_restart(history_of(attempts), max_restarts);
  const auto* restart = std::get_if<RestartAfter>(&decision);
  return restart == nullptr ? -1 : restart->delay.count();
}

std::string reason_after(const std::vector<PastAttempt>& attempts, int max_restarts) {
  return std::get<NoRestart>(decide_restart(history_of(attempts), max_restarts)).reason;
}

}  // namespace

TEST_CASE("a job is restarted as often as --max-restarts allows") {
  CHECK(delay_after({{1h}}, 0) == -1);
  CHECK(delay_after({{1h}}, 1) == 0);
  CHECK(delay_after({{1h}, {1h}}, 1) == -1);
  CHECK(reason_after({{1h}}, 0).empty());
  CHECK(reason_after({{1h}, {1h}}, 1) == "ddplaunch gave up after 1 restart");
}

TEST_CASE("attempts without progress triple the restart delay, and progress resets it") {
  CHECK(delay_after({{1s}}, 100) == 100);
  CHECK(delay_after({{1s}, {1s}}, 100) == 300);
  CHECK(delay_after({{1s}, {1s}, {1s}}, 100) == 900);
  CHECK(delay_after({{1s}, {1s}, {1s}, {1h}}, 100) == 0);
  CHECK(delay_after({{1s}, {1s}, {1h}, {1s}}, 100) == 100);
}

TEST_CASE("a job that never makes progress is given up") {
  const std::vector<PastAttempt> in_vain(ddp::limits::kAttemptsWithoutProgress, {1s});
  CHECK(delay_after(in_vain, 100) == -1);
  CHECK(reason_after(in_vain, 100).find("6 attempts in a row") != std::string::npos);
}

TEST_CASE("progress is measured in steps if they are visible, and otherwise in time") {
  const PastAttempt slow_and_in_vain{1h, Progress::none};
  const PastAttempt fast_and_useful{1s, Progress::some};
  const std::vector<PastAttempt> in_vain(ddp::limits::kAttemptsWithoutProgress, slow_and_in_vain);
  CHECK(delay_after(in_vain, 100) == -1);
  CHECK(
      reason_after(in_vain, 100) ==
      "ddplaunch gave up: 6 attempts in a row failed before they finished a step (95 restarts of --max-restarts left)");
  CHECK(delay_after(std::vector(50, fast_and_useful), 100) == 0);
  CHECK(delay_after({slow_and_in_vain, slow_and_in_vain, fast_and_useful, slow_and_in_vain}, 100) == 100);
}

TEST_CASE("the loss of a node does not count as a restart") {
  const PastAttempt error{1h};
  const PastAttempt lost_node{1h, Progress::unknown, CauseCode::lost_node};
  const PastAttempt left{1h, Progress::unknown, CauseCode::preempted};
  CHECK(delay_after({lost_node, left, lost_node}, 1) == 0);
  CHECK(delay_after({lost_node, error, left}, 1) == 0);
  CHECK(delay_after({error, lost_node, error}, 1) == -1);
  CHECK(delay_after({lost_node}, 0) == -1);
  CHECK(history_of({lost_node, error}).counted == 1);
  const std::vector<PastAttempt> in_vain(ddp::limits::kAttemptsWithoutProgress,
                                         {1s, Progress::none, CauseCode::lost_node});
  CHECK(reason_after(in_vain, 3).find("(3 restarts of --max-restarts left)") != std::string::npos);
}

TEST_CASE("the same error at the same step is not retried") {
  const auto fails = [](const std::string& error, std::optional<std::int64_t> step) {
    return PastAttempt{1h, Progress::some, CauseCode::program, error, step};
  };
  CHECK(delay_after({fails("a", 7)}, 100) == 0);
  CHECK(delay_after({fails("a", 7), fails("a", 7)}, 100) == -1);
  CHECK(
      reason_after({fails("b", 3), fails("a", 7), fails("a", 7)}, 100) ==
      "ddplaunch gave up: two attempts failed with the same error after step 7, so another one would, too (98 restarts "
      "of --max-restarts left)");
  CHECK(std::get<NoRestart>(decide_restart(history_of({fails("a", 7), fails("a", 7)}), 100)).is_repeated);
  CHECK(delay_after({fails("a", 7), fails("a", 8)}, 100) == 0);
  CHECK(delay_after({fails("a", 7), fails("b", 7)}, 100) == 0);
  CHECK(delay_after({fails("a", 7), fails("b", 7), fails("a", 7)}, 100) == 0);
  CHECK(delay_after({fails("", 7), fails("", 7)}, 100) == 0);
  CHECK(delay_after({fails("a", std::nullopt), fails("a", std::nullopt)}, 100) == 0);
}

TEST_CASE("the restart message has its number, if it counts, and its delay") {
  CHECK(describe(RestartAfter{100ms, 1}, 3) == "restart 1 of 3 in 0.1 s");
  CHECK(describe(RestartAfter{0ms, 2}, 3) == "restart 2 of 3 at once");
  CHECK(describe(RestartAfter{0ms, 0}, 3) == "restart at once; the loss of a node does not count in --max-restarts");
  const auto number = [](const std::vector<PastAttempt>& attempts) {
    return std::get<RestartAfter>(decide_restart(history_of(attempts), 3)).number;
  };
  CHECK(number({{1h}}) == 1);
  CHECK(number({{1h}, {1h, Progress::unknown, CauseCode::lost_node}}) == 0);
  CHECK(number({{1h}, {1h, Progress::unknown, CauseCode::lost_node}, {1h}}) == 2);
}
