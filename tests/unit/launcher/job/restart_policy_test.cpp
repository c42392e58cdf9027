#include "launcher/job/restart_policy.h"

#include "launcher/limits.h"
#include "support/catch.h"

using namespace ddp::launcher;
using ddp::wire::Progress;
using namespace std::chrono_literals;

namespace {

// Returns the delay in ms, or -1 if there is no restart.
std::int64_t delay_after(const std::vector<PastAttempt>& attempts, int max_restarts) {
  const RestartDecision decision = decide_restart(attempts, max_restarts);
  const auto* restart = std::get_if<RestartAfter>(&decision);
  return restart == nullptr ? -1 : restart->delay.count();
}

std::string reason_after(const std::vector<PastAttempt>& attempts, int max_restarts) {
  return std::get<NoRestart>(decide_restart(attempts, max_restarts)).reason;
}

}  // namespace

TEST_CASE("a failure is worth as many restarts as were asked for") {
  CHECK(delay_after({{1h}}, 0) == -1);
  CHECK(delay_after({{1h}}, 1) == 0);
  CHECK(delay_after({{1h}, {1h}}, 1) == -1);
  CHECK(reason_after({{1h}}, 0).empty());
  CHECK(reason_after({{1h}, {1h}}, 1) == "ddplaunch gave up after 1 restart");
}

TEST_CASE("attempts in vain triple the delay and progress resets it") {
  CHECK(delay_after({{1s}}, 100) == 100);
  CHECK(delay_after({{1s}, {1s}}, 100) == 300);
  CHECK(delay_after({{1s}, {1s}, {1s}}, 100) == 900);
  CHECK(delay_after({{1s}, {1s}, {1s}, {1h}}, 100) == 0);
  CHECK(delay_after({{1s}, {1s}, {1h}, {1s}}, 100) == 100);
}

TEST_CASE("a job that never gets anywhere is given up") {
  const std::vector<PastAttempt> in_vain(ddp::limits::kAttemptsWithoutProgress, {1s});
  CHECK(delay_after(in_vain, 100) == -1);
  CHECK(reason_after(in_vain, 100).find("6 attempts in a row") != std::string::npos);
}

TEST_CASE("where steps can be seen a step is progress and time is not") {
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
