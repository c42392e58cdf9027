#!/usr/bin/env python3
"""mpirun_test.py BIN_DIR [WORD]: tests jobs that Open MPI's mpirun starts, with one launcher on each of two nodes.
Skipped if mpirun is not installed or network namespaces are not available."""
import os
import pathlib
import shutil
import signal
import subprocess
import tempfile
import time

from node_rig import BIN, Hosts, run_tests, skip, until

# Limits the time from a signal or a failure to the end of all launchers. The workers would run for longer.
DEADLINE = 120.0


class Step:
    """Runs mpirun on host 1."""

    def __init__(self, hosts: Hosts, *words: object, where: str = "host1,host2", per_node: int = 1,
                 options: tuple = ("--master-addr=host1",)):
        self.hosts = hosts
        self.folder = tempfile.TemporaryDirectory()
        self.command = [*hosts.inside(1), "mpirun", "--allow-run-as-root", "--oversubscribe", "-H", where, "-np", "2",
                        "--map-by", f"ppr:{per_node}:node", "--mca", "plm_rsh_agent", hosts.path("remote_shell.sh"),
                        BIN / "ddplaunch", "--nproc-per-node=2", *options, *words]
        # mpirun leaves its session's folders in TMPDIR if it is killed.
        environment = {**os.environ, "TMPDIR": self.folder.name, "OMPI_MCA_orte_base_help_aggregate": "0"}
        self.mpirun = subprocess.Popen(list(map(str, self.command)), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                                       env=environment)

    def until_all_run(self) -> "Step":
        """Waits until the four workers of waiting() run."""
        until(lambda: len(list(self.path().glob("rank*"))) == 4, "four workers")
        return self

    def path(self) -> pathlib.Path:
        return pathlib.Path(self.folder.name)

    def end(self, seconds: float = 60) -> tuple[int, str, str]:
        began = time.monotonic()
        out, err = self.mpirun.communicate(timeout=seconds)
        for number in (1, 2):
            left = began + seconds - time.monotonic()
            until(lambda: not self.hosts.pids(number), f"nothing runs on host {number}", max(left, 1))
        return self.mpirun.returncode, out, err


def waiting(hosts: Hosts, program: str = "exec sleep 1000") -> Step:
    with tempfile.NamedTemporaryFile("w", dir=hosts.folder.name, suffix=".sh", delete=False) as script:
        script.write(f"touch $TMPDIR/rank$RANK; {program}\n")
    return Step(hosts, "sh", script.name).until_all_run()


def ranks_and_world_follow_from_mpirun(hosts: Hosts) -> None:
    step = Step(hosts, "sh", "-c", "echo $GROUP_RANK of $GROUP_WORLD_SIZE, $RANK of $WORLD_SIZE on $(hostname) at $MASTER_ADDR",
                options=("--master-addr=host1", "--tag=", "--no-collapse"))
    code, out, err = step.end()
    assert code == 0, (code, out, err)
    assert sorted(out.splitlines()) == [f"{rank // 2} of 2, {rank} of 4 on host{rank // 2 + 1} at 10.77.0.1" for rank in range(4)], out
    lines = [each for each in err.splitlines() if "Open MPI: 2 nodes, this is" in each]
    assert len(lines) == 1 and "this is 0 (OMPI_COMM_WORLD_SIZE, OMPI_COMM_WORLD_RANK)" in lines[0], err


def a_failure_ends_mpirun_with_its_exit_code(hosts: Hosts) -> None:
    step = waiting(hosts, program="[ $RANK = 3 ] && until [ -e $TMPDIR/fail ]; do sleep 0.05; done && exit 7; exec sleep 1000")
    (step.path() / "fail").touch()
    code, out, err = step.end(DEADLINE)
    assert code == 7 and "node host2: rank 3: exit code 7" in err, (code, out, err)


def a_signal_to_mpirun_ends_all(hosts: Hosts) -> None:
    for what in (signal.SIGTERM, signal.SIGINT):
        step = waiting(hosts)
        step.mpirun.send_signal(what)
        code, out, err = step.end(DEADLINE)
        assert code not in (0, None), (code, out, err)


def workers_that_ignore_signals_end_with_mpirun(hosts: Hosts) -> None:
    step = waiting(hosts, program="trap '' TERM; while :; do sleep 1; done")
    step.mpirun.send_signal(signal.SIGTERM)
    code, out, err = step.end(DEADLINE)
    assert code not in (0, None), (code, out, err)


def the_death_of_mpirun_ends_all(hosts: Hosts) -> None:
    step = waiting(hosts)
    step.mpirun.kill()
    step.end(DEADLINE)


def two_launchers_on_a_node_get_the_right_command(hosts: Hosts) -> None:
    code, out, err = Step(hosts, "true", where="host1:2", per_node=2).end()
    assert code == 2 and err.count("mpirun -npernode 1 ddplaunch") == 2 and "OMPI_COMM_WORLD_LOCAL_SIZE" in err, (code, out, err)


def a_missing_address_is_reported_with_the_option(hosts: Hosts) -> None:
    code, out, err = Step(hosts, "true", options=()).end()
    assert code == 2 and "Give --master-addr=HOST" in err, (code, out, err)


if __name__ == "__main__":
    if shutil.which("mpirun") is None:
        skip("mpirun is not installed")
    if "Open MPI" not in subprocess.run(["mpirun", "--version"], capture_output=True, text=True).stdout:
        skip("mpirun is not Open MPI's")
    with Hosts(2) as rig:
        if not rig.are_apart:
            skip("needs network namespaces")
        run_tests(rig, [ranks_and_world_follow_from_mpirun, a_failure_ends_mpirun_with_its_exit_code,
                        a_signal_to_mpirun_ends_all, workers_that_ignore_signals_end_with_mpirun,
                        the_death_of_mpirun_ends_all, two_launchers_on_a_node_get_the_right_command,
                        a_missing_address_is_reported_with_the_option])
