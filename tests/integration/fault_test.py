#!/usr/bin/env python3
"""fault_test.py BIN_DIR RUNS [SEED]: runs four ranks of train_charlm on Gloo. Each run has another fault at a random
step of a random rank. Checks the verdict, the culprit, its collective and its place, the exit code, and the time
until the report. Fails at the first wrong result; prints the times."""
import collections
import concurrent.futures
import json
import os
import pathlib
import random
import signal
import statistics
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
from event_lines import eventually_event, read_events  # noqa: E402

BIN = pathlib.Path(sys.argv[1]).resolve()
RUNS = int(sys.argv[2])
SEED = int(sys.argv[3]) if len(sys.argv) > 3 else random.randrange(1 << 30)
RANKS = 4
LIMIT = 8  # --hang-timeout for faults that end the job in no other way; a rank that gets no processor for this long is terminated, too
NEED_LIMIT = ("mutex", "spin")
DELAY = 1.5
AT_ONCE = 3

# Maps a kind to the verdict and the possible exit codes of ddplaunch. With no exit code, the job continues and ends
# well. A rank whose call differs fails by itself, unless it ends so slowly that the launcher terminates the job first.
EXPECTED = {
    "stop": ("DDP-H02", ()),
    "skip": ("DDP-H04", (1, 124)),
    "swap": ("DDP-H04", (1, 124)),
    "shape": ("DDP-H05", (1, 124)),
    "dtype": ("DDP-H05", (1, 124)),
    "kill": (None, (137,)),
    "exit0": ("DDP-H01", (124,)),
    "mutex": ("DDP-H03", (124,)),
    "spin": ("DDP-H03", (124,)),
    "delay": (None, ()),
}


def injected_at(output: pathlib.Path) -> bool:
    return output.exists() and "injected fault" in output.read_text(errors="replace")


def one_run(number: int) -> tuple[str, float]:
    choice = random.Random(f"{SEED}/{number}")
    kind = sorted(EXPECTED)[number % len(EXPECTED)]
    rank = choice.randrange(RANKS)
    step = choice.randrange(12, 120)
    what = f"seed {SEED}, run {number}: {kind} of rank {rank} at step {step}"
    code, exit_codes = EXPECTED[kind]
    with tempfile.TemporaryDirectory() as folder:
        log = pathlib.Path(folder) / "events"
        err = pathlib.Path(folder) / "err"
        spec = f"rank={rank},at=all_reduce:{step},kind={kind}{f'={DELAY}s' if kind == 'delay' else ''}"
        command = [BIN / "ddplaunch", f"--nproc-per-node={RANKS}", "--backend=gloo", *([f"--hang-timeout={LIMIT}"] if kind in NEED_LIMIT else []),
                   f"--event-log={log}", f"--summary={folder}/summary", f"--inject={spec}",
                   BIN / "train_charlm", "--steps", "160", "--checkpoint", ""]
        with open(err, "w", encoding="utf-8") as errors:
            process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=errors, cwd=folder)
        try:
            eventually_event(lambda: injected_at(err), process, f"{what}: the fault's own line")
        except AssertionError as failure:
            raise AssertionError(f"{failure}\n{err.read_text()}") from failure
        began = time.monotonic()

        def events() -> list[dict]:
            return read_events(log)

        def reported() -> dict | None:
            for event in events():
                if event["event"] == "hang" and event["state"] in ("stopped", "hung"):
                    return event["stall"]
                if event["event"] == "attempt_ended":
                    return event["cause"] or {}
            return None

        while reported() is None:
            assert time.monotonic() - began < 60, f"{what}: nothing was told\n{err.read_text()}"
            time.sleep(0.005)
        seconds = time.monotonic() - began
        if kind == "stop":
            stopped = reported()
            assert stopped["code"] == code and stopped["culprits"] == [rank], f"{what}: {stopped}"
            pid = next(e["pid"] for e in events() if e["event"] == "worker_started" and e["rank"] == rank)
            os.kill(pid, signal.SIGCONT)
        assert process.wait(120) in (exit_codes or (0,)), f"{what}: exit code {process.returncode}\n{err.read_text()}"
        text = err.read_text()
        cause = events()[-2]["cause"] if events()[-1]["event"] == "job_ended" else None
        if not exit_codes:
            assert cause is None, f"{what}: {cause}"
            if kind == "delay":
                stragglers = json.loads(pathlib.Path(folder, "summary").read_text())["stragglers"]["ranks"]
                # On a busy computer other ranks may have been waited for, too.
                longest = max((entry["longest_wait_seconds"] for entry in stragglers if entry["rank"] == rank), default=0)
                assert longest > DELAY / 3, f"{what}: {stragglers}"
            return kind, seconds
        verdict = cause.get("stall") or cause.get("verdict")
        culprits = verdict["culprits"] if verdict else [cause["rank"]]
        assert culprits == [rank], f"{what}: culprits {culprits}\n{text}"
        if code is not None:
            assert verdict["code"] == code and f"[{code} " in text, f"{what}: {verdict['code']}\n{text}"
        # The rank's collective and the place of the call appear in the verdict, or in the errors of the secondary
        # failures.
        if code not in (None, "DDP-H01"):
            assert "all_reduce" in verdict["call"] and verdict["number"] > 0, f"{what}: {verdict}"
        if kind not in ("kill",):
            assert "train_charlm.cpp:" in text and "bucket" in text, f"{what}\n{text}"
        return kind, seconds


times = collections.defaultdict(list)
with concurrent.futures.ThreadPoolExecutor(AT_ONCE) as pool:
    running = [pool.submit(one_run, number) for number in range(RUNS)]
    try:
        for done in concurrent.futures.as_completed(running):
            kind, seconds = done.result()
            times[kind].append(seconds)
    except BaseException:
        for future in running:
            future.cancel()
        raise
print(f"seed {SEED}: {RUNS} runs, no wrong culprit, no wrong verdict; from the fault to the first word, in seconds:")
for kind, seconds in sorted(times.items()):
    print(f"  {kind:6} {len(seconds):4} runs  median {statistics.median(seconds):6.3f}  longest {max(seconds):6.3f}")
