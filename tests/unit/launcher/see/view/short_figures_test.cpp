#include "launcher/see/view/short_figures.h"

#include <limits>

#include "launcher/see/view/styled_line.h"
#include "support/catch.h"

using namespace ddp::launcher;

TEST_CASE("durations, sizes, numbers and shares are printed briefly") {
  CHECK(short_duration(0) == "0ms");
  CHECK(short_duration(-3) == "0ms");
  CHECK(short_duration(0.0851) == "85ms");
  CHECK(short_duration(0.9999) == "1.0s");
  CHECK(short_duration(3.24) == "3.2s");
  CHECK(short_duration(45.2) == "45s");
  CHECK(short_duration(59.7) == "1m00s");
  CHECK(short_duration(192) == "3m12s");
  CHECK(short_duration(7500) == "2h05m");
  CHECK(short_duration(86'400 * 4 + 3600 * 3) == "4d3h");
  CHECK(short_bytes(512) == "512B");
  CHECK(short_bytes(1536) == "1.5K");
  CHECK(short_bytes(64.0 * (1 << 20)) == "64M");
  CHECK(short_bytes(1023.9 * (1 << 20)) == "1.0G");
  CHECK(short_number(1200) == "1200");
  CHECK(short_number(18'312) == "18.3k");
  CHECK(short_number(1.8421) == "1.842");
  CHECK(short_number(-2.5e6) == "-2.5M");
  CHECK(short_number(0.00012) == "0.00012");
  CHECK(short_number(5e17) == "500P");
  CHECK(short_number(-5.24e241) == "-5.24e+241");
  CHECK(short_percent(0.4321) == "43%");
  CHECK(short_cpus(1.04) == "1.0");
  CHECK(short_cpus(63.7) == "64");
}

TEST_CASE("a sparkline has one bar per column, scaled from the lowest to the highest value") {
  CHECK(sparkline({0, 1, 2, 3, 4, 5, 6, 7}, 8, true) == "▁▂▃▄▅▆▇█");
  CHECK(sparkline({0, 0, 7, 7}, 2, true) == "▁█");
  CHECK(sparkline({7, std::nullopt, 0}, 8, true) == "█ ▁");
  CHECK(sparkline({3, 3}, 8, true) == "▁▁");
  CHECK(sparkline({std::nullopt, std::nullopt, 1, 2}, 2, true) == "▁█");
  CHECK(sparkline({0, 1, 2, 3, 4, 5, 6, 7}, 8, false) == "_.-=+*%#");
  CHECK(sparkline({3}, 8, true).empty());
  CHECK(sparkline({}, 8, true).empty());
  CHECK(sparkline({1, std::nullopt}, 8, true).empty());
}

TEST_CASE("no value is wider than its column") {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  for (const double value : {0.0, 1e-9, 0.5, 9.96, 59.4, 99.9, 999.6, 1e4, 3.6e5, 1e7, 1e9, 1e15, 1e30, 1e300, -1.0,
                             -1e300, kInfinity, -kInfinity, std::numeric_limits<double>::quiet_NaN()}) {
    CAPTURE(value);
    CHECK(columns_of(short_duration(value)) <= 6);
    CHECK(columns_of(short_bytes(value)) <= 5);
    CHECK(columns_of(short_cpus(value)) <= 4);
    CHECK(columns_of(short_percent(value)) <= 4);
  }
}
