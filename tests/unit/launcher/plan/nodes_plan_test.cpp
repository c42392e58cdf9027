#include "launcher/plan/nodes_plan.h"

#include "support/catch.h"

using namespace ddp::launcher;
using namespace std::chrono_literals;

namespace {

Options two_nodes() {
  Options options;
  options.min_nodes = options.max_nodes = 2;
  options.rdzv_endpoint = "a:29400";
  return options;
}

std::string mistake(const Options& options, bool is_static = false) {
  const auto plan = plan_nodes(options, is_static);
  return plan ? "" : plan.error().message;
}

}  // namespace

TEST_CASE("a job has one node unless more are asked for") {
  const auto plan = plan_nodes({}, false);
  REQUIRE(plan);
  CHECK_FALSE(plan.value().several());
  Options options;
  options.node_rank = 1;
  CHECK(mistake(options) == "--node-rank=1, but the job has one node. Give --nnodes=N, the same on all nodes.");
}

TEST_CASE("nodes get their numbers when they meet or bring them") {
  Options options = two_nodes();
  CHECK_FALSE(plan_nodes(options, false).value().rank);
  options.node_rank = 1;
  CHECK(plan_nodes(options, false).value().rank == 1);
  // torchrun's dynamic backend does not look at it, its static one takes 0 where it is not said.
  options.compatibility_mode = CompatibilityMode::torchrun;
  CHECK_FALSE(plan_nodes(options, false).value().rank);
  options.node_rank.reset();
  CHECK(plan_nodes(options, true).value().rank == 0);
}

TEST_CASE("what does not fit together is told") {
  Options options = two_nodes();
  options.node_rank = 2;
  CHECK(mistake(options) == "--node-rank=2 is none of 2 nodes, which count from 0 (--nnodes).");
  options.node_rank = 0;
  options.min_nodes = 1;
  CHECK_THAT(mistake(options), Catch::Contains("--nnodes=1:2 and --node-rank=0 exclude one another"));
  options = two_nodes();
  options.standalone = true;
  CHECK_THAT(mistake(options), Catch::Contains("--standalone exclude one another"));
  options = two_nodes();
  options.rdzv_endpoint.clear();
  CHECK_THAT(mistake(options), Catch::Contains("--rdzv-endpoint=HOST:PORT, the same on all nodes"));
}

TEST_CASE("times come from the settings of the rendezvous") {
  Options options = two_nodes();
  CHECK(plan_nodes(options, false).value().join_timeout == 10min);
  CHECK(plan_nodes(options, false).value().last_call == 30s);
  options.rdzv_conf = {{"timeout", "60"}, {"last_call_timeout", "5"}};
  CHECK(plan_nodes(options, false).value().join_timeout == 60s);
  CHECK(plan_nodes(options, false).value().last_call == 5s);
  options.rdzv_conf["join_timeout"] = "20";
  CHECK(plan_nodes(options, false).value().join_timeout == 20s);
}
