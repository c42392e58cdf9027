#include "launcher/rendezvous/rendezvous.h"

#include <ddp/error.h>
#include <ddp/store.h>

#include <catch2/catch.hpp>

#include <thread>

using namespace ddp::launcher;
using namespace std::chrono_literals;

namespace {

LaunchPlan plan_of(int workers) {
  LaunchPlan plan;
  plan.workers = workers;
  return plan;
}

}  // namespace

TEST_CASE("one node gets all ranks and a store on the loopback address") {
  ddp::net::EventLoop loop;
  const auto rendezvous = Rendezvous::open(loop, plan_of(3), nullptr);
  REQUIRE(rendezvous.ok());
  const NodeAssignment& assignment = rendezvous.value()->assignment();
  CHECK(assignment.node_count == 1);
  CHECK(assignment.first_rank == 0);
  CHECK(assignment.world_size == 3);
  CHECK(assignment.master_addr == "127.0.0.1");
  REQUIRE(assignment.master_port != 0);

  std::thread server([&] { loop.run(); });
  {
    const auto store = ddp::connect_tcp_store(assignment.master_addr, assignment.master_port, 10s);
    store->set("key", "value");
    CHECK(store->get("key") == "value");
  }
  loop.stop();
  server.join();
}

TEST_CASE("two jobs at once have different ports and hold them") {
  ddp::net::EventLoop loop;
  const auto first = Rendezvous::open(loop, plan_of(1), nullptr);
  const auto second = Rendezvous::open(loop, plan_of(1), nullptr);
  REQUIRE(first.ok());
  REQUIRE(second.ok());
  CHECK(first.value()->assignment().master_port != second.value()->assignment().master_port);
}
