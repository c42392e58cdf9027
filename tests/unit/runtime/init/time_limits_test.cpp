#include "runtime/init/time_limits.h"

#include "runtime/limits.h"
#include "support/catch.h"

using namespace ddp;
using namespace ddp::internal;
using namespace std::chrono_literals;

TEST_CASE("a rank that nobody watches gives up after some minutes") {
  const TimeLimits limits = time_limits({}, false);
  CHECK(limits.connecting == 10min);
  CHECK(limits.store == 5min);
  CHECK_FALSE(limits.operation);
  CHECK_FALSE(limits.coming);
}

TEST_CASE("under ddplaunch ranks wait for each other without a limit of their own") {
  const TimeLimits limits = time_limits({}, true);
  CHECK(limits.connecting == 10min);  // all ranks have come, so only the network causes delays
  CHECK(limits.store == 5min);
  CHECK(limits.operation == limits::kNoTimeout);
  CHECK(limits.coming == limits::kNoTimeout);
}

TEST_CASE("what the program sets holds under ddplaunch, too") {
  InitOptions options;
  options.store_timeout = 20s;
  CHECK(time_limits(options, true).operation == limits::kNoTimeout);
  CHECK_FALSE(time_limits(options, true).coming);
  CHECK(time_limits(options, true).store == 20s);
  options.timeout = 30s;
  CHECK(time_limits(options, true).connecting == 30s);
  CHECK_FALSE(time_limits(options, true).operation);
}
