#include "runtime/host/peer_watch.h"

#include <ddp/error.h>

#include <catch2/catch.hpp>

#include "support/deadline.h"
#include "support/expect_error.h"
#include "support/host_groups.h"

using namespace ddp;
using namespace ddp::test;

TEST_CASE("a rank that failed is found after a while and named") {
  const auto groups = meet_on_one_host(3);
  PeerWatch watch(groups[0]);
  PeerWatch of_rank_1(groups[0], 1);
  watch.look();
  groups[2]->say_failed();
  expect_error(ErrorKind::peer_lost, {"rank 2 has ended or failed"}, [&] {
    const auto end = soon();
    while (std::chrono::steady_clock::now() < end) {
      of_rank_1.look();
      watch.look();
    }
  });
}

TEST_CASE("without other ranks on this machine there is nothing to look at") {
  PeerWatch alone(nullptr);
  CHECK_NOTHROW(alone.look());
}
