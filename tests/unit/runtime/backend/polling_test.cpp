#include "runtime/backend/polling.h"

#include "support/catch.h"

using namespace ddp::internal;
using namespace std::chrono_literals;

TEST_CASE("pauses between two polls double up to a maximum") {
  Sleeps sleeps{20us, 1000us};
  for (const auto expected : {20us, 40us, 80us, 160us, 320us, 640us, 1000us, 1000us}) CHECK(sleeps.take() == expected);
}

TEST_CASE("polling ends at its deadline without another pause") {
  Polling polling(0ms, 1000ms);
  CHECK_FALSE(polling.pause());
}
