#include "launcher/start/plan/rendezvous_plan.h"

#include "support/catch.h"
#include "support/fake_authenticator.h"
#include "support/situation.h"

using namespace ddp::launcher;
using namespace std::chrono_literals;

namespace {

// Returns "advertised port bind_address run_id", or the refusal.
std::string planned(const Situation& situation) {
  const auto result = plan_rendezvous(situation.options, situation.facts);
  if (!result) return std::to_string(result.error().exit_code) + " " + result.error().message;
  const StorePlan& store = result.value().store;
  const std::string& id = result.value().run_id;
  const std::string name = id == situation.facts.random_id ? "random" : id == situation.facts.random_uuid ? "uuid" : id;
  return store.advertised + " " + std::to_string(store.port) + " " + store.bind_address + " " + name;
}

std::string with(CompatibilityMode mode, void (*change)(Options&)) {
  Situation situation;
  situation.options.compatibility_mode = mode;
  change(situation.options);
  return planned(situation);
}

std::string native(void (*change)(Options&)) {
  return with(CompatibilityMode::native, change);
}
std::string torch(void (*change)(Options&)) {
  return with(CompatibilityMode::torchrun, change);
}

std::vector<std::string> notes(const Situation& situation) {
  return plan_rendezvous(situation.options, situation.facts).value().notes;
}

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

TEST_CASE("the store is on the loopback address and a free port by default") {
  CHECK(native([](Options&) {}) == "127.0.0.1 0 127.0.0.1 random");
  CHECK(native([](Options& o) { o.run_id = "me"; }) == "127.0.0.1 0 127.0.0.1 me");
}

TEST_CASE("under the name torchrun a job without port, endpoint and backend is standalone") {
  CHECK(torch([](Options&) {}) == "localhost 0 127.0.0.1 uuid");
  CHECK(with(CompatibilityMode::torch_launch, [](Options&) {}) == "localhost 0 127.0.0.1 uuid");
  CHECK(torch([](Options& o) { o.run_id = "me"; }) == "localhost 0 127.0.0.1 me");
  CHECK(torch([](Options& o) { o.master_addr = "10.0.0.1"; }) == "10.0.0.1 0 10.0.0.1 uuid");
}

TEST_CASE("the option --standalone overrides other rendezvous options with a note") {
  Situation situation;
  situation.options.standalone = true;
  CHECK(planned(situation) == "localhost 0 127.0.0.1 uuid");
  situation.options.run_id = "me";
  CHECK(planned(situation) == "localhost 0 127.0.0.1 me");
  CHECK(notes(situation).empty());
  situation.options.compatibility_mode = CompatibilityMode::torchrun;
  situation.options.rdzv_endpoint = "a:1";
  CHECK(planned(situation) == "localhost 0 127.0.0.1 uuid");
  CHECK(mentions(notes(situation), "--rdzv-endpoint, --master-addr and --master-port have no effect"));
  CHECK(mentions(notes(situation), "--rdzv-id has no effect"));
}

TEST_CASE("an endpoint gives address and port") {
  CHECK(native([](Options& o) { o.rdzv_endpoint = "127.0.0.1:4000"; }) == "127.0.0.1 4000 127.0.0.1 random");
  CHECK(native([](Options& o) { o.rdzv_endpoint = "localhost:0"; }) == "localhost 0 127.0.0.1 random");
  CHECK(native([](Options& o) { o.rdzv_endpoint = "[::1]:4000"; }) == "::1 4000 ::1 random");
  CHECK(native([](Options& o) { o.rdzv_endpoint = "node0:4000"; }) == "node0 4000 node0 random");
  CHECK(torch([](Options& o) { o.rdzv_endpoint = "node0:4000"; }) == "node0 4000 node0 none");
}

TEST_CASE("an endpoint without a port uses torchrun's port unless the backend is static") {
  CHECK(native([](Options& o) { o.rdzv_endpoint = "[::1]"; }) == "::1 29400 ::1 random");
  CHECK(torch([](Options& o) { o.rdzv_endpoint = "localhost", o.rdzv_backend = RdzvBackend::c10d; }) ==
        "localhost 29400 127.0.0.1 none");
  const std::string refusal =
      "2 --rdzv-endpoint=node0 has no port. Use --rdzv-endpoint=node0:29500, or port 0 for a free one.";
  CHECK(torch([](Options& o) { o.rdzv_endpoint = "node0"; }) == refusal);
  CHECK(native([](Options& o) { o.rdzv_endpoint = "node0", o.rdzv_backend = RdzvBackend::static_; }) == refusal);
}

TEST_CASE("an invalid address is rejected") {
  for (const char* endpoint :
       {":4000", "::1", "::1:4000", "[::1", "[]:1", "a:", "a:x", "a:65536", "[::1]4000", "a:-1"}) {
    Situation situation;
    situation.options.rdzv_endpoint = endpoint;
    CHECK(planned(situation) == std::string("2 --rdzv-endpoint=") + endpoint +
                                    " is not an address. Use host:port, or [address]:port for IPv6.");
  }
}

TEST_CASE("master address and port are used if no endpoint is given") {
  CHECK(native([](Options& o) { o.master_addr = "10.0.0.1", o.master_port = 4000; }) ==
        "10.0.0.1 4000 10.0.0.1 random");
  CHECK(torch([](Options& o) { o.master_port = 4000; }) == "127.0.0.1 4000 127.0.0.1 none");
  CHECK(torch([](Options& o) { o.master_port = 0; }) == "127.0.0.1 0 127.0.0.1 none");
  Situation both;
  both.options.rdzv_endpoint = "localhost:1";
  both.options.master_port = 2;
  CHECK(planned(both) == "localhost 1 127.0.0.1 random");
  CHECK(mentions(notes(both), "--master-addr and --master-port have no effect together with --rdzv-endpoint"));
}

TEST_CASE("the static backend uses torchrun's fixed port only under the name torchrun") {
  CHECK(torch([](Options& o) { o.rdzv_backend = RdzvBackend::static_; }) == "127.0.0.1 29500 127.0.0.1 none");
  CHECK(native([](Options& o) { o.rdzv_backend = RdzvBackend::static_; }) == "127.0.0.1 0 127.0.0.1 random");
  CHECK(torch([](Options& o) { o.rdzv_backend = RdzvBackend::c10d; }) == "localhost 0 127.0.0.1 none");
}

TEST_CASE("the local address is advertised") {
  CHECK(native([](Options& o) { o.local_addr = "10.1.1.1"; }) == "10.1.1.1 0 10.1.1.1 random");
  CHECK(torch([](Options& o) { o.local_addr = "10.1.1.1"; }) == "10.1.1.1 0 10.1.1.1 uuid");
  CHECK(torch([](Options& o) {
          o.local_addr = "10.1.1.1", o.standalone = true, o.rdzv_backend = RdzvBackend::static_;
        }) == "10.1.1.1 0 10.1.1.1 uuid");
  CHECK(torch([](Options& o) {
          o.local_addr = "10.1.1.1", o.rdzv_endpoint = "node0:4000", o.rdzv_backend = RdzvBackend::c10d;
        }) == "10.1.1.1 4000 10.1.1.1 none");
}

TEST_CASE("the static backend ignores the local address with a note") {
  CHECK(torch([](Options& o) { o.local_addr = "10.1.1.1", o.rdzv_endpoint = "node0:4000"; }) ==
        "node0 4000 node0 none");
  CHECK(torch([](Options& o) { o.local_addr = "10.1.1.1", o.master_addr = "node0", o.master_port = 4000; }) ==
        "node0 4000 node0 none");
  Situation situation;
  situation.options.local_addr = "10.1.1.1";
  CHECK(notes(situation).empty());
  situation.options.rdzv_backend = RdzvBackend::static_;
  CHECK(planned(situation) == "127.0.0.1 0 127.0.0.1 random");
  CHECK(mentions(notes(situation), "--local-addr has no effect with the static backend"));
}

TEST_CASE("several nodes meet at an endpoint that all of them know") {
  const auto two = [](Options& o) { o.min_nodes = o.max_nodes = 2; };
  CHECK(native(two).starts_with("2 --nnodes=2 needs an address where the nodes meet."));
  CHECK(native([](Options& o) { o.max_nodes = 2, o.rdzv_endpoint = "a"; }) == "a 29400 a none");
  // A node's own address is not a place where nodes meet.
  CHECK(native([](Options& o) { o.max_nodes = 2, o.rdzv_endpoint = "a", o.local_addr = "b"; }) == "a 29400 a none");
  Situation alone;
  alone.options.rdzv_conf = {{"join_timeout", "3"}, {"is_host", "1"}};
  CHECK(mentions(notes(alone), "--rdzv-conf join_timeout=3 has no effect: there are no other nodes"));
  alone.options.max_nodes = 2;
  alone.options.rdzv_endpoint = "a";
  CHECK_FALSE(mentions(notes(alone), "--rdzv-conf"));
  CHECK(native([](Options& o) { o.max_nodes = 2, o.master_addr = "10.0.0.1"; }) == "10.0.0.1 29500 10.0.0.1 none");
  CHECK(torch([](Options& o) { o.max_nodes = 2, o.min_nodes = 2, o.master_addr = "a"; }) == "a 29500 a none");
  CHECK(native([](Options& o) { o.max_nodes = 2, o.rdzv_endpoint = "a:0"; }).starts_with("2 --nnodes=1:2: all nodes "));
  CHECK(native([](Options& o) { o.node_rank = 0; }) == "127.0.0.1 0 127.0.0.1 random");
}

TEST_CASE("a job has one node by default") {
  const auto plan = plan_nodes({}, false);
  REQUIRE(plan);
  CHECK_FALSE(plan.value().several());
  Options options;
  options.node_rank = 1;
  CHECK(mistake(options) == "--node-rank=1, but the job has one node. Give --nnodes=N, the same on all nodes.");
}

TEST_CASE("nodes get their ranks at the rendezvous or from --node-rank") {
  Options options = two_nodes();
  CHECK_FALSE(plan_nodes(options, false).value().rank);
  options.node_rank = 1;
  CHECK(plan_nodes(options, false).value().rank == 1);
  // torchrun's dynamic backend ignores it. Its static backend takes 0 if it is not given.
  options.compatibility_mode = CompatibilityMode::torchrun;
  CHECK_FALSE(plan_nodes(options, false).value().rank);
  options.node_rank.reset();
  CHECK(plan_nodes(options, true).value().rank == 0);
}

TEST_CASE("torchrun's dynamic backend numbers the nodes and ignores --node-rank") {
  for (const CompatibilityMode mode : {CompatibilityMode::native, CompatibilityMode::torchrun}) {
    Situation situation;
    situation.mode(mode).options.min_nodes = situation.options.max_nodes = 2;
    situation.options.node_rank = 0;
    situation.options.rdzv_endpoint = "a:1";
    const bool is_native = mode == CompatibilityMode::native;
    CHECK(situation.plan().nodes.rank == std::optional(0));
    situation.options.rdzv_backend = RdzvBackend::c10d;
    CHECK_FALSE(situation.plan().nodes.rank);
    CHECK(mentions(situation.plan().notes, "--node-rank=0 has no effect with --rdzv-backend=c10d"));
    // A place without an endpoint is not torchrun's, and --hosts uses such numbers.
    situation.options.rdzv_endpoint.clear();
    situation.options.master_addr = "a";
    if (is_native) CHECK(situation.plan().nodes.rank == 0);
    CHECK_FALSE(mentions(situation.plan().notes, "--node-rank"));
  }
}

TEST_CASE("contradicting rendezvous options are reported") {
  Options options = two_nodes();
  options.node_rank = 2;
  CHECK(mistake(options) == "--node-rank=2 is not below the number of nodes, 2 (--nnodes).");
  options.node_rank = 0;
  options.min_nodes = 1;
  CHECK_THAT(mistake(options), Catch::Contains("--nnodes=1:2 and --node-rank=0 cannot be combined"));
  options = two_nodes();
  options.standalone = true;
  CHECK_THAT(mistake(options), Catch::Contains("--standalone cannot be combined"));
  options = two_nodes();
  options.rdzv_endpoint.clear();
  CHECK_THAT(mistake(options), Catch::Contains("--rdzv-endpoint=HOST:PORT, the same on all nodes"));
}

TEST_CASE("timeouts come from the rendezvous settings") {
  Options options = two_nodes();
  CHECK(plan_nodes(options, false).value().join_timeout == 10min);
  CHECK(plan_nodes(options, false).value().last_call == 30s);
  options.rdzv_conf = {{"timeout", "60"}, {"last_call_timeout", "5"}};
  CHECK(plan_nodes(options, false).value().join_timeout == 60s);
  CHECK(plan_nodes(options, false).value().last_call == 5s);
  options.rdzv_conf["join_timeout"] = "20";
  CHECK(plan_nodes(options, false).value().join_timeout == 20s);
  options.rdzv_conf = {{"timeout", "15m"}, {"last_call_timeout", "0.5"}};
  CHECK(plan_nodes(options, false).value().join_timeout == 15min);
  CHECK(plan_nodes(options, false).value().last_call == 500ms);
}

TEST_CASE("a witness is used if two nodes may have to decide about the coordinator") {
  Situation situation;
  situation.options.witness = "/w";
  CHECK(mentions(notes(situation), "--witness=/w has no effect: there are no other nodes"));
  situation.options.max_nodes = 4;
  situation.options.rdzv_endpoint = "a";
  CHECK(mentions(notes(situation), "it is never restarted (--max-restarts)"));
  CHECK(situation.plan().nodes.witness.empty());
  situation.options.max_restarts = 1;
  CHECK_FALSE(mentions(notes(situation), "--witness"));
  CHECK(situation.plan().nodes.witness == "/w");
  situation.options.min_nodes = 3;
  CHECK(mentions(notes(situation), "the job never has fewer than 3 nodes, and most of them decide"));
  situation.options.min_nodes = situation.options.max_nodes = 2;
  CHECK(situation.plan().nodes.witness == "/w");
  situation.options.node_rank = 0;
  CHECK(mentions(notes(situation), "the nodes have numbers (--node-rank)"));
  CHECK(situation.plan().nodes.witness.empty());
}
