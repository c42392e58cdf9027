#include "launcher/job/quarantined_nodes.h"

#include "support/catch.h"
#include "support/coordinator_job.h"

using namespace ddp;
using namespace ddp::launcher;
using namespace std::chrono_literals;

TEST_CASE("a host that is lost again and again waits longer and longer") {
  const QuarantinedNodes::TimePoint start{1h};
  QuarantinedNodes hosts;
  CHECK(hosts.may_return("b") < start);
  hosts.was_lost("b", start);
  CHECK(hosts.may_return("b") < start);
  hosts.was_lost("b", start + 1min);
  CHECK(hosts.may_return("b") == start + 1min + 30s);
  hosts.was_lost("b", start + 2min);
  CHECK(hosts.may_return("b") == start + 3min);
  for (int i = 0; i < 20; ++i) hosts.was_lost("b", start + 3min);
  CHECK(hosts.may_return("b") == start + 13min);
  CHECK(hosts.may_return("c") < start);
  hosts.was_lost("b", start + 2h);
  CHECK(hosts.may_return("b") < start);
}

TEST_CASE("a job goes on without a host that flaps and with it when its time is over") {
  CoordinatorOptions options;
  options.min_nodes = 1;
  options.max_nodes = 2;
  options.last_call = 1s;
  options.max_restarts = 20;
  CoordinatorJob job(options);
  // Lost twice, while another node keeps the coordinator's company.
  for (NodeId id = 7; id < 9; ++id) {
    job.comes(id, node("b")).loses(id).says(kOwnNode, wire::NodeEnded{static_cast<int>(id) - 7});
    job.passes(300ms);
  }
  job.comes(9, node("b")).passes(2s, {9});
  CHECK(job.to<wire::CoordinatorBegins>(9).empty());
  REQUIRE(job.to<wire::CoordinatorBegins>(kOwnNode).back().world_size == 2);
  REQUIRE_FALSE(job.to<wire::CoordinatorWaits>(9).empty());
  CHECK_THAT(job.to<wire::CoordinatorWaits>(9)[0].text, Catch::StartsWith("this host was lost again and again"));
  job.passes(40s, {9}).says(kOwnNode, wire::NodeFailed{2, failure("rank 0: exit code 3")});
  job.says(kOwnNode, wire::NodeEnded{2}).passes(2s, {9});
  CHECK(job.to<wire::CoordinatorBegins>(9).size() == 1);
}

TEST_CASE("a job that needs a host that flaps waits for it") {
  CoordinatorOptions options;
  options.max_restarts = 20;
  options.join_timeout = 300s;
  CoordinatorJob job(options);
  for (NodeId id = 7; id < 9; ++id) {
    job.comes(id, node("b")).loses(id).says(kOwnNode, wire::NodeEnded{static_cast<int>(id) - 7}).passes(300ms);
  }
  job.comes(9, node("b")).passes(20s, {9});
  CHECK(job.to<wire::CoordinatorBegins>(9).empty());
  job.passes(15s, {9});
  CHECK(job.to<wire::CoordinatorBegins>(9).size() == 1);
}
