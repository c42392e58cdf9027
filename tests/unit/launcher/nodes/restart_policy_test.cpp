#include "launcher/nodes/restart_policy.h"

#include <catch2/catch.hpp>

#include "launcher/limits.h"

using namespace ddp::launcher;
using namespace std::chrono_literals;

namespace {

// The delay in ms; -1: no restart.
std::int64_t delay_after(const std::vector<std::chrono::nanoseconds>& run_times, int max_restarts) {
  const RestartDecision decision = decide_restart(run_times, max_restarts);
  const auto* restart = std::get_if<RestartAfter>(&decision);
  return restart == nullptr ? -1 : restart->delay.count();
}

std::string reason_after(const std::vector<std::chrono::nanoseconds>& run_times, int max_restarts) {
  return std::get<NoRestart>(decide_restart(run_times, max_restarts)).reason;
}

}  // namespace

TEST_CASE("a failure is worth as many restarts as were asked for") {
  CHECK(delay_after({1h}, 0) == -1);
  CHECK(delay_after({1h}, 1) == 250);
  CHECK(delay_after({1h, 1h}, 1) == -1);
  CHECK(reason_after({1h}, 0).empty());
  CHECK(reason_after({1h, 1h}, 1) == "given up after 1 restart");
}

TEST_CASE("attempts in vain double the delay and progress resets it") {
  CHECK(delay_after({1s}, 100) == 250);
  CHECK(delay_after({1s, 1s}, 100) == 500);
  CHECK(delay_after({1s, 1s, 1s}, 100) == 1000);
  CHECK(delay_after({1s, 1s, 1s, 1h}, 100) == 250);
  CHECK(delay_after({1s, 1s, 1h, 1s}, 100) == 250);
}

TEST_CASE("a job that never gets anywhere is given up") {
  const std::vector<std::chrono::nanoseconds> in_vain(ddp::limits::kAttemptsWithoutProgress, 1s);
  CHECK(delay_after(in_vain, 100) == -1);
  CHECK(reason_after(in_vain, 100).find("6 attempts in a row") != std::string::npos);
}
