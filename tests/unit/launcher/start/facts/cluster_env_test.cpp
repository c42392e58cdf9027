#include "launcher/start/facts/cluster_env.h"

#include <random>

#include "base/text.h"
#include "launcher/start/facts/host_list.h"
#include "support/catch.h"
#include "unit/launcher/start/facts/scheduler_fixtures.h"

using namespace ddp::launcher;
using namespace ddp::launcher::fixtures;

namespace {

std::string scheduler_of(const Lines& environment) {
  const std::string text = found(environment);
  return text.substr(0, text.find(':'));
}

Lines warnings(const Lines& environment) {
  return read_cluster_env(request(environment)).value().warnings;
}

}  // namespace

TEST_CASE("without a scheduler the cluster environment is empty") {
  CHECK(found({}) == "none");
  CHECK(found({"PATH=/bin", "RANK=0", "WORLD_SIZE=2", "LOCAL_RANK=0", "MASTER_ADDR=x", "PET_NNODES=2"}) == "none");
  CHECK(warnings({}).empty());
}

TEST_CASE("the option --scheduler=none ignores all scheduler variables, even invalid ones") {
  CHECK(found(kSlurm, "none") == "none");
  CHECK(found(with(kSlurm, {"SLURM_NODEID=x"}), "none") == "none");
}

TEST_CASE("the scheduler that started the process is detected in the order of the table") {
  // All of them say that this is node 1 of 2.
  const Lines index = {"JOB_COMPLETION_INDEX=1"};
  CHECK(scheduler_of(kSlurm + kFlux + kPals + kOpenMpi + kHydra + kJsm + kLsf + kPbs + index + kSageMaker) == "Slurm");
  CHECK(scheduler_of(kFlux + kPals + kOpenMpi + kHydra + kJsm + kLsf + kPbs + index + kSageMaker) == "Flux");
  CHECK(scheduler_of(kPals + kOpenMpi + kHydra + kJsm + kLsf + kPbs + index + kSageMaker) == "PALS");
  CHECK(scheduler_of(kOpenMpi + kHydra + kJsm + kLsf + kPbs + index + kSageMaker) == "Open MPI");
  CHECK(scheduler_of(kHydra + kJsm + kLsf + kPbs + index + kSageMaker) == "PMI");
  CHECK(scheduler_of(kJsm + kLsf + kPbs + index + kSageMaker) == "JSM");
  CHECK(scheduler_of(kLsf + kPbs + index + kSageMaker) == "LSF");
  CHECK(scheduler_of(kPbs + index + kSageMaker) == "PBS");
  CHECK(scheduler_of(index + kSageMaker) == "Kubernetes");
  CHECK(scheduler_of(kSageMaker) == "SageMaker");
}

TEST_CASE("a scheduler is detected only if all of its variables are set") {
  CHECK(scheduler_of(with(kSlurm, {"SLURM_PROCID="}) + kOpenMpi) == "Open MPI");
  CHECK(found({"OMPI_COMM_WORLD_RANK=0"}) == "none");
  CHECK(found({"PMI_SIZE=2"}) == "none");
}

TEST_CASE("the variables of an allocation do not contradict those of a process in it") {
  // These are two nodes of an allocation of four.
  CHECK(found(with(kOpenMpi, {"PBS_NODEFILE=/gone", "LSB_MCPU_HOSTS=a 1 b 1 c 1 d 1", "JOB_COMPLETION_INDEX=7"})) ==
        "Open MPI: 2 nodes, this is 1 (OMPI_COMM_WORLD_SIZE, OMPI_COMM_WORLD_RANK)");
  CHECK(warnings(kOpenMpi + kSlurmBatch).empty());
}

TEST_CASE("two contradicting schedulers are an error") {
  CHECK(found(with(kSlurm + kHydra, {"PMI_RANK=0"})) ==
        "refused: Slurm reports that this is node 1 of 2, but PMI reports node 0 of 2. Select the one that started "
        "ddplaunch: --scheduler=slurm or --scheduler=pmi.");
  CHECK(contains(found(with(kSlurm + kHydra, {"PMI_SIZE=4"})),
                 "Slurm reports that this is node 1 of 2, but PMI reports node 1 of 4"));
  CHECK(contains(found(with(kSlurm + kHydra, {"PMI_RANK=0"}), "pmi"), "PMI: 2 nodes, this is 0"));
  CHECK(contains(found(with(kSlurm + kHydra, {"PMI_RANK=x"}), "slurm"), "Slurm: 2 nodes, this is 1"));
}

TEST_CASE("mpirun within a Slurm job takes precedence over Slurm's step variables") {
  // On the first node, mpirun itself runs in the batch script. On the others, daemons run that it has started with
  // srun.
  const Lines first = with(kOpenMpi, {"OMPI_COMM_WORLD_RANK=0", "OMPI_COMM_WORLD_SIZE=3"}) + kSlurmBatch;
  CHECK(contains(found(first), "Open MPI: 3 nodes, this is 0"));
  CHECK(warnings(first).empty());
  const Lines second = with(kOpenMpi, {"OMPI_COMM_WORLD_SIZE=3"}) + with(kSlurm, {"SLURM_NODEID=0"});
  CHECK(contains(found(second), "Open MPI: 3 nodes, this is 1"));
  CHECK(warnings(second) ==
        Lines{"Slurm reports that this is node 0 of 2, but Open MPI reports node 1 of 3. ddplaunch uses Open MPI, "
              "because the other may have started its daemons. --scheduler overrides this"});
  CHECK(contains(found(second, "slurm"), "Slurm: 2 nodes, this is 0"));
  CHECK(contains(found(with(kFlux, {"PMI_RANK=0"})), "Flux: 2 nodes, this is 1"));
}

TEST_CASE("a node rank beyond the number of nodes is an error") {
  const std::string text = found(with(kSlurm, {"SLURM_NODEID=2"}));
  CHECK(text ==
        "refused: Slurm: SLURM_NODEID=2 is not below SLURM_STEP_NUM_NODES=2. Unset the wrong variable, set --nnodes "
        "and --node-rank, or use --scheduler=none.");
  CHECK(contains(found(with(kOpenMpi, {"OMPI_COMM_WORLD_RANK=2"})),
                 "OMPI_COMM_WORLD_RANK=2 is not below OMPI_COMM_WORLD_SIZE=2"));
  CHECK(contains(found(with(kHydra, {"PMI_RANK=5"})), "PMI_RANK=5 is not below PMI_SIZE=2"));
  CHECK(contains(found(with(kFlux, {"FLUX_TASK_RANK=2"})), "FLUX_TASK_RANK=2 is not below FLUX_JOB_NNODES=2"));
  CHECK(contains(found(with(kPbs, {"PBS_NODENUM=2"}), "auto", "x"),
                 "PBS_NODENUM=2 is not below the 2 hosts of PBS_NODEFILE"));
  CHECK(contains(found(with(kPyTorchJob, {"RANK=4"}), "kubernetes"), "PyTorchJob: RANK=4 is not below WORLD_SIZE=4"));
}

TEST_CASE("a host list whose length is not the number of nodes is an error") {
  CHECK(contains(found(with(kSlurm, {"SLURM_STEP_NODELIST=node[1-3]"})),
                 "refused: Slurm: SLURM_STEP_NUM_NODES=2, but SLURM_STEP_NODELIST=\"node[1-3]\" has 3 hosts. Unset"));
  CHECK(contains(found(with(kSlurm, {"SLURM_STEP_NODELIST=node1"})), "has 1 host."));
}

TEST_CASE("an invalid value of a needed variable is an error") {
  for (const std::string value : {"x", "-1", "99999999999999999999", "1 ", "0x1", "\x1b[2J"}) {
    for (const std::string name : {"SLURM_NODEID", "SLURM_STEP_NUM_NODES", "SLURM_GPUS_ON_NODE", "SLURM_STEP_ID"}) {
      const std::string text = found(with(kSlurm, {name + "=" + value}));
      CHECK(contains(text, "refused: Slurm: " + name + "=" + shown(value)));
      CHECK(contains(text, "is not a number from"));
      CHECK(contains(text, "--scheduler=none"));
    }
  }
  CHECK(contains(found(with(kSlurm, {"SLURM_STEP_NODELIST=n[3-1]"})),
                 "Slurm: SLURM_STEP_NODELIST: host \"n[3-1]\" has the range"));
  CHECK(contains(found(with(kSlurm, {"SLURM_STEP_NODELIST=n[0-999999999]"})), "expands to more than 65536 hosts"));
  CHECK(contains(found(with(kSlurm, {"SLURM_JOB_ID=1 2"})), "SLURM_JOB_ID=\"1 2\" is not a word"));
  CHECK(contains(found(with(kSlurm, {"SLURM_STEP_NUM_NODES=65537"})), "is not a number from 1 to 65536"));
}

TEST_CASE("a huge variable is shortened in messages") {
  const std::string huge(1'000'000, 'n');
  const std::string text = found(with(kSlurm, {"SLURM_NODEID=" + huge}));
  CHECK(text.size() < 400);
  std::string many = "node00000000";
  for (int i = 1; i < 5000; ++i) many += ",node0000" + std::to_string(1000 + i);
  const ClusterEnv big = cluster(with(kSlurm, {"SLURM_STEP_NODELIST=" + many, "SLURM_STEP_NUM_NODES=5000"}));
  CHECK(big.hosts.size() == 5000);
  CHECK(big.derived.size() < 300);
  CHECK(contains(big.derived, "… (SLURM_STEP_NODELIST)"));
}

TEST_CASE("the largest possible job of 65536 nodes is accepted") {
  const ClusterEnv big =
      cluster(with(kSlurm, {"SLURM_STEP_NODELIST=n[1-65536]", "SLURM_STEP_NUM_NODES=65536", "SLURM_NODEID=65535"}));
  CHECK(big.node_count == 65536);
  CHECK(big.node_rank == 65535);
  CHECK(big.hosts.size() == kHosts);
}

TEST_CASE("a scheduler named by --scheduler must have started the process") {
  CHECK(contains(found(kSlurm, "slurm"), "Slurm: 2 nodes, this is 1"));
  CHECK(contains(found(kSlurm + kHydra, "pmi"), "PMI: 2 nodes, this is 1"));
  CHECK(found(kSlurmBatch, "slurm") ==
        "refused: --scheduler=slurm: these variables are not set: SLURM_STEP_ID. Start it with \"srun "
        "--ntasks-per-node=1 ddplaunch "
        "…\", "
        "leave the option out, or use --scheduler=none.");
  CHECK(contains(found({}, "slurm"),
                 "--scheduler=slurm: these variables are not set: SLURM_STEP_ID and SLURM_PROCID. Start it with"));
  CHECK(contains(found({}, "openmpi"),
                 "these variables are not set: OMPI_COMM_WORLD_RANK and OMPI_COMM_WORLD_SIZE. Start it with"));
  CHECK(found({}, "lsf") ==
        "refused: --scheduler=lsf: these variables are not set: LSB_DJOB_HOSTFILE, or LSB_MCPU_HOSTS. Leave the option "
        "out, or "
        "use --scheduler=none.");
  CHECK(contains(found({"RANK=1"}, "kubernetes"),
                 "these variables are not set: JOB_COMPLETION_INDEX, or WORLD_SIZE. Leave"));
  for (const std::string& name : scheduler_names()) {
    if (name == "auto" || name == "none") continue;
    CHECK(contains(found({}, name), "refused: --scheduler=" + name + ": these variables are not set: "));
  }
}

TEST_CASE("only the scheduler named by --scheduler is read") {
  CHECK(contains(found(with(kSlurm, {"SLURM_NODEID=x"}) + kHydra, "pmi"), "PMI: 2 nodes"));
}

TEST_CASE("scheduler names are the values of --scheduler") {
  CHECK(scheduler_names() == Lines{"auto", "none", "slurm", "flux", "pals", "openmpi", "pmi", "jsm", "lsf", "pbs",
                                   "kubernetes", "sagemaker"});
}

TEST_CASE("random environments give consistent results or an error") {
  const auto seed = std::random_device{}();
  INFO("seed " << seed);
  std::mt19937 random(seed);
  const std::vector<Lines> all = {kSlurm, kSlurmBatch, kFlux, kPals,       kOpenMpi,    kHydra,
                                  kJsm,   kLsf,        kPbs,  kIndexedJob, kPyTorchJob, kSageMaker};
  const Lines values = {
      "",     "0",     "1",      "2", "3", "x", "a", "b", "n[1-2]", "1(x2)", "2(x2)", "4294967290", "[\"a\",\"b\"]",
      "/pbs", "/gone", "a 1 b 1"};
  const Lines schedulers = scheduler_names();
  for (int round = 0; round < 20'000; ++round) {
    Lines environment = all[random() % all.size()];
    if (random() % 2 == 0) environment = environment + all[random() % all.size()];
    for (auto changes = random() % 4; changes > 0; --changes) {
      std::string& line = environment[random() % environment.size()];
      line = line.substr(0, line.find('=') + 1) + values[random() % values.size()];
    }
    const auto finding =
        read_cluster_env(request(environment, random() % 2 == 0 ? "auto" : schedulers[random() % schedulers.size()]));
    if (!finding) {
      CHECK_FALSE(finding.error().message.empty());
      continue;
    }
    if (!finding.value().cluster) continue;
    const ClusterEnv& found = *finding.value().cluster;
    CHECK(found.node_rank >= 0);
    CHECK((!found.node_count || found.node_rank < *found.node_count));
    CHECK((found.hosts.empty() || static_cast<int>(found.hosts.size()) == found.node_count));
    CHECK(found.workers.value_or(1) >= 1);
    CHECK_FALSE(found.scheduler.empty());
    CHECK_FALSE(found.derived.empty());
  }
}
