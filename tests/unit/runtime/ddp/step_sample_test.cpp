#include "runtime/ddp/step_sample.h"

#include <array>

#include "support/catch.h"

using namespace ddp;
using namespace ddp::internal;

TEST_CASE("statistics are means over steps") {
  StepStatistics mean;
  add(mean, {1, 2, 3, 10});
  add(mean, {3, 4, 5, 20});
  CHECK(mean.steps == 2);
  CHECK(mean.compute_seconds == Approx(2));
  CHECK(mean.communication_seconds == Approx(3));
  CHECK(mean.exposed_seconds == Approx(4));
  CHECK(mean.bytes == Approx(15));
}

TEST_CASE("the waiting time of overlapping buckets is counted once") {
  CHECK(seconds_under_way({}) == 0);
  // The second bucket waits for the first one for a second, and the third begins after a pause.
  const std::array<Interval, 3> buckets = {{{-1, 2}, {1, 4}, {6, 7}}};
  CHECK(seconds_under_way(buckets) == Approx(3 + 2 + 1));
  // A bucket that ends together with the previous one takes no further time.
  const std::array<Interval, 2> hidden = {{{0, 5}, {1, 5}}};
  CHECK(seconds_under_way(hidden) == Approx(5));
}
