#!/usr/bin/env python3
"""torch_leave_test.py DDPLAUNCH [all | NAME...]: tests that PyTorch programs whose ranks end at different times around
a collective are left alone, and that a rank that is missing from one is named within seconds. Uses the Python of the
environment "pytorch". zoo_ends.cpp has the same for programs with the runtime.

A name is an operation and a way, such as "gather.late". Each way is tried with each operation:

- late: rank 1 does its part later than the others. Each rank ends as soon as it has done its own.
- staggered: rank 2 ends at once, rank 1 after a while, and rank 0 does not wait for its work before that.
- pair: rank 2 ends, and rank 1 comes late to the same operation of ranks 0 and 1.
- exits: rank 1 ends without its part.
- sleeps: rank 1 sleeps for ever instead of its part.

Without names, two programs run, because importing PyTorch takes about two seconds of CPU time per rank.
"""
import atexit
import os
import pathlib
import re
import subprocess
import sys
import time

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "support"))
import environments  # noqa: E402  (it is in another folder)
from named_runs import run_named  # noqa: E402

OPERATIONS = ["all_reduce", "broadcast", "reduce", "gather", "scatter", "all_gather", "reduce_scatter", "all_to_all",
              "barrier", "send"]
HEALTHY = ["late", "staggered", "pair"]
MISSING = ["exits", "sleeps"]
IN_THE_SUITE = ["gather.late", "broadcast.exits"]
RANKS = 3
WHILE = 14  # seconds; longer than the launcher needs to end a job for a rank that has exited
NAMED_WITHIN = 10.5  # seconds for which the others have waited
LIMIT = 200  # seconds for one job on a busy computer
AT_ONCE = 3


def take_part(operation, dist, torch, group, ranks, is_async=False):
    """Takes part in an operation of these ranks. Returns the work, which may be done."""
    rank, size = dist.get_rank(), len(ranks)
    mine, all_parts = torch.ones(4), [torch.ones(4) for _ in ranks]
    options = {"group": group, "async_op": is_async}
    if operation == "gather":
        return dist.gather(mine, all_parts if rank == 0 else None, 0, **options)
    if operation == "scatter":
        return dist.scatter(mine, all_parts if rank == 0 else None, 0, **options)
    if operation in ("broadcast", "reduce"):
        return getattr(dist, operation)(mine, 0, **options)
    if operation == "all_gather":
        return dist.all_gather(all_parts, mine, **options)
    if operation == "reduce_scatter":
        return dist.reduce_scatter_tensor(mine, torch.ones(4 * size), **options)
    if operation == "all_to_all":
        return dist.all_to_all_single(torch.ones(size), torch.ones(size), **options)
    if operation == "all_reduce":
        return dist.all_reduce(mine, **options)
    if operation == "barrier":
        return dist.barrier(**options)
    if rank > 0:  # the values are passed on
        dist.recv(mine, ranks[rank - 1], group=group)
    return dist.isend(mine, ranks[rank + 1], group=group) if rank + 1 < size else None


def work(operation, way):
    """Runs in each rank."""
    import torch
    import torch.distributed as dist

    dist.init_process_group("gloo")
    pair = dist.new_group([0, 1]) if way == "pair" else None
    for _ in range(20):
        dist.all_reduce(torch.ones(4))
    rank, everyone = dist.get_rank(), list(range(RANKS))
    if rank == 1 and way == "late":
        time.sleep(WHILE)
    if rank == 1 and way in MISSING:
        print("missing", flush=True)
        if way == "exits":
            return
        time.sleep(LIMIT * 2)
    done = take_part(operation, dist, torch, None, everyone, is_async=way == "staggered")
    if rank == 1 and way == "staggered":
        time.sleep(WHILE)
    if rank == 0 and way == "staggered":
        time.sleep(2 * WHILE)
    if done is not None:
        done.wait()
    if rank < 2 and way == "pair":
        if rank == 1:
            time.sleep(WHILE)
        sent = take_part(operation, dist, torch, pair, [0, 1])
        if sent is not None:
            sent.wait()
    print(f"done {rank}", flush=True)


class Job:
    """Runs a program once."""

    def __init__(self, python, operation, way):
        command = [sys.argv[1], "--no-tag", f"--nproc-per-node={RANKS}", python, __file__, "--worker", operation, way]
        self.output = ""
        with subprocess.Popen(command, text=True, errors="replace", stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                              env={**os.environ, "PYTHONUNBUFFERED": "1"}) as job:
            for line in job.stdout:
                self.output += line
                if way == "sleeps" and " [DDP-" in line:
                    job.terminate()  # the launcher ends its job
            self.code = job.wait(timeout=LIMIT)


def fault_of_healthy(job):
    if job.code != 0:
        return f"exit code {job.code}"
    done = len(re.findall(r"^done \d$", job.output, re.M))
    return "" if done == RANKS else f"{done} ranks are done"


def fault_of_missing(job):
    """Gloo's ranks fail at once if they lose a peer. Then the launcher says which ranks had exited before."""
    verdict = re.search(r"^ddplaunch: .*\brank 1 .*  \[DDP-H\d+ .*\](?:, for ([\d.]+) s)?$", job.output, re.M)
    is_lost = re.search(r"^ddplaunch:   it lost another rank: ranks? (\d, )*1(, \d)* had already exited with code 0$",
                        job.output, re.M)
    if not verdict and not is_lost:
        return "rank 1 is not named"
    if verdict and verdict[1] and float(verdict[1]) > NAMED_WITHIN:
        return f"rank 1 is named after {verdict[1]} s"
    return "exit code 0" if job.code == 0 else ""


def run(python, name):
    operation, way = name.split(".")
    job = Job(python, operation, way)
    fault = fault_of_missing(job) if way in MISSING else fault_of_healthy(job)
    return fault, job.output


def main():
    python = environments.need("pytorch")
    os.environ["PATH"] = environments.path_with(python)
    wanted = sys.argv[2:] or IN_THE_SUITE
    if wanted == ["all"]:
        wanted = [f"{operation}.{way}" for way in HEALTHY + MISSING for operation in OPERATIONS]
    return run_named(wanted, lambda name: run(python, name), AT_ONCE)


if sys.argv[1] == "--worker":
    work(*sys.argv[2:])
    # Ends as Python does, without the rest of its shutdown, in which PyTorch 2.13 sometimes aborts, also under torchrun:
    # see torch_train.py.
    atexit._run_exitfuncs()
    os._exit(0)
else:
    sys.exit(main())
