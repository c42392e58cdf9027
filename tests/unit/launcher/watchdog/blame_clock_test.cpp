#include "launcher/watchdog/blame_clock.h"

#include <utility>

#include "support/catch.h"

using namespace ddp::launcher;
using namespace std::chrono_literals;

namespace {

std::vector<Verdict> blame_of(std::vector<int> culprits) {
  Verdict verdict;
  verdict.culprits = std::move(culprits);
  return {verdict};
}

}  // namespace

TEST_CASE("culprits are blamed since the last of them was blamed for the first time") {
  BlameClock clock;
  CHECK(clock.blamed_for(blame_of({1})[0]) == 0s);
  clock.add_sample(blame_of({1}));
  clock.advance(2s);
  clock.add_sample(blame_of({1, 2}));
  CHECK(clock.blamed_for(blame_of({1})[0]) == 2s);
  CHECK(clock.blamed_for(blame_of({1, 2})[0]) == 0s);
  clock.advance(1s);
  CHECK(clock.blamed_for(blame_of({1, 2})[0]) == 1s);
  CHECK(clock.blamed_for(blame_of({1, 3})[0]) == 0s);
}

TEST_CASE("a rank that one sample does not blame is still blamed, and after a while it is not") {
  BlameClock clock;
  clock.add_sample(blame_of({1}));
  for (int i = 0; i < 2; ++i) {
    clock.advance(1s);
    clock.add_sample({});
  }
  clock.add_sample(blame_of({1}));
  CHECK(clock.blamed_for(blame_of({1})[0]) == 2s);
  clock.advance(3s);
  clock.add_sample({});
  CHECK(clock.blamed_for(blame_of({1})[0]) == 0s);
  clock.add_sample(blame_of({1}));
  CHECK(clock.blamed_for(blame_of({1})[0]) == 0s);
}

TEST_CASE("verdicts without culprits have an age together") {
  BlameClock clock;
  clock.add_sample(blame_of({}));
  clock.advance(4s);
  clock.add_sample(blame_of({}));
  CHECK(clock.blamed_for(blame_of({})[0]) == 4s);
  CHECK(clock.blamed_for(blame_of({0})[0]) == 0s);
}
