#include "launcher/see/view/quantile_sketch.h"

#include "support/catch.h"

using ddp::launcher::QuantileSketch;

TEST_CASE("quantiles of durations are exact to 3 %") {
  QuantileSketch sketch;
  for (std::uint64_t i = 1; i <= 100'000; ++i) sketch.add(i * 1000);
  for (const double part : {0.01, 0.25, 0.5, 0.9, 0.99}) {
    const double exact = part * 100'000 * 1000;
    CHECK(static_cast<double>(sketch.quantile(part)) > exact * 0.97);
    CHECK(static_cast<double>(sketch.quantile(part)) < exact * 1.03);
  }
  CHECK(sketch.count() == 100'000);
  CHECK(sketch.longest() == 100'000'000);
}

TEST_CASE("a single duration is its own quantile at any length") {
  for (const std::uint64_t duration : {std::uint64_t{0}, std::uint64_t{5}, std::uint64_t{123'456}, UINT64_MAX}) {
    QuantileSketch sketch;
    sketch.add(duration);
    CHECK(sketch.quantile(0.5) == duration);
    CHECK(sketch.quantile(2) == duration);
  }
}

TEST_CASE("a sketch without durations has no quantiles") {
  CHECK(QuantileSketch().quantile(0.5) == 0);
}
