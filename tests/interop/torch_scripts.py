"""Plain PyTorch programs that hang, and others that only look like it: torch_scripts.py NAME. None knows of ddplaunch."""
import os
import subprocess
import sys
import threading
import time

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

TENSOR = torch.ones(1024)


def start() -> int:
    dist.init_process_group("gloo")
    for _ in range(20):
        dist.all_reduce(TENSOR)
    return dist.get_rank()


def end() -> None:
    dist.barrier()
    dist.destroy_process_group()


# Hangs: what the launcher is to say of each stands in torch_recorder_test.py.
def spins() -> None:
    if start() == 1:
        while True:
            pass
    dist.all_reduce(TENSOR)


def sleeps() -> None:
    if start() == 1:
        time.sleep(3600)
    dist.broadcast(TENSOR, 0)


def waits_for_a_lock() -> None:
    lock = threading.Lock()
    lock.acquire()
    if start() == 1:
        lock.acquire()
    dist.barrier()


def calls_another() -> None:
    if start() == 1:
        dist.broadcast(TENSOR, 0)
    else:
        dist.all_reduce(TENSOR)
    end()


def has_another_shape() -> None:
    rank = start()
    dist.all_reduce(torch.ones(10 + rank))
    end()


def has_another_type() -> None:
    rank = start()
    dist.all_reduce(torch.ones(10, dtype=torch.float64 if rank else torch.float32))
    end()


def rank_zero_alone_in_a_barrier() -> None:
    if start() == 0:
        dist.barrier()
    while True:
        time.sleep(1)


def skips_a_step_of_ddp() -> None:
    rank = start()
    model = DistributedDataParallel(torch.nn.Linear(8, 8))
    for step in range(100):
        if rank == 1 and step == 50:
            time.sleep(3600)
        model(torch.ones(2, 8)).sum().backward()
    end()


def skips_in_a_subgroup() -> None:
    rank = start()
    pair = dist.new_group([0, 1], group_desc="pair")
    dist.all_reduce(TENSOR, group=pair)
    if rank == 0:
        time.sleep(3600)
    dist.all_reduce(TENSOR, group=pair)


# Healthy ones.
def computes_alone() -> None:
    rank = start()
    until = time.monotonic() + 3 * (1 + rank)
    while time.monotonic() < until:
        torch.mm(torch.ones(200, 200), torch.ones(200, 200))
    end()


def overlaps() -> None:
    start()
    for _ in range(20):
        works = [dist.all_reduce(torch.ones(1000), async_op=True) for _ in range(20)]
        time.sleep(0.1)
        for work in works:
            work.wait()
    end()


def has_all_kinds() -> None:
    rank, size = start(), dist.get_world_size()
    for _ in range(100):
        out = torch.empty(1024)
        dist.gather(TENSOR, [torch.empty(1024) for _ in range(size)] if rank == 0 else None, 0)
        dist.scatter(out, [TENSOR] * size if rank == 0 else None, 0)
        dist.reduce(TENSOR, 0)
        dist.all_gather_object([None] * size, {"rank": rank})
        dist.broadcast_object_list(["x" * 100 if rank == 0 else None], 0)
        dist.scatter_object_list([None], [str(i) for i in range(size)] if rank == 0 else None, 0)
        dist.monitored_barrier()
        if rank == 0:
            dist.send(TENSOR, 1)
        else:
            dist.recv(out, 0)
    end()


def uses_groups_alone() -> None:
    rank = start()
    own = [dist.new_group([0]), dist.new_group([1])][rank]
    both = dist.new_group([1, 0])
    for _ in range(100 * (1 + 5 * rank)):
        dist.all_reduce(TENSOR, group=own)
    dist.all_reduce(TENSOR, group=both)
    end()


def makes_groups_again() -> None:
    start()
    for _ in range(40):
        group = dist.new_group([0, 1])
        for _ in range(5):
            dist.all_reduce(TENSOR, group=group)
        dist.destroy_process_group(group)
        time.sleep(0.1)
    end()


def ends_late() -> None:
    rank = start()
    dist.destroy_process_group()
    time.sleep(8 * rank)


def leaves_at_once() -> None:
    start()
    dist.barrier()
    os._exit(0)


def never_waits_for_the_last() -> None:
    start()
    work = dist.all_reduce(TENSOR, async_op=True)
    time.sleep(3)
    del work
    dist.destroy_process_group()


def has_children() -> None:
    start()
    data = torch.utils.data.TensorDataset(torch.ones(64, 8))
    for context in ("fork", "spawn"):
        loader = torch.utils.data.DataLoader(data, batch_size=4, num_workers=2, multiprocessing_context=context)
        for _ in loader:
            dist.all_reduce(TENSOR)
    environment = subprocess.check_output([sys.executable, "-c", "import os; print(os.environ.get('PYTHONPATH', ''))"])
    assert b"ddp_python" not in environment, environment
    pid = os.fork()
    if pid == 0:
        os._exit(0)
    os.waitpid(pid, 0)
    end()


def joins() -> None:
    rank = start()
    model = DistributedDataParallel(torch.nn.Linear(8, 8))
    with model.join():
        for _ in range(50 + 20 * rank):
            model(torch.ones(2, 8)).sum().backward()
    end()


def has_threads() -> None:
    rank = start()
    groups = [dist.new_group([0, 1]) for _ in range(2)]

    def work(group) -> None:
        for _ in range(200):
            dist.all_reduce(torch.ones(16), group=group)

    threads = [threading.Thread(target=work, args=(group,)) for group in (groups if rank else groups[::-1])]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    end()


if __name__ == "__main__":
    globals()[sys.argv[1]]()
