#include "runtime/ddp/step_tracker.h"

#include <algorithm>

#include "support/catch.h"

using ddp::DataType;
using ddp::internal::Bucket;
using ddp::internal::StepTracker;
using Indices = std::vector<std::size_t>;

namespace {

// Returns a tracker with the parameters 0 to 4 in the buckets {4}, {3, 2}, {1, 0}.
StepTracker three_buckets() {
  StepTracker tracker(5);
  tracker.adopt(
      std::vector<Bucket>{{DataType::f32, {4}, {}}, {DataType::f32, {3, 2}, {}}, {DataType::f32, {1, 0}, {}}});
  tracker.begin();
  return tracker;
}

std::size_t complete_after(StepTracker& tracker, std::size_t parameter) {
  CHECK(tracker.mark(parameter));
  return tracker.complete_buckets();
}

}  // namespace

TEST_CASE("buckets become complete in the order of the plan for any order of marks") {
  StepTracker tracker = three_buckets();
  CHECK_FALSE(tracker.began());
  CHECK(complete_after(tracker, 0) == 0);
  CHECK(tracker.began());
  CHECK(complete_after(tracker, 1) == 0);
  CHECK(complete_after(tracker, 3) == 0);
  CHECK(tracker.missing() == Indices{2, 4});
  CHECK(complete_after(tracker, 4) == 1);
  CHECK(complete_after(tracker, 2) == 3);
  CHECK(tracker.missing().empty());
  CHECK(tracker.order() == Indices{0, 1, 3, 4, 2});
}

TEST_CASE("a parameter is marked once per step") {
  StepTracker tracker = three_buckets();
  CHECK(tracker.mark(4));
  CHECK_FALSE(tracker.mark(4));
  CHECK(tracker.complete_buckets() == 1);
  tracker.begin();
  CHECK(tracker.complete_buckets() == 0);
  CHECK(tracker.mark(4));
}

TEST_CASE("StepTracker counts the marks of each gradient in a learning step, and completes no bucket in it") {
  StepTracker tracker = three_buckets();
  tracker.expect({});
  tracker.begin();
  for (const std::size_t parameter : {4, 3, 2, 3, 1}) CHECK(complete_after(tracker, parameter) == 0);
  CHECK(tracker.missing() == Indices{0});
  CHECK(tracker.times() == Indices{0, 1, 1, 2, 1});
  CHECK(tracker.order() == Indices{4, 2, 3, 1});
}

TEST_CASE("a parameter expected several times is complete with its last mark, and one never expected at once") {
  StepTracker tracker = three_buckets();
  tracker.expect({0, 1, 1, 2, 0});
  tracker.begin();
  CHECK(tracker.complete_buckets() == 1);
  CHECK(complete_after(tracker, 3) == 1);
  CHECK(complete_after(tracker, 2) == 1);
  CHECK(complete_after(tracker, 3) == 2);
  CHECK_FALSE(tracker.mark(3));
  CHECK_FALSE(tracker.mark(0));
  CHECK(tracker.missing() == Indices{1});
  CHECK(complete_after(tracker, 1) == 3);
}

TEST_CASE("a parameter in several buckets completes them all") {
  StepTracker tracker(2);
  tracker.adopt(std::vector<Bucket>{{DataType::f32, {1}, {}}, {DataType::f32, {1, 0}, {}}, {DataType::f32, {1}, {}}});
  tracker.begin();
  CHECK(complete_after(tracker, 1) == 1);
  CHECK(complete_after(tracker, 0) == 3);
}
