#!/usr/bin/env python3
"""stacks_test.py BIN_DIR: checks the report on all ranks with their stacks: upon SIGQUIT, with a warning, and before
a job that hangs is terminated. The ranks use the runtime or Python, are stopped, or block their signals."""
import concurrent.futures
import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
from event_lines import eventually_event, read_events  # noqa: E402

BIN = pathlib.Path(sys.argv[1])


class Run:
    def __init__(self, *options: str, program: tuple, ranks: int = 3, environment: dict | None = None):
        self.folder = tempfile.TemporaryDirectory()
        self.log = pathlib.Path(self.folder.name) / "events"
        self.began = time.monotonic()
        self.process = subprocess.Popen(
            [BIN / "ddplaunch", f"--nproc-per-node={ranks}", f"--log-dir={self.folder.name}/logs",
             f"--event-log={self.log}", *options, *program],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env={**os.environ, **(environment or {})})

    def events(self, name: str) -> list[dict]:
        return [event for event in read_events(self.log) if event["event"] == name]

    def until(self, condition) -> None:
        eventually_event(condition, self.process, "what the test waits for")

    def state(self, state: str) -> dict:
        matching = lambda: [event["stall"] for event in self.events("hang") if event["state"] == state]
        self.until(matching)
        return matching()[-1]

    def pids(self) -> dict[int, int]:
        return {event["rank"]: event["pid"] for event in self.events("worker_started")}

    def end(self) -> str:
        _, err = self.process.communicate(timeout=60)
        return err

    def dumps(self) -> list[dict]:
        return [json.loads(path.read_text()) for path in sorted(pathlib.Path(self.folder.name).rglob("dump_*.json"))]


def frames(stall: dict, rank: int, thread: int = 0) -> str:
    entry = next(entry for entry in stall["stacks"] if entry["rank"] == rank)
    return " ".join(entry["threads"][thread]["frames"]) if entry["threads"] else ""


def missing(stall: dict, rank: int) -> str:
    return "; ".join(next(entry for entry in stall["stacks"] if entry["rank"] == rank)["missing"])


def child_sleeps(pid: int) -> bool:
    """Returns whether a child of the process is in nanosleep()."""
    children = pathlib.Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return any("nanosleep" in pathlib.Path(f"/proc/{child}/wchan").read_text() for child in children)


def a_requested_report_does_not_end_the_job() -> None:
    run = Run(program=(BIN / "hanging_worker", "pause"))
    run.state("stalled")
    run.process.send_signal(signal.SIGQUIT)
    stall = run.state("asked")
    assert stall["code"] == "DDP-H03" and stall["culprits"] == [1], stall
    assert "misbehave" in frames(stall, 1) and "main" in frames(stall, 1), stall["stacks"]
    assert "GroupRunner::run" in frames(stall, 0), stall["stacks"]
    assert all(entry["source"] == "signal handler" for entry in stall["stacks"])
    assert all(len(entry["threads"]) > 1 for entry in stall["stacks"]), "the queue's thread, too"
    time.sleep(0.5)
    assert run.process.poll() is None
    for pid in run.pids().values():
        assert os.path.exists(f"/proc/{pid}")
    run.process.send_signal(signal.SIGQUIT)
    run.until(lambda: len([event for event in run.events("hang") if event["state"] == "asked"]) == 2)
    run.process.terminate()
    err = run.end()
    assert run.process.returncode == -signal.SIGTERM, err
    assert "rank 1 has not called all_reduce" in err and "misbehave" in err and "rank 1:" in err, err
    assert [dump["state"] for dump in run.dumps()] == ["asked", "asked"], run.dumps()
    assert "dump_2.json" in err, err


def a_job_that_hangs_is_dumped_before_its_end() -> None:
    run = Run("--hang-timeout=14", program=(BIN / "hanging_worker", "pause", "20"))
    err = run.end()
    assert run.process.returncode == 124, err
    states = [event["state"] for event in run.events("hang")]
    assert states == ["stalled", "hung"], states
    hung = run.events("hang")[1]["stall"]
    assert "misbehave" in frames(hung, 1) and "main" in frames(hung, 1), hung
    assert len(run.dumps()) == 1 and run.dumps()[0]["stall"]["ends_job"], run.dumps()
    report = err[err.rindex("[DDP-H03 not called], for "):]
    assert report.count("\n") <= 25 and "misbehave" in report, report


def stacks_can_go_to_the_dump_only() -> None:
    run = Run("--hang-timeout=6", "--hang-action=dump", program=(BIN / "hanging_worker", "pause", "20"))
    assert "misbehave" in frames(run.state("hung"), 1)
    assert run.process.poll() is None
    run.process.terminate()
    assert "the job continues (--hang-action)" in run.end()


def ranks_that_cannot_answer_are_reported_with_the_reason() -> None:
    run = Run(program=(BIN / "hanging_worker", "deaf"))
    run.state("stalled")
    os.kill(run.pids()[2], signal.SIGSTOP)
    run.process.send_signal(signal.SIGQUIT)
    stall = run.state("asked")
    assert "did not answer" in missing(stall, 1), stall["stacks"]
    assert "did not answer" in missing(stall, 2), stall["stacks"]
    assert "GroupRunner::run" in frames(stall, 0), stall["stacks"]
    run.process.terminate()
    run.end()


def without_the_handler_and_tools_the_stacks_are_copied() -> None:
    run = Run(program=(BIN / "hanging_worker", "pause"), environment={"DDP_STACK_SIGNAL": "0", "PATH": "/nonexistent"})
    run.state("stalled")
    run.process.send_signal(signal.SIGQUIT)
    stall = run.state("asked")
    assert "does not answer the signal" in missing(stall, 1) and "gdb: not found" in missing(stall, 1), stall["stacks"]
    assert "pause" in frames(stall, 1) and "GroupRunner::run" in frames(stall, 0), stall["stacks"]
    run.process.terminate()
    err = run.end()
    assert "stacks of their main threads" in err and "no stack" not in err, err


def tools_read_programs_without_the_runtime() -> None:
    tools = [tool for tool in ("eu-stack", "gdb") if shutil.which(tool)]
    if not tools:
        print("no eu-stack and no gdb: programs without the runtime are not looked into", flush=True)
        return
    run = Run(program=("sh", "-c", "true; sleep 100; true"), ranks=2)
    run.until(lambda: len(run.pids()) == 2 and all(map(child_sleeps, run.pids().values())))
    run.process.send_signal(signal.SIGQUIT)
    stall = run.state("asked")
    entry = stall["stacks"][0]
    assert entry["source"] in tools and "nanosleep" in frames(stall, 0), entry
    run.process.terminate()
    run.end()


def asked_with_stuck_tools(folder: str) -> Run:
    """Starts a job and asks for the state of its ranks, while all stack tools hang."""
    for name in ("eu-stack", "gdb", "py-spy"):
        tool = pathlib.Path(folder) / name
        tool.write_text("#!/bin/sh\nexec /bin/sleep 1000\n")
        tool.chmod(0o755)
    run = Run(program=("/bin/sleep", "100"), ranks=2, environment={"PATH": folder})
    run.until(lambda: len(run.pids()) == 2)
    run.process.send_signal(signal.SIGQUIT)
    return run


def tools_that_never_end_delay_nothing() -> None:
    with tempfile.TemporaryDirectory() as folder:
        run = asked_with_stuck_tools(folder)
        stall = run.state("asked")
        assert "took too long" in missing(stall, 0), stall["stacks"]
        run.process.terminate()
        run.end()


def a_report_requested_just_before_the_end_is_given() -> None:
    with tempfile.TemporaryDirectory() as folder:
        run = asked_with_stuck_tools(folder)
        run.process.terminate()
        err = run.end()
        assert "state of the ranks:" in err and "rank 1 (pid " in err, err


TESTS = [a_requested_report_does_not_end_the_job, a_job_that_hangs_is_dumped_before_its_end,
         stacks_can_go_to_the_dump_only, ranks_that_cannot_answer_are_reported_with_the_reason,
         without_the_handler_and_tools_the_stacks_are_copied, tools_read_programs_without_the_runtime,
         tools_that_never_end_delay_nothing, a_report_requested_just_before_the_end_is_given]
with concurrent.futures.ThreadPoolExecutor(3) as pool:
    running = {pool.submit(test): test.__name__ for test in TESTS}
    for done in concurrent.futures.as_completed(running):
        done.result()
        print(f"{running[done]}: well", flush=True)
