#include "launcher/run/ranks/clock_offset.h"

#include <algorithm>
#include <cstdlib>
#include <random>

#include "support/catch.h"
#include "support/random_seed.h"

using namespace ddp::launcher;

namespace {

constexpr std::uint64_t kSecond = 1'000'000'000;

// The other clock is ahead by `ahead`, and each way takes its time.
ClockExchange exchange(std::uint64_t at, std::int64_t ahead, std::uint64_t there, std::uint64_t back,
                       std::uint64_t work = 1000) {
  const auto other = [&](std::uint64_t time) { return time + static_cast<std::uint64_t>(ahead); };
  return {at, other(at + there), other(at + there + work), at + there + work + back};
}

}  // namespace

TEST_CASE("a fast exchange shows the offset of the other clock") {
  ClockOffset clock;
  CHECK_FALSE(clock.is_known());
  clock.add(exchange(100 * kSecond, -5'000'000, 2000, 2000));
  REQUIRE(clock.is_known());
  CHECK(clock.ahead() == -5'000'000);
  CHECK(clock.error() <= 2001);
}

TEST_CASE("the fastest recent exchange is used until it is too old") {
  ClockOffset clock;
  clock.add(exchange(100 * kSecond, 777, 1000, 1000));
  clock.add(exchange(101 * kSecond, 777, 900'000, 1000));
  CHECK(clock.ahead() == 777);
  // The clocks may have drifted apart since.
  clock.add(exchange(200 * kSecond, 4000, 30'000, 30'000));
  CHECK(clock.ahead() == 4000);
}

TEST_CASE("contradicting times are ignored") {
  ClockOffset clock;
  clock.add({10, 100, 90, 20});
  clock.add({20, 100, 100, 10});
  clock.add({10, 100, 200, 20});
  CHECK_FALSE(clock.is_known());
}

TEST_CASE("the true clock offset is within the error for random network delays") {
  std::mt19937_64 random(ddp::test::random_seed());
  for (int round = 0; round < 200; ++round) {
    ClockOffset clock;
    const auto ahead =
        static_cast<std::int64_t>(random() % (1000 * kSecond)) - static_cast<std::int64_t>(500 * kSecond);
    for (std::uint64_t i = 0; i < 50; ++i) {
      clock.add(exchange(10'000 * kSecond + i * kSecond / 2, ahead, random() % 10'000'000, random() % 10'000'000));
      REQUIRE(static_cast<std::uint64_t>(std::abs(clock.ahead() - ahead)) <= clock.error());
    }
    REQUIRE(clock.error() < 10'000'000);
  }
}
