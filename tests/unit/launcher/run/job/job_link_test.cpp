#include "launcher/run/job/job_link.h"

#include <ddp/error.h>
#include <ddp/store.h>

#include <memory>
#include <optional>
#include <thread>

#include "support/catch.h"

using namespace ddp::launcher;
using namespace std::chrono_literals;

namespace {

LaunchPlan plan_of(int workers) {
  LaunchPlan plan;
  plan.workers = workers;
  plan.host_name = "a";
  return plan;
}

// Runs the part of a job of one node up to the start of its workers.
class OneNode {
 public:
  explicit OneNode(const LaunchPlan& plan) : plan_(plan) {
    JobLink::Callbacks callbacks;
    callbacks.report = [this](const LinkEvent& event) {
      const auto* start = std::get_if<StartAttempt>(&event);
      if (start == nullptr) return;
      place_ = start->place;
      loop_.stop();
    };
    auto nodes = JobLink::open(loop_, plan_, std::move(callbacks));
    if (!nodes) {
      failure_ = nodes.error().message;
      return;
    }
    nodes_ = std::move(nodes).value();
    loop_.run();
  }

  const std::string& failure() const { return failure_; }
  const Placement& place() const { return place_.value(); }

  // Sets a key and gets it as a client of the store.
  void is_reached_at(const std::string& address) {
    std::thread server([&] { loop_.run(); });
    {
      const auto store = ddp::connect_tcp_store(address, place().master_port, 10s);
      store->set("key", "value");
      CHECK(store->get("key") == "value");
    }
    loop_.stop();
    server.join();
  }

 private:
  const LaunchPlan plan_;
  ddp::net::EventLoop loop_;
  std::unique_ptr<JobLink> nodes_;
  std::optional<Placement> place_;
  std::string failure_;
};

}  // namespace

TEST_CASE("a job on one node has all ranks there and a store on the loopback address") {
  OneNode node(plan_of(3));
  REQUIRE(node.failure().empty());
  CHECK(node.place().node_count == 1);
  CHECK(node.place().first_rank == 0);
  CHECK(node.place().world_size == 3);
  CHECK(node.place().attempt == 0);
  CHECK(node.place().interface.empty());
  CHECK(node.place().node_name.empty());
  CHECK(node.place().master_addr == "127.0.0.1");
  REQUIRE(node.place().master_port != 0);
  node.is_reached_at("127.0.0.1");
}

TEST_CASE("two jobs at once hold different ports") {
  const OneNode first(plan_of(1));
  const OneNode second(plan_of(1));
  CHECK(first.place().master_port != second.place().master_port);
}

TEST_CASE("the store listens where the plan says, and workers get the advertised address") {
  LaunchPlan plan = plan_of(1);
  plan.store.advertised = "localhost";
  const OneNode free_port(plan);
  CHECK(free_port.place().master_addr == "localhost");

  // Another job requests the same port. The error states that it is taken, and how to find the process.
  plan.store.port = free_port.place().master_port;
  const OneNode taken(plan);
  CHECK_THAT(taken.failure(),
             Catch::Contains("Another process listens there; ss -ltnp shows it. --master-port=0 takes a free port."));
}

TEST_CASE("a host name of this node is resolved") {
  LaunchPlan plan = plan_of(1);
  plan.store.bind_address = plan.store.advertised = "localhost";
  CHECK(OneNode(plan).failure().empty());
}

TEST_CASE("an address of another node is an error that says what to do") {
  LaunchPlan plan = plan_of(1);
  plan.store.bind_address = "192.0.2.1";  // this address is reserved for documentation
  CHECK_THAT(OneNode(plan).failure(), Catch::Contains("must belong to this node (--local-addr)"));
}

TEST_CASE("a store on the IPv6 loopback address can be reached at it") {
  LaunchPlan plan = plan_of(1);
  plan.store.bind_address = plan.store.advertised = "::1";
  OneNode node(plan);
  if (!node.failure().empty()) {
    WARN("no IPv6 here: " + node.failure());
    return;
  }
  node.is_reached_at("::1");
}

TEST_CASE("workers are not pointed to a file that is not an image") {
  ddp::wire::CoordinatorBegins begins;
  begins.standing.history.job_began = 1000;
  begins.restore.step = 7;
  begins.restore.image = "image-900-0-step-7-of-2-parts";
  CHECK(placement_of(begins).restore == begins.restore);
  CHECK(placement_of(begins).job_began == 1000);
  for (const char* name : {"../image-900-0-step-7-of-2-parts", "image-900-0-step-7-of-2-parts/..", "/etc", "."}) {
    begins.restore.image = name;
    CHECK(placement_of(begins).restore == ddp::wire::RestorePlan{});
  }
}
