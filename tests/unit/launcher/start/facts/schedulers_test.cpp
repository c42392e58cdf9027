#include "launcher/start/facts/schedulers.h"

#include <set>

#include "support/catch.h"
#include "unit/launcher/start/facts/scheduler_fixtures.h"

using namespace ddp::launcher;
using namespace ddp::launcher::fixtures;

TEST_CASE("the second of two srun tasks is recognised") {
  const ClusterEnv slurm = cluster(kSlurm);
  CHECK(slurm.scheduler == "Slurm");
  CHECK(slurm.node_count == 2);
  CHECK(slurm.node_rank == 1);
  CHECK(slurm.workers == 2);
  CHECK(slurm.hosts == Lines{"node1", "node3"});
  CHECK(slurm.job_id == "12.0");
  CHECK_FALSE(slurm.master_addr);
  CHECK(slurm.derived ==
        "2 nodes, this is 1 (SLURM_STEP_NUM_NODES, SLURM_NODEID), hosts node[1,3] (SLURM_STEP_NODELIST), 2 workers "
        "(SLURM_GPUS_ON_NODE)");
}

TEST_CASE("a Slurm step may be smaller than its job") {
  const ClusterEnv step = cluster(with(kSlurm, {"SLURM_JOB_NODELIST=node[1-8]", "SLURM_NODELIST=node[1-8]",
                                                "SLURM_JOB_NUM_NODES=8", "SLURM_NNODES=8", "SLURM_STEP_ID=3"}));
  CHECK(step.node_count == 2);
  CHECK(step.hosts.size() == 2);
  CHECK(step.job_id == "12.3");
}

TEST_CASE("Slurm without step variables is read from the job's variables") {
  const ClusterEnv old = cluster({"SLURM_STEP_ID=0", "SLURM_PROCID=1", "SLURM_JOBID=12", "SLURM_NNODES=2",
                                  "SLURM_NTASKS=2", "SLURM_NODELIST=n[1-2]"});
  CHECK(old.node_count == 2);
  CHECK(old.node_rank == 1);
  CHECK(old.hosts == Lines{"n1", "n2"});
  CHECK(old.job_id == "12.0");
  CHECK_FALSE(old.workers);
}

TEST_CASE("a Slurm job on one node is one node, also within a container") {
  const Lines stale = {"SLURM_JOB_ID=12", "SLURM_STEP_ID=0", "SLURM_PROCID=0", "SLURM_NNODES=1"};
  CHECK(found(stale) == "Slurm: 1 node, this is 0 (SLURM_NNODES, SLURM_PROCID)");
}

TEST_CASE("several launchers on one Slurm node are an error") {
  const std::string remedy = "Start one on each node: srun --ntasks-per-node=1 ddplaunch …";
  for (const std::string tasks : {"2(x2)", "1,2", "1(x3),4(x2)", "8"}) {
    const std::string text = found(with(kSlurm, {"SLURM_STEP_TASKS_PER_NODE=" + tasks}));
    CHECK(contains(text, "refused: Slurm: SLURM_STEP_TASKS_PER_NODE=\"" + tasks + "\" shows that a node has several"));
    CHECK(contains(text, remedy));
  }
  const Lines old = with(kSlurm, {"SLURM_STEP_TASKS_PER_NODE=", "SLURM_STEP_NUM_TASKS="});
  CHECK(contains(found(with(old, {"SLURM_NTASKS=4"})), "SLURM_NTASKS=4 on SLURM_STEP_NUM_NODES=2 shows that"));
  CHECK(contains(found(with(old, {"SLURM_NTASKS_PER_NODE=2"})), "SLURM_NTASKS_PER_NODE=\"2\" shows that"));
  CHECK(contains(found(with(kSlurm, {"SLURM_STEP_TASKS_PER_NODE=x"})), "is not a list of numbers of tasks"));
}

TEST_CASE("the step's variables override what the job script requested") {
  CHECK(contains(found(with(kSlurm, {"SLURM_NTASKS_PER_NODE=8", "SLURM_TASKS_PER_NODE=8(x2)"})), "Slurm: 2 nodes"));
}

TEST_CASE("the shell of salloc is not a srun step") {
  for (const std::string step : {"4294967290", "4294967291", "4294967292", "4294967294"}) {
    const Lines shell = with(kSlurm, {"SLURM_STEP_ID=" + step, "SLURM_STEP_NUM_NODES=1"});
    CHECK(found(shell) == "none");
    CHECK(
        contains(found(shell, "slurm"), "--scheduler=slurm: SLURM_STEP_ID=" + step + " belongs to a shell or a batch"));
    CHECK(contains(read_cluster_env(request(shell)).value().warnings.at(0), "this Slurm job has 2 nodes"));
  }
}

TEST_CASE("a batch script on several nodes without srun gives a warning") {
  const auto finding = read_cluster_env(request(kSlurmBatch));
  REQUIRE(finding.ok());
  CHECK_FALSE(finding.value().cluster);
  CHECK(finding.value().warnings ==
        Lines{"this Slurm job has 3 nodes, but srun did not start ddplaunch, which therefore runs on this node only. "
              "To run on all of them: srun --ntasks-per-node=1 ddplaunch …"});
}

TEST_CASE("a batch script on one node, or with invalid variables, gives no warning") {
  CHECK(read_cluster_env(request(with(kSlurmBatch, {"SLURM_NNODES=1"}))).value().warnings.empty());
  CHECK(read_cluster_env(request(with(kSlurmBatch, {"SLURM_NNODES=x"}))).value().warnings.empty());
  CHECK(read_cluster_env(request(with(kSlurmBatch, {"SLURM_JOB_ID="}))).value().warnings.empty());
  CHECK(read_cluster_env(request(kSlurmBatch, "none")).value().warnings.empty());
}

TEST_CASE("a step of all components of a heterogeneous job covers all of their nodes") {
  CHECK(found(kSlurmHet) ==
        "Slurm: 3 nodes, this is 2 (SLURM_STEP_NUM_NODES, SLURM_NODEID), hosts node[1-3] (SLURM_STEP_NODELIST)");
  CHECK(read_cluster_env(request(kSlurmHet)).value().warnings.empty());
}

TEST_CASE("a step that leaves out components of a heterogeneous job gives a warning") {
  const auto warnings = [](const Lines& lines) { return read_cluster_env(request(lines)).value().warnings; };
  CHECK(warnings(kSlurmHetFirst) == Lines{"this Slurm job has 3 nodes in 2 components (SLURM_HET_SIZE), of which this "
                                          "step has 1. To run on all of them: srun "
                                          "--het-group=0-1 --ntasks-per-node=1 ddplaunch …"});
  CHECK(warnings(kSlurmHetBatch) ==
        Lines{"this Slurm job has 2 components, but srun did not start ddplaunch, which therefore runs on this node "
              "only. To run on all of them: srun --het-group=0-1 --ntasks-per-node=1 ddplaunch …"});
  CHECK(warnings(with(kSlurmHetFirst, {"SLURM_HET_SIZE="})).empty());
  CHECK(contains(found(with(kSlurmHet, {"SLURM_HET_SIZE=x"})), "SLURM_HET_SIZE=\"x\" is not a number"));
}

TEST_CASE("one of several pods without --scheduler gives a warning") {
  const auto warnings = [](const Lines& lines) { return read_cluster_env(request(lines)).value().warnings; };
  const Lines pod = with(kPyTorchJob, {"KUBERNETES_SERVICE_HOST=10.0.0.1"});
  CHECK(warnings(pod) == Lines{"RANK and WORLD_SIZE=4 may count pods, but this job runs in this pod only. To run one "
                               "job in all pods, use --scheduler=kubernetes"});
  CHECK(warnings(kPyTorchJob).empty());
  // A rank of another launcher in a pod, and a job of one pod, cause no warning.
  CHECK(warnings(with(pod, {"LOCAL_RANK=0"})).empty());
  CHECK(warnings(with(pod, {"WORLD_SIZE=1"})).empty());
  CHECK(warnings(with(pod, {"JOB_COMPLETION_INDEX=1"})).empty());
}

TEST_CASE("a Flux job is recognised") {
  CHECK(found(kFlux) == "Flux: 2 nodes, this is 1 (FLUX_JOB_NNODES, FLUX_TASK_RANK)");
  CHECK(cluster(kFlux).job_id == "3ETxsR9H");
  CHECK(contains(found(with(kFlux, {"FLUX_JOB_SIZE=4"})), "Flux: FLUX_JOB_SIZE=\"4\" shows that a node has several"));
  CHECK(contains(found(with(kFlux, {"FLUX_TASK_LOCAL_ID=1"})), "flux run -N NODES --tasks-per-node=1 ddplaunch"));
}

TEST_CASE("a PALS job is recognised") {
  CHECK(found(kPals) == "PALS: 2 nodes, this is 1 (PMI_SIZE, PALS_NODEID)");
  CHECK(cluster(kPals).job_id == "8f0c-11");
  CHECK(contains(found(with(kPals, {"PALS_RANKID=3"})), "PALS: PALS_RANKID=\"3\" shows that a node has several"));
  CHECK(contains(found(with(kPals, {"PALS_LOCAL_SIZE=2"})), "Start one on each node: mpiexec --ppn 1"));
  CHECK(found(with(kPals, {"PMI_RANK=", "PMI_SIZE="})) == "PALS: this is node 1 (PALS_NODEID)");
}

TEST_CASE("the second of two mpirun processes is recognised") {
  const ClusterEnv mpi = cluster(kOpenMpi);
  CHECK(mpi.scheduler == "Open MPI");
  CHECK(mpi.derived == "2 nodes, this is 1 (OMPI_COMM_WORLD_SIZE, OMPI_COMM_WORLD_RANK)");
  CHECK(mpi.hosts.empty());
  CHECK_FALSE(mpi.workers);
  CHECK(mpi.job_id == "287965185");
  CHECK(contains(found(with(kOpenMpi, {"OMPI_COMM_WORLD_LOCAL_SIZE=2"})),
                 "Open MPI: OMPI_COMM_WORLD_LOCAL_SIZE=\"2\" shows that a node has several tasks"));
  CHECK(contains(found(with(kOpenMpi, {"OMPI_COMM_WORLD_LOCAL_RANK=1"})), "mpirun -npernode 1 ddplaunch …"));
}

TEST_CASE("the second of two Hydra processes is recognised") {
  CHECK(found(kHydra) == "PMI: 2 nodes, this is 1 (PMI_SIZE, PMI_RANK)");
  CHECK(cluster(kHydra).job_id.empty());
  CHECK(
      contains(found(with(kHydra, {"MPI_LOCALNRANKS=2"})), "PMI: MPI_LOCALNRANKS=\"2\" shows that a node has several"));
  CHECK(contains(found(with(kHydra, {"MPI_LOCALNRANKS=2"})), "mpiexec -ppn 1 ddplaunch …"));
}

TEST_CASE("a JSM job is recognised, whose hosts differ from those of the allocation") {
  CHECK(found(kJsm) == "JSM: 2 nodes, this is 1 (JSM_NAMESPACE_SIZE, JSM_NAMESPACE_RANK)");
  CHECK(cluster(kJsm).job_id == "2.1");
  CHECK(contains(found(with(kJsm, {"JSM_NAMESPACE_LOCAL_SIZE=6"})), "jsrun --rs_per_host=1 --tasks_per_rs=1"));
}

TEST_CASE("an LSF job is recognised") {
  CHECK(found(kLsf) == "LSF: 2 nodes, this is 1 (LSB_DJOB_HOSTFILE, this host's name), hosts a,b (LSB_DJOB_HOSTFILE)");
  CHECK(cluster(kLsf).hosts == Lines{"a", "b"});
  CHECK(cluster(kLsf).job_id == "44");
  CHECK(cluster(with(kLsf, {"LSB_JOBINDEX=5"})).job_id == "44[5]");
  const std::string by_variable =
      "LSF: 2 nodes, this is 1 (LSB_MCPU_HOSTS, this host's name), hosts a,b (LSB_MCPU_HOSTS)";
  CHECK(found(with(kLsf, {"LSB_DJOB_HOSTFILE="})) == by_variable);
  CHECK(found(with(kLsf, {"LSB_DJOB_HOSTFILE=/gone"})) == by_variable);
  CHECK(contains(found(with(kLsf, {"LSB_DJOB_HOSTFILE=", "LSB_MCPU_HOSTS=a 2 b"})),
                 "refused: LSF: LSB_MCPU_HOSTS=\"a 2 b\""));
}

TEST_CASE("an LSF job without a host list gives a warning") {
  const Lines blind = with(kLsf, {"LSB_DJOB_HOSTFILE=/gone", "LSB_MCPU_HOSTS="});
  const auto finding = read_cluster_env(request(blind));
  REQUIRE(finding.ok());
  CHECK_FALSE(finding.value().cluster);
  CHECK(finding.value().warnings.size() == 1);
  CHECK(contains(found(blind, "lsf"), "refused: --scheduler=lsf: neither the file that LSB_DJOB_HOSTFILE names"));
}

TEST_CASE("a PBS job is recognised") {
  CHECK(found(kPbs) == "PBS: 2 nodes, this is 1 (PBS_NODEFILE, PBS_NODENUM), hosts a.x.org,b.x.org (PBS_NODEFILE)");
  CHECK(cluster(kPbs).job_id == "3.head");
  CHECK_FALSE(cluster(kPbs).workers);
  CHECK(contains(found(with(kPbs, {"PBS_NODENUM="})), "2 nodes, this is 1 (PBS_NODEFILE, this host's name)"));
  CHECK(contains(found(with(kPbs, {"PBS_NODENUM=0"})),
                 "PBS_NODENUM=0, but this host, \"b\", has number 1 in the file of PBS_NODEFILE=\"/pbs\""));
}

TEST_CASE("a host that is missing in the scheduler's host file is an error") {
  const std::string text = found(with(kPbs, {"PBS_NODENUM="}), "auto", "login");
  CHECK(contains(text,
                 "refused: PBS: the rank of this node is unknown: \"login\" is not listed exactly once in a.x.org,b"));
  CHECK(contains(text, "--scheduler=none"));
  // The host name need not be in the list if there is a number.
  CHECK(contains(found(kPbs, "auto", "container"), "2 nodes, this is 1 (PBS_NODEFILE, PBS_NODENUM)"));
}

TEST_CASE("an unreadable PBS host file gives a warning and no error") {
  const Lines blind = with(kPbs, {"PBS_NODEFILE=/gone"});
  const auto finding = read_cluster_env(request(blind));
  REQUIRE(finding.ok());
  CHECK_FALSE(finding.value().cluster);
  CHECK(contains(finding.value().warnings.at(0), "the file that PBS_NODEFILE names cannot be read here"));
  CHECK(contains(found(blind, "pbs"), "refused: --scheduler=pbs: the file that PBS_NODEFILE names"));
}

TEST_CASE("a pod of an Indexed Job knows only its index") {
  const ClusterEnv pod = cluster(kIndexedJob);
  CHECK(pod.scheduler == "Kubernetes");
  CHECK_FALSE(pod.node_count);
  CHECK(pod.node_rank == 3);
  CHECK(pod.derived == "this is node 3 (JOB_COMPLETION_INDEX)");
}

TEST_CASE("the pods of a PyTorchJob are read only on request") {
  CHECK(found(kPyTorchJob) == "none");
  const ClusterEnv pod = cluster(kPyTorchJob, "kubernetes");
  CHECK(pod.node_count == 4);
  CHECK(pod.node_rank == 1);
  CHECK(pod.master_addr == "train-master-0");
  CHECK(pod.master_port == 23456);
  CHECK(pod.derived == "4 nodes, this is 1 (WORLD_SIZE, RANK), master train-master-0 (MASTER_ADDR)");
  CHECK(
      contains(found(with(kPyTorchJob, {"MASTER_PORT=0"}), "kubernetes"), "MASTER_PORT=\"0\" is not a number from 1"));
}

TEST_CASE("SageMaker hosts are numbered by their names") {
  const ClusterEnv sagemaker = cluster(kSageMaker);
  CHECK(sagemaker.derived ==
        "2 nodes, this is 1 (SM_HOSTS, SM_CURRENT_HOST), hosts algo-1,algo-2 (SM_HOSTS), 8 workers (SM_NUM_GPUS)");
  CHECK(sagemaker.hosts == Lines{"algo-1", "algo-2"});
  CHECK(sagemaker.job_id == "resnet-1");
  CHECK_FALSE(cluster(with(kSageMaker, {"SM_NUM_GPUS=0"})).workers);
  CHECK(
      contains(found(with(kSageMaker, {"SM_CURRENT_HOST=algo-3"})), "SM_CURRENT_HOST=\"algo-3\" is not in SM_HOSTS="));
  CHECK(contains(found(with(kSageMaker, {"SM_HOSTS={}"})), "SM_HOSTS=\"{}\" is not a JSON list"));
}

TEST_CASE("each scheduler has a title, variables and a function, and equal names are adjacent") {
  std::set<std::string_view> names;
  std::string_view last;
  for (const Scheduler& scheduler : scheduler_table()) {
    CHECK_FALSE(scheduler.title.empty());
    CHECK_FALSE(scheduler.signs.empty());
    CHECK(scheduler.read != nullptr);
    CHECK(scheduler.starts_processes == !scheduler.start.empty());
    if (scheduler.name != last) CHECK(names.insert(scheduler.name).second);
    last = scheduler.name;
  }
}
