#include "runtime/ddp/step_clock.h"

#include <thread>

#include "support/catch.h"

using namespace ddp;
using namespace ddp::internal;

namespace {

void plays_step(HostStepClock& clock) {
  clock.begin_bucket();
  clock.watch_bucket({});
  clock.enter_finish();
  clock.end_bucket();
  clock.join();
  clock.leave_finish(100);
}

// Lets time pass on the clock that is tested.
void wait_for_a_tick() {
  const auto now = std::chrono::steady_clock::now();
  while (std::chrono::steady_clock::now() == now) std::this_thread::yield();
}

}  // namespace

TEST_CASE("a step on the host counts when it ends, and without streams") {
  HostStepClock clock(0);
  clock.begin_step();
  CHECK(!clock.begin_bucket());
  clock.abandon();
  CHECK(clock.statistics().steps == 0);
  wait_for_a_tick();
  plays_step(clock);
  CHECK(clock.statistics().steps == 1);
  CHECK(clock.statistics().compute_seconds > 0);
  CHECK(clock.statistics().communication_seconds == 0);  // no work was watched
  CHECK(clock.statistics().bytes == 100);
  clock.use(Stream(nullptr));
  CHECK(!clock.stream());
  clock.reset_statistics();
  CHECK(clock.statistics().steps == 0);
}

TEST_CASE("gradients on the host are timed from the beginning of the step") {
  HostStepClock clock(2);
  clock.begin_step();
  wait_for_a_tick();
  clock.mark_ready(1);
  const double first = clock.seconds_until_ready(1);
  CHECK(first > 0);
  clock.mark_ready(2);  // is not timed
  wait_for_a_tick();
  clock.mark_ready(1);
  CHECK(clock.seconds_until_ready(1) > first);
  clock.forget_gradients();
  clock.mark_ready(1);
}
