#include "launcher/see/view/step_rate.h"

#include "support/catch.h"

using namespace ddp::launcher;
using namespace std::chrono_literals;

namespace {

constexpr std::uint64_t kMillisecond = 1'000'000;
constexpr std::uint64_t kSecond = 1000 * kMillisecond;

}  // namespace

TEST_CASE("the step rate covers the window only") {
  StepRate rate(10s);
  std::uint64_t now = kSecond;
  std::uint64_t steps = 0;
  for (int i = 0; i < 600; ++i) rate.add(now += 50 * kMillisecond, ++steps);
  CHECK(rate.per_second(now) == Approx(20.0).epsilon(0.02));
  for (int i = 0; i < 600; ++i) rate.add(now += 50 * kMillisecond, steps += i % 2 == 0 ? 1 : 0);
  CHECK(rate.per_second(now) == Approx(10.0).epsilon(0.02));
}

TEST_CASE("the rate of steps longer than the window comes from the last steps") {
  StepRate rate(10s);
  std::uint64_t now = kSecond;
  for (std::uint64_t step = 1; step <= 4; ++step) {
    for (int i = 0; i < 600; ++i) rate.add(now += 50 * kMillisecond, step);
  }
  CHECK(rate.per_second(now) == Approx(1.0 / 30).epsilon(0.01));
}

TEST_CASE("the rate falls while no step ends, and reaches 0 after the window") {
  StepRate rate(10s);
  std::uint64_t now = kSecond;
  for (std::uint64_t step = 1; step <= 100; ++step) rate.add(now += 100 * kMillisecond, step);
  CHECK(rate.per_second(now + kSecond / 2) == Approx(10.0).epsilon(0.01));
  CHECK(rate.per_second(now + 5 * kSecond) < 8);
  CHECK(rate.per_second(now + 5 * kSecond) > 5);
  CHECK(rate.per_second(now + 11 * kSecond) == 0);
}

TEST_CASE("a smaller step number restarts the measurement") {
  StepRate rate(10s);
  rate.add(kSecond, 100);
  rate.add(2 * kSecond, 200);
  rate.add(3 * kSecond, 5);
  CHECK(rate.per_second(3 * kSecond) == 0);
  CHECK(rate.span() == 0);
  rate.add(4 * kSecond, 7);
  CHECK(rate.per_second(4 * kSecond) == Approx(2.0).epsilon(0.01));
}
