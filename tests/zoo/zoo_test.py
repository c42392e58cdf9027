#!/usr/bin/env python3
"""zoo_test.py BIN_DIR [dozen|healthy|hanging|NAME]...: runs programs that are healthy and look as if
they hung, and programs that hang, under ddplaunch. All options are the default; only the limit for a rank without a
sign of life is shortened.

Healthy programs may cause nothing but notes. For each hang, expected.py has the verdict, the ranks that are named, the
reason for the end of the job, and the exit code.
"""
import concurrent.futures
import dataclasses
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
import environments  # noqa: E402  (it is in another folder)
from expected import DOZEN, HANGING, OWN_NETWORK, launched  # noqa: E402

STILL_LIMIT = 15  # seconds, instead of 30 minutes
USERS_LIMIT = 6   # seconds of --hang-timeout, if it is given
AT_ONCE = 16
PATIENCE = 600  # seconds beyond the limit; a busy computer takes few samples, and the time between them does not count


@dataclasses.dataclass
class Seen:
    what: str
    err: str
    fault: str = ""


def names_of(program: list) -> list[str]:
    return subprocess.run([*program, "list"], capture_output=True, text=True, check=True).stdout.split()


def command_of(name: str) -> list:
    return [*(FOREIGN if name in WITHOUT_RUNTIME else NATIVE), name]


class Job:
    def __init__(self, name: str, ranks: int, *options: str):
        self.name = name
        self.folder = tempfile.TemporaryDirectory()
        self.log = pathlib.Path(self.folder.name) / "events"
        self.began = time.monotonic()
        # The job gets its own process group, so that the zoo's programs cannot stop or kill other processes.
        self.process = subprocess.Popen(
            launched(name, BIN / "ddplaunch", [f"--nproc-per-node={ranks}", f"--event-log={self.log}", *options], command_of(name)),
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, process_group=0, cwd=self.folder.name,
            env=dict(os.environ, OMP_NUM_THREADS="1", DDP_TEST_STILL_LIMIT=str(STILL_LIMIT)))

    def events(self) -> list[dict]:
        text = self.log.read_text(errors="replace") if self.log.exists() else ""
        return [json.loads(line) for line in text.splitlines(keepends=True) if line.endswith("\n")]

    def stalls(self, *states: str) -> list[dict]:
        return [event for event in self.events() if event["event"] == "hang" and (event["state"] in states or not states)]

    def wait(self, until=lambda: False) -> None:
        while self.process.poll() is None and not until():
            if time.monotonic() - self.began > PATIENCE + STILL_LIMIT:
                return
            time.sleep(0.1)

    def end(self) -> Seen:
        if self.process.poll() is None:
            self.process.terminate()
        out, err = self.process.communicate(timeout=60)
        return Seen(out, err)


def healthy(name: str) -> Seen:
    job = Job(name, 3)
    job.wait()
    is_late = job.process.poll() is None
    seen = job.end()
    loud = job.stalls("warned", "hung")
    if is_late or job.process.returncode != 0 or "done" not in seen.what or loud:
        seen.fault = f"exit code {job.process.returncode}, {'late, ' if is_late else ''}{loud}"
    seen.what = "undisturbed" if not seen.fault else "disturbed"
    return seen


def hanging(name: str) -> Seen:
    expected = HANGING[name]
    job = Job(name, expected.ranks, *([f"--hang-timeout={USERS_LIMIT}"] if expected.outcome == "users_limit" else []))
    if expected.outcome == "reported":
        job.wait(lambda: job.stalls("stalled", "stopped"))
        time.sleep(2.1 * STILL_LIMIT)
        is_alive = job.process.poll() is None
        stall = (job.stalls("stalled", "stopped") or [{"stall": {}}])[0]["stall"]
        seen = job.end()
        seen.what = f"reported {stall.get('code')} {stall.get('culprits')}"
        if not is_alive or stall.get("code") != expected.code or stall.get("culprits") != expected.culprits:
            seen.fault = f"alive: {is_alive}, {stall}"
        return seen
    job.wait()
    is_late = job.process.poll() is None
    seen = job.end()
    ends = [event for event in job.events() if event["event"] == "attempt_ended"]
    cause = (ends[0]["cause"] if ends else None) or {}
    verdict = cause.get("stall") or cause.get("verdict") or {"culprits": [cause.get("rank")]}
    outcome = cause["stall"].get("class") if "stall" in cause else "failed"
    # Either the ranks or the launcher detect first that calls differ.
    codes = {None: (137,), "DDP-H04": (1, 124), "DDP-H05": (1, 124)}.get(expected.code, (124,))
    right_class = outcome == expected.outcome or (expected.outcome == "failed" and outcome == "certain")
    seen.what = f"terminated ({outcome}) {verdict.get('code')} {verdict.get('culprits')}"
    if (is_late or verdict.get("code") != expected.code or verdict.get("culprits") != expected.culprits or not right_class
            or job.process.returncode not in codes):
        seen.fault = f"{'late, ' if is_late else ''}exit code {job.process.returncode}, {outcome}, {cause}"
    return seen


def expected_text(name: str) -> str:
    if name not in HANGING:
        return "undisturbed"
    hang = HANGING[name]
    return f"{'reported' if hang.outcome == 'reported' else f'terminated ({hang.outcome})'} {hang.code} {hang.culprits}"


BIN = pathlib.Path(sys.argv[1]).resolve()
NATIVE = [BIN / "zoo"]
FOREIGN = [environments.find("pytorch") or environments.DEBIAN, pathlib.Path(__file__).resolve().with_name("zoo.py")]
WITHOUT_RUNTIME = names_of(FOREIGN)
ALL = names_of(NATIVE) + WITHOUT_RUNTIME
HEALTHY = [name for name in ALL if name not in HANGING]
assert HANGING.keys() | set(DOZEN) <= set(ALL) | OWN_NETWORK, (HANGING.keys() | set(DOZEN)) - set(ALL)
for name in HANGING.keys() - set(ALL):
    print(f"{name}: left out, it needs root and tc")
names = sys.argv[2:]
if "dozen" in names:
    names = [name for name in DOZEN if name in ALL]
wanted = [name for name in ALL if not names or name in names or ("hanging" if name in HANGING else "healthy") in names]
failed = 0
with concurrent.futures.ThreadPoolExecutor(AT_ONCE) as pool:
    running = {pool.submit(hanging if name in HANGING else healthy, name): name for name in wanted}
    for done in concurrent.futures.as_completed(running):
        name, seen = running[done], done.result()
        if seen.fault:
            failed += 1
            print(f"{name}: expected {expected_text(name)}, seen {seen.what}: {seen.fault}\n{seen.err}", flush=True)
        else:
            print(f"{name}: {seen.what}", flush=True)
print(f"{len(wanted) - failed} as expected, {failed} not")
sys.exit(1 if failed or not wanted else 0)
