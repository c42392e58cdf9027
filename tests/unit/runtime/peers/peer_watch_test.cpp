#include "runtime/peers/peer_watch.h"

#include <ddp/error.h>

#include "runtime/limits.h"
#include "support/catch.h"
#include "support/deadline.h"
#include "support/expect_error.h"
#include "support/made_page.h"
#include "support/node_groups.h"

using namespace ddp;
using namespace ddp::internal;
using namespace ddp::test;

TEST_CASE("a failed rank is found after a while and named") {
  const auto groups = meet_on_one_node(3);
  PeerWatch watch(groups[0]);
  PeerWatch of_rank_1(groups[0], Operation::recv, 1);
  watch.check();
  groups[2]->say_failed();
  expect_error(ErrorKind::peer_lost, {"rank 2 has exited or failed"}, [&] {
    const auto end = soon();
    while (std::chrono::steady_clock::now() < end) {
      of_rank_1.check();
      watch.check();
    }
  });
}

TEST_CASE("a rank that left is lost, except to ranks whose collectives it has completed") {
  auto groups = meet_on_one_node(2);
  const auto is_lost = [&](std::chrono::steady_clock::time_point end = soon()) {
    PeerWatch watch(groups[0]);
    try {
      while (std::chrono::steady_clock::now() < end) watch.check();
      return false;
    } catch (const Error& error) {
      return error.kind() == ErrorKind::peer_lost;
    }
  };
  NodeArea& other = groups[0]->area(1 - groups[0]->own());
  groups[1].reset();
  CHECK(is_lost());  // the rank has called nothing
  groups[0]->own_area().shown = 3;
  other.shown = 3;
  other.done = 2;
  CHECK(is_lost());  // the call was dropped
  other.done = 3;
  CHECK_FALSE(is_lost(std::chrono::steady_clock::now() + 2 * limits::kLeftPeerGrace));
}

TEST_CASE("a rank that died is lost, except to ranks whose operations it has completed") {
  auto groups = meet_on_one_node(2);
  const auto operation = GENERATE(Operation::all_reduce, Operation::send, Operation::recv);
  // Returns where a rank shows such operations to the other one.
  const auto show = [&](std::size_t rank, std::uint64_t called, std::uint64_t done) {
    if (operation == Operation::all_reduce) {
      groups[0]->area(rank).shown = called;
      groups[0]->area(rank).done = done;
      return;
    }
    const bool sends = (operation == Operation::send) == (rank == 0);
    NodeChannel& channel = groups[0]->channel(sends ? rank : 1 - rank, sends ? 1 - rank : rank);
    (sends ? channel.sends : channel.receives).called = called;
    (sends ? channel.sends : channel.receives).done = done;
  };
  const auto is_lost = [&](PeerWatch watch, std::chrono::steady_clock::duration within) {
    try {
      const auto end = std::chrono::steady_clock::now() + within;
      while (std::chrono::steady_clock::now() < end) watch.check();
      return false;
    } catch (const Error& error) {
      return error.kind() == ErrorKind::peer_lost;
    }
  };
  groups[1].reset();
  groups[0]->area(1).state = RankState::working;
  CHECK(is_lost({groups[0], operation, 1}, kPatience));  // this rank has called nothing, so it connects
  show(0, 3, 2);
  show(1, 3, 2);
  CHECK(is_lost({groups[0], operation, 1}, kPatience));
  show(1, 3, 3);
  CHECK_FALSE(is_lost({groups[0], operation, 1}, 10 * limits::kLostPeerGrace));
  CHECK(is_lost(PeerWatch(groups[0]), kPatience));  // a wait that needs the rank itself
}

TEST_CASE("a rank of another node is lost when the launcher reports it") {
  const MadePage made;
  const auto groups = meet_on_nodes(
      2, [](int rank) { return std::to_string(rank); }, made.map());
  made.layout->lost_rank = 1;
  expect_error(ErrorKind::peer_lost, {"ddplaunch reports that rank 1 of the job has failed"}, [&] {
    PeerWatch watch(groups[0]);
    for (const auto end = soon(); std::chrono::steady_clock::now() < end;) watch.check();
  });
}

TEST_CASE("without other ranks on this node there is nothing to poll") {
  PeerWatch alone(nullptr);
  CHECK_NOTHROW(alone.check());
}
