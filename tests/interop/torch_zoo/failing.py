"""Runs a plain PyTorch program in which a rank fails: failing.py NAME. The programs do not use ddplaunch.

A comment "Here." marks the line at which the rank fails.
"""
import datetime
import signal

import torch
import torch.distributed as dist

from common import TENSOR, ddp_model, end, run, start, train_step


def raises() -> None:
    if start() == 1:
        raise ValueError("the loss is NaN")  # Here.
    dist.all_reduce(TENSOR)


# Gloo aborts a rank that gets more or fewer bytes than it has requested.
def has_another_shape() -> None:
    rank = start()
    dist.all_reduce(torch.ones(10 + rank))
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
