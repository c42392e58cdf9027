#include "runtime/backend/cpu/near_memory.h"

#include <ddp/error.h>

#include <atomic>
#include <cstdlib>
#include <optional>
#include <thread>

#include "support/catch.h"
#include "support/expect_error.h"
#include "support/node_groups.h"

using namespace ddp;
using namespace ddp::internal;
using namespace ddp::test;

TEST_CASE("a failed rank waits until others stop reading its memory, and later readers are refused") {
  const auto groups = meet_on_one_node(3);
  std::atomic<bool> has_left = false;
  std::optional<InPlace> reading(*groups[1]);
  groups[0]->say_failed();
  std::thread failed([&] {
    NearMemory(groups[0], true).await_others();
    if (!has_left) std::abort();
  });
  expect_error(ErrorKind::peer_lost, {"rank 0 has failed"}, [&] { const InPlace late(*groups[2]); });
  has_left = true;
  reading.reset();
  failed.join();
  expect_error(ErrorKind::peer_lost, {"rank 0 has failed"}, [&] { const InPlace again(*groups[1]); });
  NearMemory(groups[0], true).await_others();  // refused accesses have left, too
}

TEST_CASE("a failing rank and a rank that starts reading its memory always notice each other") {
  constexpr int kRounds = 20000;
  const auto groups = meet_on_one_node(2);
  std::atomic<int> arrived = 0;
  std::atomic<bool> is_freed = false;
  std::atomic<int> wrong = 0;
  const auto meet = [&](int number) {
    for (++arrived; arrived < 2 * number;) std::this_thread::yield();
  };
  std::thread user([&] {
    for (int i = 1; i <= kRounds; ++i) {
      meet(2 * i - 1);
      try {
        const InPlace in_place(*groups[1]);
        for (int read = 0; read < 20; ++read) wrong += is_freed ? 1 : 0;
      } catch (const Error&) {
      }
      meet(2 * i);
    }
  });
  const NearMemory near(groups[0], true);
  for (int i = 1; i <= kRounds; ++i) {
    is_freed = false;
    groups[0]->own_area().state = RankState::working;
    meet(2 * i - 1);
    groups[0]->say_failed();
    near.await_others();
    is_freed = true;
    meet(2 * i);
  }
  user.join();
  CHECK(wrong == 0);
}
