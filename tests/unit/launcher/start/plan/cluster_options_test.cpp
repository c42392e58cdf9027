#include "launcher/start/plan/cluster_options.h"

#include "support/catch.h"
#include "support/situation.h"

using namespace ddp::launcher;

namespace {

// Describes node 1 of 2 in a step of Slurm.
Situation in_slurm() {
  Situation situation;
  ClusterEnv cluster;
  cluster.scheduler = "Slurm";
  cluster.node_count = 2;
  cluster.node_rank = 1;
  cluster.hosts = {"n1", "n3"};
  cluster.job_id = "12.0";
  cluster.derived = "2 nodes (SLURM_NNODES), this is node 1 (SLURM_NODEID)";
  situation.facts.cluster = cluster;
  return situation;
}

Options derived(const Situation& situation) {
  auto options = with_cluster(situation.options, situation.facts);
  REQUIRE(options);
  return std::move(options).value();
}

}  // namespace

TEST_CASE("a scheduler job on several nodes needs no options") {
  const Options options = derived(in_slurm());
  CHECK(options.min_nodes == 2);
  CHECK(options.max_nodes == 2);
  CHECK(options.node_rank == 1);
  CHECK(options.master_addr == "n1");
  CHECK(options.master_port.value_or(0) >= 29400);
  CHECK(options.run_id == "12.0");
  CHECK(options.warnings == std::vector<std::string>{"Slurm: 2 nodes (SLURM_NNODES), this is node 1 (SLURM_NODEID)"});
  // The port is the same on all nodes, and differs for another step.
  CHECK(derived(in_slurm()).master_port == options.master_port);
  Situation next = in_slurm();
  next.facts.cluster->job_id = "12.1";
  CHECK(derived(next).master_port != options.master_port);
  CHECK(in_slurm().plan().nodes.rank == 1);
}

TEST_CASE("the user's options override the scheduler's") {
  Situation situation = in_slurm();
  situation.options.master_addr = "head";
  situation.options.master_port = 1234;
  situation.options.run_id = "mine";
  CHECK(derived(situation).master_addr == "head");
  CHECK(derived(situation).master_port == 1234);
  CHECK(derived(situation).run_id == "mine");
  situation.options.rdzv_endpoint = "head:29400";
  CHECK(derived(situation).rdzv_endpoint == "head:29400");
  const auto is_left_alone = [](void (*change)(Options&)) {
    Situation each = in_slurm();
    change(each.options);
    return derived(each) == each.options;
  };
  CHECK(is_left_alone([](Options& o) { o.scheduler = "none"; }));
  CHECK(is_left_alone([](Options& o) { o.standalone = true; }));
  CHECK(is_left_alone([](Options& o) { o.node_rank = 0; }));
  CHECK(is_left_alone([](Options& o) { o.min_nodes = o.max_nodes = 3; }));
  CHECK(is_left_alone([](Options& o) { o.compatibility_mode = CompatibilityMode::torchrun; }));
}

TEST_CASE("a scheduler job with one node or without a node rank adds no options") {
  Situation situation = in_slurm();
  situation.facts.cluster->node_count = 1;
  CHECK(derived(situation) == situation.options);
  situation.facts.cluster->node_count.reset();
  CHECK(derived(situation) == situation.options);
  situation.facts.cluster.reset();
  situation.facts.cluster_warnings = {"run under srun"};
  CHECK(derived(situation).warnings == situation.facts.cluster_warnings);
}

TEST_CASE("a scheduler that names no rendezvous address needs one from the user") {
  Situation situation = in_slurm();
  situation.facts.cluster->hosts.clear();
  CHECK_THAT(situation.failure().message, Catch::Contains("not the address of node 0. Give --master-addr=HOST"));
  situation.facts.cluster->master_addr = "head";
  situation.facts.cluster->master_port = 23456;
  CHECK(derived(situation).master_addr == "head");
  CHECK(derived(situation).master_port == 23456);
}

TEST_CASE("a user who gives only hosts is asked for the missing options") {
  Situation situation = in_slurm();
  situation.facts.cluster->scheduler = "PBS";
  CHECK(derived(situation).max_nodes == 1);
  CHECK_THAT(derived(situation).warnings.at(0), Catch::Contains("give --scheduler=pbs"));
  situation.options.scheduler = "pbs";
  CHECK(derived(situation).max_nodes == 2);
}

TEST_CASE("invalid scheduler variables are an error only if they would be used") {
  Situation situation;
  situation.facts.cluster_failure = "SLURM_NODEID=7 is not below SLURM_NNODES=2";
  CHECK(situation.failure().exit_code == 2);
  CHECK(situation.failure().message == situation.facts.cluster_failure);
  situation.options.scheduler = "none";
  CHECK(derived(situation).max_nodes == 1);
}

namespace {

// Describes a pod of an Indexed Job, which has a number but no count.
Situation in_pod(int index) {
  Situation situation;
  ClusterEnv cluster;
  cluster.scheduler = "Kubernetes";
  cluster.node_rank = index;
  cluster.derived = "this is node " + std::to_string(index) + " (JOB_COMPLETION_INDEX)";
  situation.facts.cluster = cluster;
  return situation;
}

}  // namespace

TEST_CASE("a pod's index is its node rank") {
  Situation situation = in_pod(1);
  CHECK(derived(situation) == situation.options);
  situation.options.min_nodes = situation.options.max_nodes = 2;
  situation.options.rdzv_endpoint = "job-0:29400";
  CHECK(derived(situation).node_rank == 1);
  CHECK(derived(situation).warnings ==
        std::vector<std::string>{"Kubernetes: this is node 1 (JOB_COMPLETION_INDEX) of 2 (--nnodes)"});
  CHECK(situation.plan().nodes.rank == 1);
  const auto stays = [&](void (*change)(Options&)) {
    Situation each = situation;
    change(each.options);
    return derived(each) == each.options;
  };
  CHECK(stays([](Options& o) { o.node_rank = 0; }));
  CHECK(stays([](Options& o) { o.scheduler = "none"; }));
  CHECK(stays([](Options& o) { o.min_nodes = 1; }));
  CHECK(stays([](Options& o) { o.compatibility_mode = CompatibilityMode::torchrun; }));
}

TEST_CASE("a pod's index beyond the number of nodes is an error") {
  Situation situation = in_pod(2);
  situation.options.min_nodes = situation.options.max_nodes = 2;
  situation.options.rdzv_endpoint = "job-0:29400";
  CHECK(situation.failure().message ==
        "Kubernetes: this is node 2 (JOB_COMPLETION_INDEX), which is not below --nnodes=2 (nodes count from 0). Give "
        "--nnodes=N with the number of all nodes, give --node-rank=R, or use --scheduler=none.");
}

TEST_CASE("a scheduler named by --scheduler must give the number of nodes") {
  Situation situation = in_pod(1);
  situation.options.scheduler = "kubernetes";
  CHECK(situation.failure().message ==
        "Kubernetes: this is node 1 (JOB_COMPLETION_INDEX), but the number of nodes is unknown. Give --nnodes=N, or "
        "use --scheduler=none to run on this node only.");
  situation.facts.cluster.reset();
  situation.facts.cluster_failure = "--scheduler=kubernetes: these variables are not set: JOB_COMPLETION_INDEX";
  situation.options.min_nodes = situation.options.max_nodes = 2;
  CHECK(situation.failure().message == situation.facts.cluster_failure);
}

TEST_CASE("a first pod whose master address is localhost advertises its own host name") {
  Situation situation = in_slurm();
  situation.facts.host_name = "train-master-0";
  situation.facts.cluster->hosts.clear();
  situation.facts.cluster->master_addr = "localhost";
  situation.facts.cluster->node_rank = 0;
  CHECK(derived(situation).master_addr == "train-master-0");
}
