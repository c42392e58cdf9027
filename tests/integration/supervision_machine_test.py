#!/usr/bin/env python3
"""Tests limits, containers and the computer's state with whole processes: the rows of
docs/development/supervision.md on the environment of a job. launched_job.py describes argv."""
import os
import pathlib
import re
import resource
import signal
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
from launched_job import (Cgroup, Job, Skip, as_pid_1, eventually, processes, python, run_job, run_tests,
                          state_of, test, with_mounts)

# Only pid 1 can reap these orphans.
MAKES_ORPHANS = """
i=0; while [ $i -lt 1000 ]; do (: &); i=$((i + 1)); done
echo made
while grep -qs '^State:.Z' /proc/[0-9]*/status; do sleep 0.01; done
echo no zombies
"""


@test("20", "the launcher as first process of a container reaps a thousand orphans")
def reaps_orphans() -> None:
    code, out, err = run_job("--tag=", "sh", "-c", MAKES_ORPHANS, via=as_pid_1())
    assert code == 0 and out == "made\nno zombies\n", (code, out, err)


@test("43", "the launcher as first process of a container ends on SIGTERM after the default grace period")
def ends_as_pid_1() -> None:
    script = "trap '' TERM; echo ready; while :; do sleep 0.05; done"
    with Job("sh", "-c", script, via=as_pid_1()) as job:
        job.wait_for("ready")
        guardian, = (pid for pid, (_, parent) in processes(job.mark).items() if parent == job.pid)
        os.kill(guardian, signal.SIGTERM)
        assert job.wait() == 143, job.err()
        assert "then SIGKILL after the grace period of 5.0 s" in job.err(), job.err()
        job.expect_nothing_left()


HOG = """
kept = []
while True: kept.append(b"x" * (1 << 20))
"""


@test("27", "a worker that the out-of-memory killer ends is reported with limit and peak")
def out_of_memory() -> None:
    with Cgroup("memory", {"memory.limit_in_bytes": str(64 << 20)}) as group:
        code, _, err = run_job("--nproc-per-node=2", *python("if rank == 0: time.sleep(100)" + HOG), via=group.entered())
        assert code == 137, (code, err)
        found = re.search(r"out-of-memory killer killed it in cgroup (\S+), limit (.*?), peak (.*?);", err)
        assert found and found[1] == str(group.folder) and found[2] == "64 MiB" and found[3].startswith("6"), err
        assert "rank 1 (pid" in err, err


@test("27", "a SIGKILL from outside is reported as such")
def killed_from_outside() -> None:
    code, _, err = run_job("sh", "-c", "kill -KILL $$")
    assert code == 137 and "ddplaunch did not send SIGKILL" in err, err


@test("28", "the report says where the core of a crashed worker is, or why there is none")
def core_dumps() -> None:
    crash = ["sh", "-c", "kill -SEGV $$"]
    pattern = pathlib.Path("/proc/sys/kernel/core_pattern").read_text()
    _, _, err = run_job("--core=off", *crash)
    if not pattern.startswith("|"):
        assert "core: none (--core=off)" in err, err
    with Job("--core=unlimited", *crash) as job:
        assert job.wait() == 139, job.err()
        report = re.search(r"core: (.*)", job.err())
        assert report, job.err()
        if pattern.startswith("|"):
            assert report[1].startswith("with "), report
        elif resource.getrlimit(resource.RLIMIT_CORE)[1] == 0:
            assert "limit is 0" in report[1], report
        elif report[1] != "none":  # "none" means that the folder cannot be written
            core = pathlib.Path(report[1])
            assert core.stat().st_size > 0
            if not core.is_relative_to(job.folder):
                core.unlink()


@test("29", "the soft descriptor limit of workers is raised to the hard one within bounds")
def descriptor_limit() -> None:
    hard = min(4096, resource.getrlimit(resource.RLIMIT_NOFILE)[1])
    limit = lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (256, hard))
    code, out, err = run_job("--tag=", "sh", "-c", "ulimit -Sn", preexec_fn=limit)
    assert code == 0 and out == f"{hard}\n", (out, err)


@test("31", "a worker that survives SIGKILL is named and does not block the launcher")
def unkillable() -> None:
    script = '[ "$RANK" = 1 ] && { while [ ! -e go ]; do sleep 0.01; done; exit 5; }\necho pid $$.; exec sleep 100'
    with Cgroup("freezer") as group, Job("--tag=", "--grace=0.1", "--nproc-per-node=2", "sh", "-c", script) as job:
        job.wait_for(".")
        worker = re.search(r"pid (\d+)\.", job.out())[1]
        (group.folder / "cgroup.procs").write_text(worker)
        freezer = group.folder / "freezer.state"
        freezer.write_text("FROZEN")
        try:
            eventually("it is frozen", lambda: freezer.read_text() == "FROZEN\n")
            pathlib.Path(job.path("go")).touch()
            code = job.wait(25)
            stuck = state_of(int(worker))
            assert run_job("-q", "true")[0] == 0, "it keeps the next job from running"
        finally:
            freezer.write_text("THAWED")
        if not stuck:
            raise Skip("a frozen process can be killed here")
        assert code == 5 and f"rank 0 (pid {worker}) survives SIGKILL" in job.err(), (code, job.err())
        job.expect_nothing_left()


@test("32", "two launchers with the same --log-dir use different directories")
def same_log_dir() -> None:
    words = ["--log-dir=logs", "--rdzv-id=same", "--redirects=3", "--nproc-per-node=2", "sh", "-c",
             "echo $WHO; while [ ! -e go ]; do sleep 0.01; done"]
    with Job(*words, environment={"WHO": "one"}) as one, Job(*words, environment={"WHO": "other"}, cwd=one.folder) as other:
        logs = pathlib.Path(one.folder) / "logs"
        eventually("four files", lambda: len([log for log in logs.glob("*/*/*/stdout.log") if log.stat().st_size]) == 4)
        pathlib.Path(one.path("go")).touch()
        assert (one.wait(), other.wait()) == (0, 0)
        texts = sorted(tuple(log.read_text() for log in run.glob("*/*/stdout.log")) for run in logs.iterdir())
        assert texts == [("one\n",) * 2, ("other\n",) * 2], texts


@test("33", "64 launches at the same time get different ports")
def many_launches() -> None:
    jobs = [Job("-q", "--tag=", "--nproc-per-node=2", "sh", "-c", "echo $MASTER_PORT; while [ ! -e go ]; do sleep 0.1; done")
            for _ in range(64)]
    try:
        for job in jobs:
            job.wait_for("\n", 1)
        ports = {job.out().split()[0] for job in jobs}
        assert len(ports) == 64, ports
        for job in jobs:
            pathlib.Path(job.path("go")).touch()
        assert [job.wait(60) for job in jobs] == [0] * 64
    finally:
        for job in jobs:
            job.__exit__()


@test("35", "a resolver that never answers does not delay the start")
def broken_resolver() -> None:
    # 192.0.2.1 is reserved for documentation (RFC 5737), so no server has it.
    via = with_mounts("f=$(mktemp); e=$(mktemp); printf 'nameserver 192.0.2.1\noptions timeout:30 attempts:5\n' > $f; mount --bind $f /etc/resolv.conf; "
                      "mount --bind $e /etc/hosts; rm -f $f $e")
    with Job("--nproc-per-node=2", "sh", "-c", "echo ready; exec sleep 1000", via=via) as job:
        job.wait_for("ready", 2)  # this is shorter than a request to the resolver


@test("38", "the kernel's out-of-memory killer prefers workers to the launcher")
def oom_score() -> None:
    own = int(pathlib.Path("/proc/self/oom_score_adj").read_text())
    with Job("--tag=", "sh", "-c", "cat /proc/self/oom_score_adj; exec sleep 100") as job:
        job.wait_for("\n")
        assert int(job.out()) == min(1000, own + 100), job.out()
        for pid in (job.pid, job.supervisor()):
            assert int(pathlib.Path(f"/proc/{pid}/oom_score_adj").read_text()) == own


@test("41", "a limit of processes is named with its number")
def process_limit() -> None:
    with Cgroup("pids", {"pids.max": "6"}) as group:
        code, _, err = run_job("--nproc-per-node=12", "sleep", "100", via=group.entered())
        assert code == 125 and "limit of processes" in err, (code, err)
        assert f"pids.max of cgroup {group.folder} is 6" in err, err


if __name__ == "__main__":
    sys.exit(run_tests())
