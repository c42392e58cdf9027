"""Provides functions and data for the programs of the PyTorch zoo."""
import os
import sys
import tempfile
import time

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

TENSOR = torch.ones(1024)


def start() -> int:
    """Makes the process group, calls 20 collectives and returns the rank."""
    dist.init_process_group("gloo")
    for _ in range(20):
        dist.all_reduce(TENSOR)
    print("started", flush=True)
    return dist.get_rank()


def start_at(path, rank, size) -> None:
    """Does the same as start(), with a file as the store."""
    dist.init_process_group("gloo", init_method=f"file://{path}", rank=rank, world_size=size)
    for _ in range(20):
        dist.all_reduce(TENSOR)
    print("started", flush=True)


def shared_path(name) -> str:
    """Returns a path that is the same for all ranks of a job, and differs between jobs."""
    return f"{tempfile.gettempdir()}/zoo_{name}_{os.environ['MASTER_PORT']}_{os.getppid()}"


def end() -> None:
    dist.barrier()
    dist.destroy_process_group()


def ddp_model(**options) -> DistributedDataParallel:
    return DistributedDataParallel(torch.nn.Linear(8, 8), **options)


def train_step(model) -> None:
    model(torch.ones(2, 8)).sum().backward()


def compute(seconds) -> None:
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        torch.mm(torch.ones(200, 200), torch.ones(200, 200))


def run(programs) -> None:
    """Runs the function that the command line names."""
    programs[sys.argv[1]]()
