// Defines the environments that schedulers give to processes, and functions to test them.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "launcher/start/facts/cluster_env.h"

namespace ddp::launcher::fixtures {

using Lines = std::vector<std::string>;

// Slurm 22.05 sets this for the second task of srun -N2 --ntasks-per-node=1 --gres=gpu:2.
inline const Lines kSlurm = {"SLURM_JOB_ID=12",
                             "SLURM_JOBID=12",
                             "SLURM_JOB_NODELIST=node[1,3]",
                             "SLURM_NODELIST=node[1,3]",
                             "SLURM_STEP_NODELIST=node[1,3]",
                             "SLURM_NNODES=2",
                             "SLURM_JOB_NUM_NODES=2",
                             "SLURM_STEP_NUM_NODES=2",
                             "SLURM_STEP_NUM_TASKS=2",
                             "SLURM_NODEID=1",
                             "SLURM_PROCID=1",
                             "SLURM_LOCALID=0",
                             "SLURM_NTASKS=2",
                             "SLURM_NPROCS=2",
                             "SLURM_NTASKS_PER_NODE=1",
                             "SLURM_TASKS_PER_NODE=1(x2)",
                             "SLURM_STEP_ID=0",
                             "SLURM_STEP_TASKS_PER_NODE=1(x2)",
                             "SLURM_CPUS_ON_NODE=2",
                             "SLURM_JOB_CPUS_PER_NODE=2(x2)",
                             "SLURM_GPUS_ON_NODE=2",
                             "SLURM_STEP_GPUS=0,1",
                             "CUDA_VISIBLE_DEVICES=0,1",
                             "SLURMD_NODENAME=node3"};

// Slurm sets this for a batch script on three nodes. There is no step, although there is a SLURM_PROCID.
inline const Lines kSlurmBatch = {"SLURM_JOB_ID=7",  "SLURM_NNODES=3",       "SLURM_JOB_NUM_NODES=3",
                                  "SLURM_NODEID=0",  "SLURM_PROCID=0",       "SLURM_NTASKS=3",
                                  "SLURM_LOCALID=0", "SLURM_GPUS_ON_NODE=2", "SLURM_JOB_NODELIST=node[1-3]"};

// Slurm 22.05 sets this for the last task of srun --het-group=0,1 in a job of two components, with one and two nodes.
// The names with PACK_GROUP, which have the same values, are left out.
inline const Lines kSlurmHet = {"SLURM_HET_SIZE=2",
                                "SLURM_JOB_ID=5",
                                "SLURM_JOB_ID_HET_GROUP_0=5",
                                "SLURM_JOB_ID_HET_GROUP_1=6",
                                "SLURM_JOB_NODELIST=node[1-3]",
                                "SLURM_JOB_NODELIST_HET_GROUP_0=node1",
                                "SLURM_JOB_NODELIST_HET_GROUP_1=node[2-3]",
                                "SLURM_NNODES=3",
                                "SLURM_NODEID=2",
                                "SLURM_NTASKS=3",
                                "SLURM_PROCID=2",
                                "SLURM_STEP_ID=0",
                                "SLURM_STEP_NODELIST=node[1-3]",
                                "SLURM_STEP_NUM_NODES=3",
                                "SLURM_STEP_NUM_TASKS=3",
                                "SLURM_STEP_TASKS_PER_NODE=1(x3)"};

// Slurm sets this for a task without --het-group, which belongs to the first component, and for the batch script
// itself.
inline const Lines kSlurmHetFirst = {"SLURM_HET_SIZE=2",
                                     "SLURM_JOB_ID=5",
                                     "SLURM_JOB_NODELIST=node1",
                                     "SLURM_JOB_NODELIST_HET_GROUP_0=node1",
                                     "SLURM_JOB_NODELIST_HET_GROUP_1=node[2-3]",
                                     "SLURM_NNODES=1",
                                     "SLURM_NODEID=0",
                                     "SLURM_NTASKS=1",
                                     "SLURM_PROCID=0",
                                     "SLURM_STEP_ID=1",
                                     "SLURM_STEP_NODELIST=node1",
                                     "SLURM_STEP_NUM_NODES=1"};
inline const Lines kSlurmHetBatch = {"SLURM_HET_SIZE=2",      "SLURM_JOB_ID=5",          "SLURM_NNODES=1",
                                     "SLURM_JOB_NUM_NODES=1", "SLURM_NODEID=0",          "SLURM_PROCID=0",
                                     "SLURM_LOCALID=0",       "SLURM_JOB_NODELIST=node1"};

// Open MPI 4.1.4 sets this for the second of two processes on two nodes.
inline const Lines kOpenMpi = {"OMPI_COMM_WORLD_RANK=1",       "OMPI_COMM_WORLD_SIZE=2",
                               "OMPI_COMM_WORLD_LOCAL_RANK=0", "OMPI_COMM_WORLD_LOCAL_SIZE=1",
                               "OMPI_COMM_WORLD_NODE_RANK=0",  "OMPI_UNIVERSE_SIZE=2",
                               "OMPI_COMMAND=ddplaunch",       "PMIX_RANK=1",
                               "PMIX_NAMESPACE=287965185"};

// MPICH's hydra 4.0.2 sets this.
inline const Lines kHydra = {"PMI_RANK=1", "PMI_SIZE=2", "PMI_FD=9", "MPI_LOCALRANKID=0", "MPI_LOCALNRANKS=1"};

// The environments from here on come from the schedulers' documents and sources.
inline const Lines kFlux = {
    "FLUX_JOB_ID=\xc6\x92"
    "3ETxsR9H",
    "FLUX_TASK_RANK=1",
    "FLUX_TASK_LOCAL_ID=0",
    "FLUX_JOB_SIZE=2",
    "FLUX_JOB_NNODES=2",
    "PMI_RANK=1",
    "PMI_SIZE=2"};
inline const Lines kPals = {"PALS_APID=8f0c-11", "PALS_RANKID=1",    "PALS_NODEID=1", "PALS_LOCAL_RANKID=0",
                            "PALS_LOCAL_SIZE=1", "PMI_RANK=1",       "PMI_SIZE=2",    "PMI_LOCAL_SIZE=1",
                            "PBS_JOBID=3.head",  "PBS_NODEFILE=/pbs"};
inline const Lines kJsm = {
    "JSM_NAMESPACE_RANK=1", "JSM_NAMESPACE_SIZE=2", "JSM_NAMESPACE_LOCAL_RANK=0", "JSM_NAMESPACE_LOCAL_SIZE=1",
    "PMIX_NAMESPACE=2.1",   "LSB_JOBID=44",         "LSB_DJOB_HOSTFILE=/lsf",     "LSB_MCPU_HOSTS=batch1 1 a 42 b 42"};
inline const Lines kLsf = {"LSB_JOBID=44", "LSB_JOBINDEX=0", "LSB_DJOB_HOSTFILE=/lsf", "LSB_MCPU_HOSTS=a 2 b 2"};
inline const Lines kPbs = {"PBS_JOBID=3.head", "PBS_NODEFILE=/pbs", "PBS_NODENUM=1"};
inline const Lines kIndexedJob = {"JOB_COMPLETION_INDEX=3", "KUBERNETES_SERVICE_HOST=10.0.0.1", "HOSTNAME=train-3"};
inline const Lines kPyTorchJob = {"RANK=1", "WORLD_SIZE=4", "MASTER_ADDR=train-master-0", "MASTER_PORT=23456"};
inline const Lines kSageMaker = {"SM_HOSTS=[\"algo-2\", \"algo-1\"]", "SM_CURRENT_HOST=algo-2", "SM_NUM_GPUS=8",
                                 "TRAINING_JOB_NAME=resnet-1"};

inline const std::map<std::string, std::string> kFiles = {{"/lsf", "a\na\nb\nb\n"},
                                                          {"/pbs", "a.x.org\na.x.org\nb.x.org\nb.x.org\nb.x.org\n"}};

// Returns the lines with some of them changed ("NAME=value") or removed ("NAME=").
inline Lines with(Lines lines, const Lines& changes) {
  for (const std::string& change : changes) {
    const std::string name = change.substr(0, change.find('=') + 1);
    std::erase_if(lines, [&](const std::string& line) { return line.starts_with(name); });
    if (change != name) lines.push_back(change);
  }
  return lines;
}

inline Lines operator+(Lines lines, const Lines& more) {
  lines.insert(lines.end(), more.begin(), more.end());
  return lines;
}

inline ClusterRequest request(const Lines& environment, const std::string& scheduler = "auto",
                              const std::string& host_name = "b") {
  const auto read = [](const std::string& path) -> std::optional<std::string> {
    const auto file = kFiles.find(path);
    return file == kFiles.end() ? std::nullopt : std::optional(file->second);
  };
  return {scheduler, environment, host_name, read};
}

// Returns the finding in one line: "Slurm: 2 nodes, …", "none", or the refusal.
inline std::string found(const Lines& environment, const std::string& scheduler = "auto",
                         const std::string& host_name = "b") {
  const auto finding = read_cluster_env(request(environment, scheduler, host_name));
  if (!finding) return "refused: " + finding.error().message;
  const auto& cluster = finding.value().cluster;
  return cluster ? cluster->scheduler + ": " + cluster->derived : "none";
}

// Returns the cluster, which must exist.
inline ClusterEnv cluster(const Lines& environment, const std::string& scheduler = "auto") {
  return read_cluster_env(request(environment, scheduler)).value().cluster.value();
}

inline bool contains(const std::string& text, const std::string& words) {
  return text.find(words) != std::string::npos;
}

}  // namespace ddp::launcher::fixtures
