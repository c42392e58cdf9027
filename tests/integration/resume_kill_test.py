#!/usr/bin/env python3
"""Kills a training at random moments, with SIGKILL. It always continues, from a step at most one interval back. Its
result is bit-identical to a run that was never interrupted.

    resume_kill_test.py BIN_DIR [KILLS=12]

One of every four kills hits all processes at the same time, the others hit one rank or the launcher. If checkpoints are
written in the background, the newest may be one interval older, because the last one is still being written. Prints its
seed.
"""
import os
import pathlib
import random
import re
import signal
import subprocess
import sys
import tempfile
import time

BIN = pathlib.Path(sys.argv[1])
KILLS = int(sys.argv[2]) if len(sys.argv) > 2 else 12
SEED = int(os.environ.get("DDP_TEST_SEED") or random.randrange(2**32))
STEPS, SAVE_EVERY, RANKS = 3000, 20, 2
draw = random.Random(SEED)
FACTOR = int(os.environ.get("DDP_TEST_TIME_FACTOR", "1"))


def start(directory: pathlib.Path, background: bool) -> subprocess.Popen:
    words = [BIN / "ddplaunch", "-q", "--no-tag", f"--nproc-per-node={RANKS}", "--backend=cpu", BIN / "elastic_resume",
             "--directory", directory, "--steps", STEPS, "--save-every", SAVE_EVERY]
    # The job gets its own session, so that the remains of a killed job can be found and killed.
    return subprocess.Popen([str(word) for word in [*words, *(["--background"] if background else [])]],
                            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, start_new_session=True)


def descendants(pid: int) -> list[int]:
    """Returns all descendants of a process, from the kernel's lists of children."""
    found = []
    try:
        for task in pathlib.Path(f"/proc/{pid}/task").iterdir():
            for child in (task / "children").read_text().split():
                found += [int(child), *descendants(int(child))]
    except OSError:
        pass
    return found


def is_worker(pid: int) -> bool:
    try:
        return pathlib.Path(f"/proc/{pid}/comm").read_text().strip() == "elastic_resume"
    except OSError:
        return False


def kill(job: subprocess.Popen) -> str:
    processes = [job.pid, *descendants(job.pid)]
    workers = [pid for pid in processes if is_worker(pid)]
    what = draw.choice(["everything", "a rank", "a rank", "the launcher"])
    killed = {"everything": processes, "a rank": [draw.choice(workers)] if workers else [], "the launcher": [job.pid]}[what]
    for pid in killed:
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
    return what


def end(job: subprocess.Popen) -> str:
    """Returns all that the job has printed, once no process of it has its output open."""
    return job.communicate(timeout=120 * FACTOR)[0]


def finished(text: str) -> str:
    return re.search(r"finished at step \d+, parameters (\w+)", text)[1]


def run(folder: pathlib.Path, background: bool, kills: int, expected: str) -> None:
    killed = {"everything": 0, "a rank": 0, "the launcher": 0}
    saved = 0  # the last step that was reported as saved
    number = 0
    directory = folder / "run0"
    while sum(killed.values()) < kills:
        job = start(directory, background)
        time.sleep(draw.uniform(0.0, 0.6) * FACTOR)
        what = kill(job) if job.poll() is None else ""
        text = end(job)
        begun = re.search(r"(?:goes on from|begins at) step (\d+)", text)
        where = f"DDP_TEST_SEED={SEED}, background={background}, run {number}, killed {what}:\n{text}"
        assert "passed over" not in text, where
        if begun:
            allowed = SAVE_EVERY if background else 0
            assert saved - allowed <= int(begun[1]), f"lost steps: saved {saved}, {where}"
            steps = [int(step) for step in re.findall(r"^step (\d+) loss", text, re.MULTILINE)]
            saved = max([int(begun[1]), *steps])
        if what:
            killed[what] += 1
        if "finished" in text:
            assert finished(text) == expected, f"other bits: expected {expected}, {where}"
            number += 1
            saved = 0
            directory = folder / f"run{number}"
    # The last training runs to its end.
    text = end(start(directory, background))
    assert finished(text) == expected, f"other bits: expected {expected}, seed {SEED}\n{text}"
    assert not list(directory.glob(".removing*")), list(directory.iterdir())
    print(f"background={background}: killed {killed}, {number + 1} trainings ended with the same bits")


def main() -> int:
    print(f"DDP_TEST_SEED={SEED}")
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        expected = finished(end(start(folder / "whole", False)))
        for background in (False, True):
            (folder / str(background)).mkdir()
            run(folder / str(background), background, KILLS // 2, expected)
    return 0


if __name__ == "__main__":
    sys.exit(main())
