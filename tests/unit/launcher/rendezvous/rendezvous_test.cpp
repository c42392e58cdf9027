#include "launcher/rendezvous/rendezvous.h"

#include <ddp/error.h>
#include <ddp/store.h>

#include <catch2/catch.hpp>

#include <thread>

using namespace ddp::launcher;
using namespace std::chrono_literals;

namespace {

void ignore(const std::string&) {}

LaunchPlan plan_of(int workers) {
  LaunchPlan plan;
  plan.workers = workers;
  return plan;
}

}  // namespace

TEST_CASE("one node gets all ranks and a store on the loopback address") {
  ddp::net::EventLoop loop;
  const auto rendezvous = Rendezvous::open(loop, plan_of(3), ignore);
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
  const auto first = Rendezvous::open(loop, plan_of(1), ignore);
  const auto second = Rendezvous::open(loop, plan_of(1), ignore);
  REQUIRE(first.ok());
  REQUIRE(second.ok());
  CHECK(first.value()->assignment().master_port != second.value()->assignment().master_port);
}

TEST_CASE("the store listens where the plan says and workers are told the advertised address") {
  ddp::net::EventLoop loop;
  LaunchPlan plan = plan_of(1);
  plan.store.advertised = "localhost";
  const auto free_port = Rendezvous::open(loop, plan, ignore);
  REQUIRE(free_port.ok());
  CHECK(free_port.value()->assignment().master_addr == "localhost");

  // Another job wants the same port: it is taken, and the message says by whom it may be.
  plan.store.port = free_port.value()->assignment().master_port;
  const auto taken = Rendezvous::open(loop, plan, ignore);
  REQUIRE_FALSE(taken.ok());
  CHECK(taken.error().message.find(
            "Another process listens there: ss -ltnp shows it. --master-port=0 takes a free port.") !=
        std::string::npos);
}

TEST_CASE("a name of this machine is looked up") {
  ddp::net::EventLoop loop;
  LaunchPlan plan = plan_of(1);
  plan.store.bind_address = plan.store.advertised = "localhost";
  CHECK(Rendezvous::open(loop, plan, ignore).ok());
}

TEST_CASE("an address that is not ours is an error that says what to do") {
  ddp::net::EventLoop loop;
  LaunchPlan plan = plan_of(1);
  plan.store.bind_address = "192.0.2.1";  // reserved for documentation
  const auto rendezvous = Rendezvous::open(loop, plan, ignore);
  REQUIRE_FALSE(rendezvous.ok());
  CHECK(rendezvous.error().message.find("must belong to this machine (--local-addr)") != std::string::npos);
}

TEST_CASE("a store on the IPv6 loopback address is reached by it") {
  ddp::net::EventLoop loop;
  LaunchPlan plan = plan_of(1);
  plan.store.bind_address = plan.store.advertised = "::1";
  const auto rendezvous = Rendezvous::open(loop, plan, ignore);
  if (!rendezvous) {
    WARN("no IPv6 here: " + rendezvous.error().message);
    return;
  }
  std::thread server([&] { loop.run(); });
  {
    const auto store = ddp::connect_tcp_store("::1", rendezvous.value()->assignment().master_port, 10s);
    store->set("key", "value");
    CHECK(store->get("key") == "value");
  }
  loop.stop();
  server.join();
}
