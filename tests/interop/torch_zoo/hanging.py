"""Runs a plain PyTorch program that hangs: hanging.py NAME. The programs do not use ddplaunch.

A comment "Here." marks the line of the rank that the others wait for.
"""
import os
import re
import signal
import threading
import time

import torch
import torch.distributed as dist
from torch.utils.data import DataLoader, Dataset

from common import TENSOR, ddp_model, end, run, shared_path, start, start_at, train_step


# A rank does something else forever, and the others wait in a collective.
def spins() -> None:
    if start() == 1:
        while True:  # Here.
            pass  # Here.
    dist.all_reduce(TENSOR)


def holds_the_interpreter() -> None:
    if start() == 1:
        re.match("(a+)+$", "a" * 60 + "b")  # Here.
    dist.all_reduce(TENSOR)


def sleeps() -> None:
    if start() == 1:
        time.sleep(3600)  # Here.
    dist.broadcast(TENSOR, 0)


def stops() -> None:
    if start() == 1:
        os.kill(os.getpid(), signal.SIGSTOP)  # Here.
    dist.all_reduce(TENSOR)


# Not all ranks take all steps of the training.
def sleeps_in_a_step_of_ddp() -> None:
    rank = start()
    model = ddp_model()
    for step in range(100):
        if rank == 1 and step == 50:
            time.sleep(3600)  # Here.
        train_step(model)
    end()


def leaves_out_a_step_of_ddp() -> None:
    rank = start()
    model = ddp_model()
    for step in range(100):
        if rank == 1 and step == 50:
            continue
        train_step(model)
    end()


def leaves_out_a_forward_of_fsdp2() -> None:
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard

    rank = start()
    model = fully_shard(torch.nn.Linear(8, 8), mesh=init_device_mesh("cpu", (2,)))
    for step in range(20):
        if rank == 1 and step == 10:
            continue
        train_step(model)
    end()


# The ranks call different collectives.
def calls_a_barrier_against_an_all_reduce() -> None:
    if start() == 1:
        dist.barrier()
    else:
        dist.all_reduce(TENSOR)
    end()


# The ranks exchange objects.
def broadcasts_objects_from_two_roots() -> None:
    rank = start()
    dist.broadcast_object_list([rank], rank)
    end()


# The ranks use several groups.
def skips_in_a_subgroup() -> None:
    rank = start()
    pair = dist.new_group([0, 1], group_desc="pair")
    dist.all_reduce(TENSOR, group=pair)
    if rank == 0:
        time.sleep(3600)  # Here.
    dist.all_reduce(TENSOR, group=pair)


def makes_a_group_on_one_rank() -> None:
    if start() == 0:
        dist.new_group([0, 1])  # Here.
    dist.all_reduce(TENSOR)


def uses_two_groups_in_a_circle() -> None:
    rank = start()
    groups = [dist.new_group([0, 1]) for _ in range(2)]
    for group in groups if rank == 0 else groups[::-1]:
        dist.all_reduce(TENSOR, group=group)
    end()


def uses_the_wrong_dimension_of_a_mesh() -> None:
    from torch.distributed.device_mesh import init_device_mesh

    rank = start()
    mesh = init_device_mesh("cpu", (2, 2), mesh_dim_names=("data", "model"))
    for step in range(10):
        dist.all_reduce(TENSOR, group=mesh.get_group("model"))
        wrong = rank == 3 and step == 5
        dist.all_reduce(TENSOR, group=mesh.get_group("model" if wrong else "data"))
    end()


def sleeps_in_the_second_of_two_worlds() -> None:
    world, rank = divmod(int(os.environ["RANK"]), 2)
    start_at(shared_path(world), rank, 2)
    if world == 1 and rank == 1:
        time.sleep(3600)  # Here.
    for _ in range(100):
        dist.all_reduce(TENSOR)
        time.sleep(0.3)
    end()


# The ranks send and receive messages.
def has_a_stage_that_does_not_send() -> None:
    rank, size = start(), dist.get_world_size()
    for step in range(10):
        if rank > 0:
            dist.recv(TENSOR, rank - 1)
        if rank == 1 and step == 5:
            time.sleep(3600)  # Here.
        if rank < size - 1:
            dist.send(TENSOR, rank + 1)
    end()


def receives_on_both_ranks() -> None:
    rank = start()
    dist.recv(TENSOR, 1 - rank)  # Here.
    dist.send(TENSOR, 1 - rank)
    end()


def polls_for_a_message() -> None:
    if start() == 1:
        work = dist.irecv(TENSOR, 0)
        while not work.is_completed():
            time.sleep(0.01)  # Here.
    end()


# The ranks wait outside of collectives.
def misses_a_monitored_barrier() -> None:
    if start() == 1:
        time.sleep(3600)  # Here.
    dist.monitored_barrier()


def never_makes_its_process_group() -> None:
    if os.environ["RANK"] == "1":
        time.sleep(3600)  # Here.
    start()


def misses_a_barrier_by_the_store() -> None:
    rank = start()
    store = dist.distributed_c10d._get_default_store()
    if rank == 1:
        time.sleep(3600)  # Here.
    store.add("arrived", 1)
    while store.add("arrived", 0) < dist.get_world_size():
        time.sleep(0.1)
    end()


# The ranks read from data loaders.
class Numbers(Dataset):
    def __init__(self, work=lambda: None):
        self.work = work

    def __len__(self):
        return 64

    def __getitem__(self, index):
        if index == 40:
            self.work()
        return torch.ones(8)


def has_a_data_loader_whose_worker_hangs() -> None:
    rank = start()
    for _ in DataLoader(Numbers(lambda: time.sleep(3600 * rank)), batch_size=4, num_workers=2):  # Here.
        dist.all_reduce(TENSOR)
    end()


# The ranks hang at their end.
def waits_for_a_thread_at_its_end() -> None:
    rank = start()
    lock = threading.Lock()
    lock.acquire()
    if rank == 1:
        threading.Thread(target=lock.acquire).start()  # The interpreter joins it.
    end()


if __name__ == "__main__":
    run(globals())
