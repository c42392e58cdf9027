"""Runs a plain PyTorch program in which a rank fails: failing.py NAME. The programs do not use ddplaunch.

A comment "Here." marks the line at which the rank fails.
"""
import ctypes
import datetime
import os
import signal
import sys

import torch
import torch.distributed as dist
from torch.utils.data import DataLoader, Dataset

from common import TENSOR, ddp_model, end, run, start, train_step


def raises() -> None:
    if start() == 1:
        raise ValueError("the loss is NaN")  # Here.
    dist.all_reduce(TENSOR)


def has_a_segmentation_fault() -> None:
    if start() == 1:
        ctypes.string_at(0)
    dist.all_reduce(TENSOR)


def exits_with_three() -> None:
    if start() == 1:
        os._exit(3)
    dist.all_reduce(TENSOR)


def is_killed() -> None:
    if start() == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    dist.all_reduce(TENSOR)


def has_too_little_memory() -> None:
    if start() == 1:
        torch.ones(1 << 50)  # Here.
    dist.all_reduce(TENSOR)


class Numbers(Dataset):
    def __len__(self):
        return 64

    def __getitem__(self, index):
        if index == 40 and os.environ["RANK"] == "1":
            raise OSError("the file is damaged")
        return torch.ones(8)


def has_a_data_loader_whose_worker_raises() -> None:
    start()
    for _ in DataLoader(Numbers(), batch_size=4, num_workers=2):
        dist.all_reduce(TENSOR)
    end()


class Branches(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = torch.nn.ModuleList(torch.nn.Linear(8, 8) for _ in range(2))

    def forward(self, batch, both):
        return self.layers[1](self.layers[0](batch)) if both else self.layers[0](batch)


def has_parameters_that_one_rank_does_not_use() -> None:
    rank = start()
    model = torch.nn.parallel.DistributedDataParallel(Branches(), bucket_cap_mb=0.0001)
    for step in range(20):
        model(torch.ones(2, 8), rank == 0 or step != 10).sum().backward()  # Here.
    end()


def builds_another_model() -> None:
    rank = start()
    torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(8, 8 + rank))  # Here.
    end()


# Gloo aborts a rank that gets more or fewer bytes than it has requested.
def validates_on_rank_zero_alone() -> None:
    rank = start()
    model = ddp_model()
    for step in range(20):
        train_step(model)
        if rank == 0 and step == 10:
            dist.all_reduce(torch.ones(1))
    end()


def has_another_shape() -> None:
    rank = start()
    dist.all_reduce(torch.ones(10 + rank))
    end()


def has_another_type() -> None:
    rank = start()
    dist.all_reduce(torch.ones(10, dtype=torch.float64 if rank else torch.float32))
    end()


# Gloo closes the connections of a rank that ends, and the rank that waits for it fails.
def returns_early() -> None:
    rank = start()
    model = ddp_model()
    for step in range(100):
        if rank == 1 and step == 50:
            return
        train_step(model)
    end()


def exits_in_the_middle() -> None:
    if start() == 1:
        sys.exit(0)
    dist.all_reduce(TENSOR)


def misses_a_monitored_barrier_with_a_timeout() -> None:
    if start() == 1:
        dist.recv(TENSOR, 0)
    dist.monitored_barrier(timeout=datetime.timedelta(seconds=3))  # Here.


def lets_a_collective_time_out() -> None:
    dist.init_process_group("gloo", timeout=datetime.timedelta(seconds=4))
    model = ddp_model()
    for _ in range(20):
        train_step(model)
    print("started", flush=True)
    if dist.get_rank() == 1:
        signal.pause()  # Here.
    dist.all_reduce(TENSOR)


if __name__ == "__main__":
    run(globals())
