#!/usr/bin/env python3
"""Tests --inject at a time, with programs that do not use the runtime. Checks the effect on the worker and its
process group, the messages, and the end of the job. launched_job.py describes argv."""
import os
import pathlib
import re
import signal
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
from event_lines import read_events  # noqa: E402
from launched_job import Job, eventually, processes, run_job, run_tests, state_of, test  # noqa: E402

# Each program is a shell that stays and its child. Both are in the worker's process group.
WAITS = 'while [ ! -e go$RANK ]; do sleep 0.05; done; echo "done $RANK"'
SLEEPS = 'sleep 1000; echo "done $RANK"'


def job_with(fault: str, program: str, *options: str) -> Job:
    return Job("--nproc-per-node=2", "--event-log=events", f"--inject=rank=1,{fault}", *options, "sh", "-c", program)


def events(job: Job, name: str) -> list[dict]:
    return [event for event in read_events(job.path("events")) if event["event"] == name]


def until_said(job: Job, text: str) -> None:
    def said() -> bool:
        assert job.process.poll() is None or text in job.err(), (text, job.out(), job.err())
        return text in job.err()
    eventually(f"{text!r} on the console", said)


def until_hang(job: Job, state: str) -> dict:
    try:
        return eventually(f"the event {state}", lambda: [event["stall"] for event in events(job, "hang") if event["state"] == state])[0]
    except AssertionError as error:
        raise AssertionError(f"{error}\n{job.out()}\n{job.err()}\n{job.path('events').read_text()}") from None


def leader_of(job: Job, rank: int) -> int:
    return next(event["pid"] for event in events(job, "worker_started") if event["rank"] == rank)


def group_of(job: Job, rank: int) -> list[int]:
    leader = leader_of(job, rank)
    return [pid for pid in processes(job.mark) if os.getpgid(pid) == leader]


def let_end(job: Job, rank: int) -> None:
    pathlib.Path(job.path(f"go{rank}")).touch()


@test("inject", "kill: the rank is killed with its process group, and the job ends with 137")
def kill() -> None:
    code, out, err = run_job("--nproc-per-node=2", "--inject", "rank=1,at=2s,kind=kill", "sh", "-c", SLEEPS)
    assert code == 137 and "done" not in out, (code, out, err)
    assert "ddplaunch will inject faults: --inject=rank=1,at=2s,kind=kill" in err, err
    words = [r"warning: ddplaunch kills rank 1 \(--inject\)\n", r"error: rank 1 \(pid \d+\) failed: killed by SIGKILL, \d+\.\d s after the start\n",
             r"  node \S+, program sh\n", r"  rank 0 was terminated because of it \(SIGTERM, gone in "]
    places = [found.start() if (found := re.search("ddplaunch: " + word, err)) else -1 for word in words]
    assert -1 not in places and places == sorted(places), (words, places, err)


@test("inject", "kill: the report names no other killer")
def kill_is_known() -> None:
    code, _, err = run_job("--nproc-per-node=2", "--inject", "rank=1,at=0.5s,kind=kill", "sh", "-c", SLEEPS)
    assert code == 137 and "did not send SIGKILL" not in err, (code, err)


@test("inject", "kill: another attempt begins, in which nothing happens")
def kill_once() -> None:
    program = '[ "$DDP_ATTEMPT" = 0 ] && exec sleep 1000; echo "attempt $DDP_ATTEMPT"'
    code, out, err = run_job("--nproc-per-node=2", "--max-restarts=1", "--inject=rank=1,at=0.5s,kind=kill", "sh", "-c", program)
    assert code == 0 and out.count("attempt 1") == 2 and err.count("ddplaunch kills rank 1 (--inject)") == 1, (code, out, err)


@test("inject", "stop: the rank is stopped with its process group, which is reported, and the job waits for it")
def stop() -> None:
    with job_with("at=2s,kind=stop", SLEEPS, "--hang-timeout=4") as job:
        stopped = until_hang(job, "stopped")
        assert stopped["code"] == "DDP-H02" and stopped["culprits"] == [1], stopped
        until_said(job, "--hang-timeout is paused meanwhile")
        err = job.err()
        assert "ddplaunch stops rank 1 (--inject)\n" in err and "rank 1 is stopped (SIGSTOP or a debugger)" in err, err
        assert "[DDP-H02 stopped]" in err, err
        eventually("both processes of rank 1 are stopped", lambda: [state_of(pid) for pid in group_of(job, 1)] == ["T", "T"])
        assert all(state_of(pid) == "S" for pid in group_of(job, 0)), group_of(job, 0)
        assert job.process.poll() is None, job.err()


@test("inject", "stop: a user who continues the group lets the job end well")
def stop_and_continue() -> None:
    with job_with("at=0.5s,kind=stop", WAITS) as job:
        until_hang(job, "stopped")
        let_end(job, 0)
        job.wait_for("done 0")
        assert job.process.poll() is None, job.err()
        os.killpg(leader_of(job, 1), signal.SIGCONT)
        until_hang(job, "resumed")
        let_end(job, 1)
        assert job.wait() == 0 and "done 1" in job.out(), (job.out(), job.err())
        job.expect_nothing_left()


@test("inject", "stop: a rank that is stopped with its children is terminated by SIGTERM")
def stop_and_end() -> None:
    with job_with("at=0.5s,kind=stop", SLEEPS, "--grace=4") as job:
        until_hang(job, "stopped")
        job.signal(signal.SIGTERM)
        assert job.wait() == -signal.SIGTERM, job.err()
        job.expect_nothing_left()
        # No process of this group ignores SIGTERM. A stopped process must be continued to receive it.
        assert "ranks 0, 1 were terminated because of it (SIGTERM, gone in " in job.err(), job.err()


@test("inject", "delay: the rank is stopped for that time, and goes on by itself")
def delay() -> None:
    with job_with("at=2s,kind=delay=8s", WAITS) as job:
        until_hang(job, "stopped")
        let_end(job, 0)
        job.wait_for("done 0")
        assert until_hang(job, "resumed")["culprits"] == [1]
        let_end(job, 1)
        assert job.wait() == 0 and "done 1" in job.out(), (job.out(), job.err())
        err = job.err()
        words = ["ddplaunch will inject faults: --inject=rank=1,at=2s,kind=delay=8s", "ddplaunch stops rank 1 (--inject)\n",
                 "rank 1 is stopped (SIGSTOP or a debugger)", "ddplaunch continues rank 1 (--inject)\n"]
        places = [err.find(word) for word in words]
        assert -1 not in places and places == sorted(places), (places, err)
        job.expect_nothing_left()


@test("inject", "faults that cannot happen are refused before anything is started")
def refused() -> None:
    for fault, words in {"rank=2,at=1s,kind=kill": "rank=2, but there are 2 workers. Ranks count from 0.",
                         "rank=1,at=1s,kind=shape": "only stop, kill and delay can happen at a time; 'shape' needs a call",
                         "rank=1,at=1s,kind=delay": "delay needs a time, as in kind=delay=5s",
                         "rank=1,at=-1s,kind=kill": "'-1s' is not a valid place"}.items():
        code, out, err = run_job("--nproc-per-node=2", f"--inject={fault}", "sh", "-c", "echo started")
        assert code == 2 and "started" not in out and words in err, (code, out, err)


@test("inject", "a fault whose time never comes is reported")
def too_late() -> None:
    code, _, err = run_job("--nproc-per-node=2", "--inject", "rank=1,at=100s,kind=kill", "true")
    assert code == 0 and "1 fault of --inject did not happen: the ranks exited earlier" in err, (code, err)


@test("inject", "an error quotes the fault once")
def quoted_once() -> None:
    for words in (["--inject", "rank=1,at=1s,kind=shape"], ["--inject=rank=1,at=1s,kind=shape"]):
        code, _, err = run_job("--nproc-per-node=2", *words, "true")
        assert code == 2 and err.count("rank=1,at=1s,kind=shape") == 1, (code, err)


if __name__ == "__main__":
    sys.exit(run_tests())
