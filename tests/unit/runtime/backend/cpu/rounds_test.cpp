#include "runtime/backend/cpu/rounds.h"

#include <ddp/error.h>

#include <atomic>
#include <thread>

#include "support/calls.h"
#include "support/catch.h"
#include "support/expect_error.h"
#include "support/node_groups.h"

using namespace ddp;
using namespace ddp::internal;
using namespace ddp::test;
using namespace std::chrono_literals;

namespace {

Call within(std::chrono::milliseconds timeout) {
  Call call = barrier();
  call.timeout = timeout;
  call.sequence = 1;
  return call;
}

}  // namespace

TEST_CASE("round counters that wrap around are compared by their distance") {
  CHECK(has_reached(5, 5));
  CHECK(has_reached(6, 5));
  CHECK_FALSE(has_reached(4, 5));
  CHECK(has_reached(1, 0xfffffffe));
  CHECK_FALSE(has_reached(0xfffffffe, 1));
}

TEST_CASE("staged data is read by all ranks before it is overwritten") {
  constexpr int kRanks = 3;
  constexpr std::uint32_t kRounds = 3000;
  const auto groups = meet_on_one_node(kRanks);
  std::vector<std::thread> threads;
  std::atomic<int> wrong = 0;
  for (std::size_t own = 0; own < kRanks; ++own) {
    threads.emplace_back([&, own] {
      const std::atomic<bool> aborted = false;
      Rounds rounds(groups[own], aborted);
      const Call call = within(kPatience);
      for (std::uint32_t round = 0; round < kRounds; ++round) {
        rounds.begin(call);  // the deadline is for one round
        *reinterpret_cast<std::uint32_t*>(rounds.filling(0)) = round;
        rounds.meet(call);
        for (std::size_t peer = 0; peer < kRanks; ++peer) {
          wrong += *reinterpret_cast<const std::uint32_t*>(rounds.filled(peer, 0)) == round ? 0 : 1;
        }
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  CHECK(wrong == 0);
}

TEST_CASE("waiting for a rank ends when it has exited, is late, or the group is aborted") {
  auto groups = meet_on_one_node(3);
  std::atomic<bool> aborted = false;
  Rounds rounds(groups[0], aborted);
  Call call = within(20ms);
  rounds.begin(call);
  rounds.arrive();
  expect_error(ErrorKind::timeout, {"rank 1 did not take part within 20 ms"}, [&] { rounds.await(call); });
  call.timeout = kPatience;
  rounds.begin(call);
  // Rank 1 may still come, but rank 2 will not.
  groups[2].reset();
  expect_error(ErrorKind::peer_lost, {"rank 2 has exited or left the group"}, [&] { rounds.await(call); });
  aborted = true;
  expect_error(ErrorKind::aborted, {"aborted"}, [&] { rounds.await(call); });
}

TEST_CASE("a rank that arrived and then left is not missing") {
  auto groups = meet_on_one_node(2);
  const std::atomic<bool> aborted = false;
  Rounds other(groups[1], aborted);
  other.arrive();
  groups[1].reset();
  Rounds rounds(groups[0], aborted);
  const Call call = within(kPatience);
  rounds.begin(call);
  rounds.arrive();
  rounds.await(call);
}
