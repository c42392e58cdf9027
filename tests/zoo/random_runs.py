#!/usr/bin/env python3
"""random_runs.py BIN_DIR RUNS [--seed S] [--torch]: runs healthy training jobs under default options, while something
disturbs them. The disturbances are: hogs on all processors, a CPU quota, SIGSTOP and SIGCONT of a rank or of all
processes, a slow link between the ranks, a busy disk. Disturbances that need root or a control group are skipped if
these are not available. Fails if a job is terminated, or if a report is louder than a note. Prints the seed and a
table.

With --torch the job is a PyTorch script (with the Python of the environment "pytorch").
"""
import argparse
import collections
import concurrent.futures
import contextlib
import json
import os
import pathlib
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
import environments  # noqa: E402  (it is in another folder)
from stuck_program import descendants  # noqa: E402

AT_ONCE = 4
PATIENCE = 300
RANKS = 4
TORCH = """
import time
import torch, torch.distributed as dist
dist.init_process_group("gloo")
x = torch.ones(1000)
for step in range(60):
    time.sleep(0.02)
    dist.all_reduce(x)
    x /= dist.get_world_size()
dist.barrier()
"""


def workers(log: pathlib.Path) -> list[int]:
    text = log.read_text(errors="replace") if log.exists() else ""
    events = [json.loads(line) for line in text.splitlines(keepends=True) if line.endswith("\n")]
    return [event["pid"] for event in events if event["event"] == "worker_started"]


def send(pids: list[int], number: int) -> None:
    for pid in pids:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(pid, number)


@contextlib.contextmanager
def nothing(job, choice):
    yield


@contextlib.contextmanager
def hogs(job, choice):
    running = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(choice.randint(2, 8))]
    yield
    for hog in running:
        hog.kill()
        hog.wait()


@contextlib.contextmanager
def busy_disk(job, choice):
    with tempfile.NamedTemporaryFile() as file:
        writer = subprocess.Popen(["dd", "if=/dev/zero", f"of={file.name}", "bs=1M", "count=300", "oflag=dsync", "status=none"])
        yield
        writer.kill()
        writer.wait()


def stop_and_continue(who):
    @contextlib.contextmanager
    def disturb(job, choice):
        time.sleep(choice.uniform(0.2, 2))
        for _ in range(choice.randint(1, 3)):
            pids = who(job, choice)
            send(pids, signal.SIGSTOP)
            time.sleep(choice.uniform(0.1, 8))
            send(pids, signal.SIGCONT)
            time.sleep(choice.uniform(0.1, 1))
        yield
    return disturb


# In version 1 and in version 2, control groups limit processors with: the folder, the file, a hundredth of a processor,
# no limit.
QUOTAS = [(pathlib.Path("/sys/fs/cgroup/cpu"), "cpu.cfs_quota_us", "1000", "-1"),
          (pathlib.Path("/sys/fs/cgroup"), "cpu.max", "1000 100000", "max")]


def group_with_quota():
    """Returns a new control group with a hundredth of a processor, and a function that removes the limit. Returns
    None if the kernel or the user's rights do not allow it."""
    for root, file, limit, no_limit in QUOTAS:
        with contextlib.suppress(OSError):
            group = pathlib.Path(tempfile.mkdtemp(prefix="random_runs.", dir=root))
            try:
                with (group / file).open("r+") as quota:
                    quota.write(limit)
                return group, lambda: (group / file).write_text(no_limit)
            except OSError:
                group.rmdir()
    return None


@contextlib.contextmanager
def throttled(job, choice):
    """Gives all ranks together a hundredth of a processor for a while."""
    time.sleep(choice.uniform(0.1, 0.5))
    group, lift = group_with_quota()
    for pid in workers(job.log):
        with contextlib.suppress(OSError):  # the worker has ended
            (group / "cgroup.procs").write_text(str(pid))
    time.sleep(choice.uniform(1, 12))
    lift()
    yield
    group.rmdir()


@contextlib.contextmanager
def stopped_often(job, choice):
    """Stops the ranks ten times per second, for nine tenths of the time."""
    end = time.monotonic() + choice.uniform(1, 8)
    while time.monotonic() < end:
        pids = workers(job.log)
        send(pids, signal.SIGSTOP)
        time.sleep(0.09)
        send(pids, signal.SIGCONT)
        time.sleep(0.01)
    yield


DISTURBANCES = {
    "nothing": nothing,
    "hogs": hogs,
    "busy disk": busy_disk,
    "throttled": throttled,
    "stopped ten times a second": stopped_often,
    "a rank is stopped": stop_and_continue(lambda job, choice: [choice.choice(workers(job.log))] if workers(job.log) else []),
    "all ranks are stopped": stop_and_continue(lambda job, choice: workers(job.log)),
    "everything is stopped": stop_and_continue(lambda job, choice: descendants(job.process.pid)),
    "slow link": nothing,  # Job() makes the link slow
}


class Job:
    def __init__(self, folder: str, program: list, slow_link: bool, choice: random.Random):
        self.log = pathlib.Path(folder) / "events"
        command = [str(BIN / "ddplaunch"), f"--nproc-per-node={RANKS}", f"--event-log={self.log}", *map(str, program)]
        if slow_link:
            # Packets that would wait for longer than the latency are lost.
            link = f"rate {choice.randint(2, 50)}mbit burst 128kb latency {choice.randint(50, 500)}ms"
            command = ["unshare", "-n", "sh", "-c", f'ip link set lo up && tc qdisc add dev lo root tbf {link} && exec "$@"', "sh", *command]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=folder,
                                        env=dict(os.environ, OMP_NUM_THREADS="1"))


def one_run(number: int) -> tuple[str, str, int]:
    choice = random.Random(f"{arguments.seed}/{number}")
    name = list(DISTURBANCES)[number % len(DISTURBANCES)]
    with tempfile.TemporaryDirectory() as folder:
        if arguments.torch:
            script = pathlib.Path(folder) / "train.py"
            script.write_text(TORCH)
            program = ["--no-python", PYTHON, script]
        else:
            # A step moves more than a megabyte.
            steps = choice.randint(5, 20) if name == "slow link" else choice.randint(50, 400)
            program = [f"--backend={choice.choice(['gloo', 'cpu'])}", BIN / "train_charlm", "--steps", steps,
                       "--checkpoint", folder + "/checkpoint"]
        job = Job(folder, program, name == "slow link", choice)
        with DISTURBANCES[name](job, choice):
            try:
                _, err = job.process.communicate(timeout=PATIENCE)
            except subprocess.TimeoutExpired:
                send(descendants(job.process.pid), signal.SIGKILL)
                return name, f"run {number}: did not end: {job.process.communicate()[1]}", 0
        text = job.log.read_text(errors="replace")
        states = [json.loads(line)["state"] for line in text.splitlines() if '"event":"hang"' in line]
        loud = [state for state in states if state in ("warned", "hung")]
        fault = f"run {number}: exit code {job.process.returncode}, {loud}\n{err}" if job.process.returncode != 0 or loud else ""
        return name, fault, states.count("stalled")


parser = argparse.ArgumentParser()
parser.add_argument("bin", type=pathlib.Path)
parser.add_argument("runs", type=int)
parser.add_argument("--seed", type=int, default=random.randrange(1 << 30))
parser.add_argument("--torch", action="store_true")
arguments = parser.parse_args()
BIN = arguments.bin.resolve()
PYTHON = environments.need("pytorch") if arguments.torch else ""
if os.geteuid() != 0 or not shutil.which("tc"):
    del DISTURBANCES["slow link"]
if not (probe := group_with_quota()):
    del DISTURBANCES["throttled"]
else:
    probe[0].rmdir()
print(f"seed {arguments.seed}", flush=True)
table = collections.defaultdict(lambda: [0, 0, 0])
with concurrent.futures.ThreadPoolExecutor(AT_ONCE) as pool:
    for name, fault, notes in pool.map(one_run, range(arguments.runs)):
        table[name][0] += 1
        table[name][1] += bool(fault)
        table[name][2] += notes
        if fault:
            print(f"{name}: {fault}", flush=True)
print("| disturbance | runs | false ends or loud reports | notes |\n|---|---|---|---|")
for name, (runs, faults, notes) in table.items():
    print(f"| {name} | {runs} | {faults} | {notes} |")
sys.exit(1 if any(faults for _, faults, _ in table.values()) else 0)
