#include "runtime/checkpoint/state_keeper.h"

#include <limits>

#include "support/catch.h"

using ddp::internal::ImageInterval;

TEST_CASE("images begin after 16 steps, and their interval is reviewed at powers of two and after images") {
  ImageInterval interval(0.01);
  CHECK_FALSE(interval.is_due(0));
  CHECK_FALSE(interval.is_due(15));
  CHECK(interval.is_due(16));
  CHECK(interval.is_due(32));
  for (const std::int64_t steps : {1, 16, 31, 33, 95}) CHECK_FALSE(interval.is_reviewed(steps));
  for (const std::int64_t steps : {32, 48, 64, 1 << 20}) CHECK(interval.is_reviewed(steps));
  interval.agree(0.64, 1, 0);
  for (const std::int64_t steps : {96, 100, 160}) CHECK_FALSE(interval.is_reviewed(steps));
  for (const std::int64_t steps : {32, 128, 192}) CHECK(interval.is_reviewed(steps));
  interval.agree(0.001, 1, 0);
  CHECK_FALSE(interval.is_reviewed(97));
  CHECK(interval.is_reviewed(96));
}

TEST_CASE("the image interval is the smallest power of two that keeps the copies within their share of time") {
  ImageInterval interval(0.01);
  interval.agree(0.4, 0.5, 0);  // 80 steps
  CHECK(interval.every() == 128);
  CHECK(interval.is_due(256));
  CHECK_FALSE(interval.is_due(64));
  interval.agree(0.64, 1, 0);
  CHECK(interval.every() == 64);
  interval.agree(0.001, 1, 0);
  CHECK(interval.every() == 1);
  interval.agree(1e9, 1e-9, 0);
  CHECK(interval.every() == 1 << 30);
}

TEST_CASE("the image interval is long enough for the disk") {
  ImageInterval interval(0.01);
  interval.agree(0.001, 1, 20);
  CHECK(interval.every() == 32);
  interval.agree(0, 1, 20);
  CHECK(interval.every() == 32);
  interval.agree(0.64, 1, 20);
  CHECK(interval.every() == 64);
}

TEST_CASE("the image interval stays the same without a measured copy or step time") {
  ImageInterval interval(0.01);
  const double none = std::numeric_limits<double>::quiet_NaN();
  interval.agree(0, 1, 0);
  interval.agree(1, 0, 0);
  interval.agree(none, 1, 0);
  interval.agree(1, none, 0);
  CHECK(interval.every() == 16);
}

TEST_CASE("an image interval with a time share of 0 makes no images") {
  const ImageInterval interval(0);
  CHECK_FALSE(interval.is_due(16));
  CHECK_FALSE(interval.is_reviewed(32));
}
