#!/usr/bin/env python3
"""slurm_test.py BIN_DIR: tests jobs of a real Slurm whose three nodes are this computer. Skipped without root, and
if Slurm is not installed."""
import os
import pathlib
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
from ports import free_port  # noqa: E402  (it is in another folder)

BIN = pathlib.Path(sys.argv[1])
NODES = 3


class Slurm:
    """Runs a controller, a daemon for each node, and munge, in a folder."""

    def __init__(self, folder: pathlib.Path, settings: str = "", inside: dict[int, list] | None = None):
        """`settings` are more lines of slurm.conf. The daemon of node i runs within the command inside[i]."""
        self.folder = folder
        for name in ("state", "munge", *[f"spool{i}" for i in range(1, NODES + 1)]):
            (folder / name).mkdir(mode=0o755)
        folder.chmod(0o755)
        key = folder / "munge" / "key"
        key.write_bytes(os.urandom(1024))
        key.chmod(0o400)
        host = socket.gethostname().split(".")[0]
        nodes = "\n".join(f"NodeName=node{i} NodeHostname={host} NodeAddr=127.0.0.1 Port={free_port()} CPUs=4 State=UNKNOWN"
                          for i in range(1, NODES + 1))
        (folder / "slurm.conf").write_text(f"""ClusterName=lab
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={free_port()}
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket={folder}/munge/socket
CredType=cred/munge
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool%n
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd-%n.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd-%n.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
MpiDefault=none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
SchedulerType=sched/backfill
SchedulerParameters=bf_interval=1
ReturnToService=2
MailProg=/bin/true
SlurmdParameters=config_overrides
KillWait=5
{nodes}
PartitionName=main Nodes=node[1-{NODES}] Default=YES MaxTime=INFINITE State=UP
{settings}
""")
        self.environment = dict(os.environ, SLURM_CONF=str(folder / "slurm.conf"))
        munge = ["--force", f"--key-file={key}", f"--socket={folder}/munge/socket", f"--pid-file={folder}/munge/pid",
                 f"--log-file={folder}/munge.log", f"--seed-file={folder}/munge/seed"]
        subprocess.run(["munged", *munge], check=True, capture_output=True)
        subprocess.run(["slurmctld", "-f", folder / "slurm.conf"], check=True, capture_output=True, env=self.environment)
        for i in range(1, NODES + 1):
            subprocess.run([*(inside or {}).get(i, []), "slurmd", "-f", folder / "slurm.conf", "-N", f"node{i}"], check=True, capture_output=True,
                           env=self.environment)
        end = time.monotonic() + 30
        while len(self.states()) != NODES or any("unk" in state or "*" in state for state in self.states().values()):
            assert time.monotonic() < end, self.run("sinfo").stdout + (folder / "slurmctld.log").read_text()
            time.sleep(0.1)

    def states(self) -> dict[str, str]:
        """Returns the state of each node, with the reason: "idle none", "drained bad disk"."""
        return dict(line.split(" ", 1) for line in self.run("sinfo", "-h", "-N", "-o", "%N %T %E").stdout.splitlines())

    def run(self, *words: object) -> subprocess.CompletedProcess:
        return subprocess.run([str(word) for word in words], capture_output=True, text=True, timeout=90, env=self.environment)

    def stop(self) -> None:
        pids = [int(path.read_text()) for path in [*self.folder.glob("slurm*.pid"), self.folder / "munge" / "pid"]]
        for pid in pids:
            os.kill(pid, signal.SIGTERM)
        end = time.monotonic() + 20
        while any(os.path.exists(f"/proc/{pid}") for pid in pids) and time.monotonic() < end:
            time.sleep(0.05)


# The nodes' names cannot be looked up here.
SRUN = ("srun", f"-N{NODES}", "--ntasks-per-node=1", BIN / "ddplaunch", "--master-addr=127.0.0.1", "--nproc-per-node=2")


def a_step_needs_no_number_of_nodes(slurm: Slurm) -> None:
    done = slurm.run(*SRUN, "--tag=", "--no-collapse", "sh", "-c", "echo $RANK of $WORLD_SIZE on $GROUP_RANK $TORCHELASTIC_RUN_ID")
    lines = sorted(done.stdout.splitlines())
    assert done.returncode == 0 and [line.rsplit(" ", 1)[0] for line in lines] == [f"{i} of 6 on {i // 2}" for i in range(6)], done
    assert len({line.rsplit(" ", 1)[1] for line in lines}) == 1 and "Slurm: 3 nodes, this is 0" in done.stderr, done


def a_failure_ends_the_step_with_its_exit_code(slurm: Slurm) -> None:
    done = slurm.run(*SRUN, "-q", "sh", "-c", "[ $RANK = 3 ] && exit 7; exec sleep 1000")
    assert done.returncode == 7, done
    assert done.stderr.count("rank 3") == NODES and "Exited with exit code 7" in done.stderr, done


def a_cancelled_step_ends_on_all_nodes(slurm: Slurm) -> None:
    with tempfile.TemporaryDirectory() as folder:
        # srun drops output that it has not read when its step is cancelled. Output to files is written by the daemons
        # of the nodes.
        words = (SRUN[0], f"--error={folder}/err%t", *SRUN[1:], "sh", "-c", f"touch {folder}/$RANK; exec sleep 1000")
        step = subprocess.Popen([str(word) for word in words], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
                                env=slurm.environment)
        end = time.monotonic() + 60
        while not all(os.path.exists(f"{folder}/{rank}") for rank in range(2 * NODES)):
            assert time.monotonic() < end and step.poll() is None, (os.listdir(folder), step.poll())
            time.sleep(0.05)
        slurm.run("scancel", *slurm.run("squeue", "-h", "-o", "%i").stdout.split())
        _, of_srun = step.communicate(timeout=60)
        errors = [pathlib.Path(folder, f"err{task}").read_text() for task in range(NODES)]
    assert step.returncode == 143, (step.returncode, of_srun, errors)
    for err in errors:
        # Slurm signals the workers as well. Their ends are no failures.
        assert "terminated by SIGTERM" in err and "failed" not in err, (of_srun, errors)


def several_tasks_on_a_node_are_refused(slurm: Slurm) -> None:
    done = slurm.run("srun", "-N2", "--ntasks-per-node=2", BIN / "ddplaunch", "true")
    assert done.returncode == 2 and "srun --ntasks-per-node=1 ddplaunch" in done.stderr, done


def components_of_a_heterogeneous_job_are_one_job(slurm: Slurm) -> None:
    def component(nodes: int, workers: int) -> tuple:
        return (f"-N{nodes}", f"-n{nodes}", BIN / "ddplaunch", "--master-addr=127.0.0.1", f"--nproc-per-node={workers}", "--tag=",
                "--no-collapse", "sh", "-c", "echo $RANK of $WORLD_SIZE on $GROUP_RANK")
    done = slurm.run("srun", *component(1, 1), ":", *component(2, 2))
    wanted = ["0 of 5 on 0", "1 of 5 on 1", "2 of 5 on 1", "3 of 5 on 2", "4 of 5 on 2"]
    assert done.returncode == 0 and sorted(done.stdout.splitlines()) == wanted, done


def until_drained(slurm: Slurm, node: str) -> str:
    end = time.monotonic() + 60
    while "drain" not in slurm.states()[node]:
        assert time.monotonic() < end, (slurm.states(), (slurm.folder / "slurmctld.log").read_text())
        time.sleep(0.1)
    return slurm.states()[node]


def a_bad_node_is_drained_and_a_good_one_is_not() -> None:
    """The checkpoint directory of node 2 is full. The prolog finds it when a job comes, and the health check without one."""
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        for part in ("shared", "bin", "share/ddplaunch"):
            (folder / part).mkdir(parents=True)
        (folder / "bin" / "ddplaunch").symlink_to(BIN.resolve() / "ddplaunch")
        installed = folder / "share/ddplaunch/slurm-health-check"
        shutil.copy(pathlib.Path(__file__).resolve().parents[2] / "packaging/slurm/slurm-health-check", installed)
        options = f"--checkpoint-dir={folder}/shared"
        scripts = {"prolog": f"{folder}/bin/ddplaunch doctor --node {options}", "health": f"{installed} {options}"}
        for script, command in scripts.items():
            (folder / script).write_text(f"#!/bin/sh\nexec {command}\n")
            (folder / script).chmod(0o755)
        full = ["unshare", "--mount", "sh", "-c", f'mount -t tmpfs -o size=64k tmpfs {folder}/shared && exec "$@"', "sh"]
        for settings in (f"Prolog={folder}/prolog\nPrologFlags=Alloc", f"HealthCheckProgram={folder}/health\nHealthCheckInterval=2"):
            place = pathlib.Path(tempfile.mkdtemp(dir=folder))
            # scontrol finds the configuration of a real Slurm by itself. The health check gets only the node's name.
            (folder / "health").write_text(f"#!/bin/sh\nSLURM_CONF={place}/slurm.conf exec {scripts['health']}\n")
            slurm = Slurm(place, settings, {2: full})
            try:
                good = slurm.run("srun", "-w", "node1,node3", "-N2", "true")
                assert good.returncode == 0, (good, slurm.states())
                if settings.startswith("Prolog"):
                    slurm.run("sbatch", "-w", "node2", "--wrap", "true")
                    assert "Prolog error" in until_drained(slurm, "node2"), slurm.states()
                else:
                    reason = until_drained(slurm, "node2").split(" ", 1)[1]
                    assert reason.startswith("ddplaunch doctor: checkpoints: ") and "No space left" in reason, slurm.states()
                states = slurm.states()
                assert all(states[node].startswith(("idle", "mixed", "allocated")) for node in ("node1", "node3")), states
            finally:
                slurm.stop()


if __name__ == "__main__":
    missing = [name for name in ("slurmctld", "slurmd", "srun", "munged") if shutil.which(name) is None]
    if missing or os.geteuid() != 0:
        print(f"not installed: {', '.join(missing)}" if missing else "needs root")
        sys.exit(77)
    with tempfile.TemporaryDirectory() as place:
        lab = Slurm(pathlib.Path(place))
        try:
            for check in [a_step_needs_no_number_of_nodes, a_failure_ends_the_step_with_its_exit_code,
                          a_cancelled_step_ends_on_all_nodes, several_tasks_on_a_node_are_refused,
                          components_of_a_heterogeneous_job_are_one_job]:
                began = time.monotonic()
                check(lab)
                print(f"ok: {check.__name__.replace('_', ' ')} ({time.monotonic() - began:.1f} s)", flush=True)
        finally:
            lab.stop()
    a_bad_node_is_drained_and_a_good_one_is_not()
    print("ok: a bad node is drained, and a good one is not")
