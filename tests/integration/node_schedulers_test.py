#!/usr/bin/env python3
"""node_schedulers_test.py BIN_DIR [WORD]: tests jobs on two nodes with the variables that schedulers set, and only
with options that a user would give. The schedulers themselves are tested in slurm_test.py and mpirun_test.py.
Skipped without network namespaces."""
import dataclasses

from node_rig import Hosts, Job, all_well, run_tests, skip

SHOW = "echo $GROUP_RANK of $GROUP_WORLD_SIZE, $RANK of $WORLD_SIZE at $MASTER_ADDR"


@dataclasses.dataclass
class Scheduler:
    name: str
    words: tuple[str, ...]            # arguments of the launcher
    environment: dict[str, str]       # {node} and {number} stand for the host, {file} for a file with the hosts' names
    said: str                         # the first node's line about the scheduler
    first: dict[str, str] | None = None  # variables that differ on node 0


SCHEDULERS = [
    Scheduler("TrainJob", (),
              {"PET_NNODES": "2", "PET_NPROC_PER_NODE": "2", "PET_NODE_RANK": "{node}", "PET_MASTER_ADDR": "host1",
               "PET_MASTER_PORT": "29500", "JOB_COMPLETION_INDEX": "{node}", "KUBERNETES_SERVICE_HOST": "10.0.0.1"},
              "options set by the environment: PET_MASTER_ADDR=host1, PET_MASTER_PORT=29500, PET_NNODES=2, PET_NODE_RANK={node}"
              ", PET_NPROC_PER_NODE=2"),
    Scheduler("PyTorchJob", ("--scheduler=kubernetes", "--nproc-per-node=2"),
              {"MASTER_ADDR": "host1", "MASTER_PORT": "23456", "WORLD_SIZE": "2", "RANK": "{node}"},
              "PyTorchJob: 2 nodes, this is {node} (WORLD_SIZE, RANK), master host1 (MASTER_ADDR)"),
    Scheduler("PyTorchJob of an older operator", ("--scheduler=kubernetes", "--nproc-per-node=2"),
              {"MASTER_ADDR": "host1", "MASTER_PORT": "23456", "WORLD_SIZE": "2", "RANK": "{node}"},
              "PyTorchJob: 2 nodes, this is {node} (WORLD_SIZE, RANK), master ", first={"MASTER_ADDR": "localhost"}),
    Scheduler("Indexed Job", ("--nnodes=2", "--master-addr=host1", "--nproc-per-node=2"),
              {"JOB_COMPLETION_INDEX": "{node}"},
              "Kubernetes: this is node {node} (JOB_COMPLETION_INDEX) of 2 (--nnodes)"),
    Scheduler("Indexed Job with an endpoint", ("--nnodes=2", "--rdzv-endpoint=host1:29400", "--nproc-per-node=2"),
              {"JOB_COMPLETION_INDEX": "{node}"},
              "Kubernetes: this is node {node} (JOB_COMPLETION_INDEX) of 2 (--nnodes)"),
    Scheduler("Slurm", ("--nproc-per-node=2",),
              {"SLURM_JOB_ID": "12", "SLURM_STEP_ID": "0", "SLURM_STEP_NODELIST": "host[1-2]", "SLURM_STEP_NUM_NODES": "2",
               "SLURM_STEP_NUM_TASKS": "2", "SLURM_STEP_TASKS_PER_NODE": "1(x2)", "SLURM_NODEID": "{node}",
               "SLURM_PROCID": "{node}", "SLURM_LOCALID": "0"},
              "Slurm: 2 nodes, this is {node} (SLURM_STEP_NUM_NODES, SLURM_NODEID), "
              "hosts host[1-2] (SLURM_STEP_NODELIST)"),
    Scheduler("LSF", ("--scheduler=lsf", "--nproc-per-node=2"), {"LSB_DJOB_HOSTFILE": "{file}", "LSB_JOBID": "77"},
              "LSF: 2 nodes, this is {node} (LSB_DJOB_HOSTFILE, this host's name), hosts host1,host2 (LSB_DJOB_HOSTFILE)"),
    Scheduler("PBS", ("--scheduler=pbs", "--nproc-per-node=2"), {"PBS_NODEFILE": "{file}", "PBS_JOBID": "77.server"},
              "PBS: 2 nodes, this is {node} (PBS_NODEFILE, this host's name), hosts host1,host2 (PBS_NODEFILE)"),
    Scheduler("MPICH", ("--master-addr=host1", "--nproc-per-node=2"),
              {"PMI_RANK": "{node}", "PMI_SIZE": "2", "MPI_LOCALRANKID": "0", "MPI_LOCALNRANKS": "1"},
              "PMI: 2 nodes, this is {node} (PMI_SIZE, PMI_RANK)"),
    Scheduler("Flux", ("--master-addr=host1", "--nproc-per-node=2"),
              {"FLUX_JOB_ID": "\u01923ETx", "FLUX_JOB_NNODES": "2", "FLUX_JOB_SIZE": "2", "FLUX_TASK_RANK": "{node}",
               "FLUX_TASK_LOCAL_ID": "0"},
              "Flux: 2 nodes, this is {node} (FLUX_JOB_NNODES, FLUX_TASK_RANK)"),
    Scheduler("SageMaker", ("--nproc-per-node=2",),
              {"SM_HOSTS": '["host2","host1"]', "SM_CURRENT_HOST": "host{number}"},
              "SageMaker: 2 nodes, this is {node} (SM_HOSTS, SM_CURRENT_HOST), hosts host1,host2 (SM_HOSTS)"),
]


def job_of(hosts: Hosts, words: tuple[str, ...], environments: list[dict[str, str]]) -> dict:
    job = Job(hosts, *words, "--tag=", "--no-collapse", "sh", "-c", SHOW, meet=[])
    # The first node starts last, which must not matter.
    for number in (2, 1):
        job.start(number, environment=environments[number - 1])
    return job.ends()


def a_scheduler_environment_needs_no_options(hosts: Hosts) -> None:
    file = hosts.path("hostfile")
    file.write_text("host1\nhost1\nhost2\nhost2\n")
    for scheduler in SCHEDULERS:
        def filled(text: str, node: int) -> str:
            return text.replace("{node}", str(node)).replace("{number}", str(node + 1)).replace("{file}", str(file))
        environments = [{name: filled(value, node) for name, value in
                         {**scheduler.environment, **((scheduler.first or {}) if node == 0 else {})}.items()}
                        for node in (0, 1)]
        ends = job_of(hosts, scheduler.words, environments)
        all_well(ends)
        for node in (0, 1):
            _, out, err = ends[node + 1]
            wanted = [f"{node} of 2, {rank} of 4 at 10.77.0.1" for rank in (2 * node, 2 * node + 1)]
            assert sorted(out.splitlines()) == wanted, (scheduler.name, node, out, err)
            said = filled(scheduler.said, node)
            assert sum(said in line for line in err.splitlines()) == (node == 0), (scheduler.name, node, err)


def contradicting_variables_are_refused(hosts: Hosts) -> None:
    job = Job(hosts, "--master-addr=host1", "true", meet=[])
    for environment, text in (
            ({"PMI_RANK": "2", "PMI_SIZE": "2"}, "PMI_RANK=2 is not below PMI_SIZE=2"),
            ({"PMI_RANK": "0", "PMI_SIZE": "2", "JSM_NAMESPACE_RANK": "1", "JSM_NAMESPACE_SIZE": "2"},
             "PMI reports that this is node 0 of 2, but JSM reports node 1 of 2")):
        code, _, err = job.start(1, environment=environment).end_of(1)
        assert code == 2 and text in err, (code, err)
    for words, text in ((("--nnodes=2",), "(JOB_COMPLETION_INDEX), which is not below --nnodes=2 (nodes count from 0)"),
                        (("--scheduler=kubernetes",), "but the number of nodes is unknown. Give --nnodes=N")):
        code, _, err = job.start(1, *words, environment={"JOB_COMPLETION_INDEX": "2"}).end_of(1)
        assert code == 2 and text in err, (code, err)


def a_pod_without_its_peers_reports_it(hosts: Hosts) -> None:
    pod = {"MASTER_ADDR": "host1", "MASTER_PORT": "23456", "WORLD_SIZE": "2", "RANK": "1", "KUBERNETES_SERVICE_HOST": "10.0.0.1"}
    ends = Job(hosts, "true", meet=[]).start(2, environment=pod).ends()
    all_well(ends)
    assert "To run one job in all pods, use --scheduler=kubernetes" in ends[2][2], ends


if __name__ == "__main__":
    with Hosts(2) as rig:
        if not rig.are_apart:
            skip("needs network namespaces")
        run_tests(rig, [a_scheduler_environment_needs_no_options, contradicting_variables_are_refused,
                        a_pod_without_its_peers_reports_it])
