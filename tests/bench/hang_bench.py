#!/usr/bin/env python3
"""hang_bench.py BIN_DIR [RANKS]: measures the cost of hang detection. Prints what the status page costs per
collective, also as a share of a step of train_charlm. Prints the launcher's processor time with many workers that do
little, with hang detection and with --hang-timeout=0. All values are medians."""
import os
import pathlib
import re
import statistics
import subprocess
import sys
import tempfile
import time

BIN = pathlib.Path(sys.argv[1]).resolve()
RANKS = int(sys.argv[2]) if len(sys.argv) > 2 else 64
SECONDS = 10
TICKS = os.sysconf("SC_CLK_TCK")


def processor_time(pid: int) -> float:
    fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(") ", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / TICKS


def launcher_share(*words: str) -> float:
    command = [BIN / "ddplaunch", "-q", f"--nproc-per-node={RANKS}", *words, BIN / "progress_bench", "idle"]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        time.sleep(5)
        supervisor = int(pathlib.Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()[0])
        began, before = time.monotonic(), processor_time(supervisor)
        time.sleep(SECONDS)
        share = (processor_time(supervisor) - before) / (time.monotonic() - began)
        process.terminate()
    return 100 * share


def step_milliseconds() -> tuple[float, int]:
    """Returns the milliseconds of a step of train_charlm with 4 ranks, and the number of collectives in it."""
    with tempfile.TemporaryDirectory() as folder:
        def seconds(steps: int) -> float:
            began = time.monotonic()
            subprocess.run([BIN / "ddplaunch", "-q", "--nproc-per-node=4", BIN / "train_charlm", "--steps", str(steps),
                            "--checkpoint", ""], check=True, stdout=subprocess.DEVNULL, cwd=folder)
            return time.monotonic() - began
        return 1000 * statistics.median((seconds(900) - seconds(100)) / 800 for _ in range(3)), 1


costs = [float(re.search(r"collective ([\d.]+) ns", subprocess.run([BIN / "progress_bench"], capture_output=True, text=True,
                                                                   check=True).stdout)[1]) for _ in range(5)]
step, collectives = step_milliseconds()
page = statistics.median(costs)
print(f"the page: {page:.1f} ns a collective; a step of train_charlm on 4 ranks: {step:.2f} ms, so {100 * collectives * page / 1e6 / step:.4f} % of it")
off, on = [], []
for _ in range(3):
    off.append(launcher_share("--hang-timeout=0"))
    on.append(launcher_share("--hang-timeout=600"))
print(f"the launcher with {RANKS} workers: {statistics.median(on):.2f} % of a core; without looking for hangs {statistics.median(off):.2f} %")
