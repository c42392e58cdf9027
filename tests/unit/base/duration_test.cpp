#include "base/duration.h"

#include "support/catch.h"

using ddp::base::parse_duration;

TEST_CASE("a duration is parsed as a number of seconds or as numbers with units") {
  CHECK(parse_duration("30")->count() == 30);
  CHECK(parse_duration("0.5")->count() == 0.5);
  CHECK(parse_duration("1e3")->count() == 1000);
  CHECK(parse_duration("500ms")->count() == 0.5);
  CHECK(parse_duration("90s")->count() == 90);
  CHECK(parse_duration("10m")->count() == 600);
  CHECK(parse_duration("1.5h")->count() == 5400);
  CHECK(parse_duration("1h30m")->count() == 5400);
  CHECK(parse_duration("1h2m3s4ms")->count() == 3723.004);
}

TEST_CASE("a duration with unknown, repeated or misordered units is rejected") {
  for (const char* wrong : {"",   "soon", "-1",    "-1s",  "nan",  "inf",    " 5",   "5 s", "5s ",   "m",
                            "1d", "1min", "10m1h", "1m1m", "1h30", "1.2.3s", "1e3s", "s5",  "1ms5s", "5S"}) {
    CAPTURE(wrong);
    CHECK_FALSE(parse_duration(wrong));
  }
}
