#!/usr/bin/env python3
"""nccl_hang_time.py BIN_DIR [RUNS]: how soon a rank is named that leaves its collectives, in a program that uses NCCL
and not the runtime. A fake NCCL without a GPU loads the plug-in (tests/support/fake_gpu).

The three jobs are those with which Ray Train tests its detector over NCCL's RAS (ray-project/ray,
release/train_tests/health: nccl_hang.py and collective_join.py), without Ray:

  leave  Four ranks all-reduce every 50 ms. Rank 1 leaves at step 100.
  slow   Four ranks in two groups of rows and two of columns, with steps of 6 s. Rank 1 pauses for 18 s before every
         fifth step. This is no hang.
  wedge  The same four ranks. Rank 1 leaves its row at step 6.

Prints, for each job, the seconds from the fault to the first report that names the rank, and what it says.
"""
import os
import pathlib
import re
import statistics
import subprocess
import sys
import tempfile
from datetime import datetime, timezone

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
from event_lines import read_events  # noqa: E402

BIN = pathlib.Path(sys.argv[1])
RUNS = int(sys.argv[2]) if len(sys.argv) > 2 else 5


def seconds(event: dict) -> float:
    time = datetime.strptime(event["time"], "%Y-%m-%dT%H:%M:%S.%fZ")
    return time.replace(tzinfo=timezone.utc).timestamp()


def run(kind: str, step: int, steps: int, milliseconds: int, *options: str) -> tuple[float | None, list[dict], int]:
    with tempfile.TemporaryDirectory() as folder:
        job = subprocess.run([BIN / "ddplaunch", "--nproc-per-node=4", f"--event-log={folder}/events", *options,
                              BIN / "nccl_program", kind, str(step), str(steps), str(milliseconds)],
                             stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=600, check=False,
                             env={**os.environ, "HANG_FOLDER": folder,
                                  "NCCL_PROFILER_PLUGIN": str(BIN / "libnccl-profiler-ddplaunch.so"),
                                  "LD_LIBRARY_PATH": str(BIN.parent / "tests/fake_gpu")})
        reports = [event for event in read_events(pathlib.Path(folder) / "events") if event["event"] == "hang"]
    fault = re.search(r"rank 1 calls nothing from ([0-9.]+) on", job.stdout)
    return float(fault[1]) if fault else None, reports, job.returncode


def leaves(name: str, limit: int, *arguments) -> None:
    first, last, said = [], [], ""
    for _ in range(RUNS):
        fault, reports, code = run(*arguments, f"--hang-timeout={limit}")
        assert code == 124 and fault is not None, (code, reports)
        named = [event for event in reports if event["stall"]["culprits"] == [1]]
        first.append(seconds(named[0]) - fault)
        last.append(seconds(named[-1]) - fault)
        said = named[0]["text"][0]
    print(f"{name:5}  named after {statistics.median(first):.1f} s ({min(first):.1f} to {max(first):.1f}), "
          f"ended after {statistics.median(last):.1f} s with --hang-timeout={limit}, {RUNS} runs\n       {said}", flush=True)


def slow_steps() -> None:
    _, reports, code = run("slow_grid", 18, 12, 6000)
    states = sorted({event["state"] for event in reports})
    print(f"slow   exit {code}; reports: {', '.join(states) or 'none'}", flush=True)


leaves("leave", 20, "skip", 100, 100_000, 50)
leaves("wedge", 30, "grid", 6, 100_000, 6000)
slow_steps()
