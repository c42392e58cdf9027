"""Runs a plain PyTorch program that ends well, though some look as if they hung: healthy.py NAME. None uses
ddplaunch."""
import multiprocessing
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time

import torch
import torch.distributed as dist
from torch.utils.data import DataLoader, Dataset

from common import TENSOR, compute, ddp_model, end, run, shared_path, start, start_at, train_step


# A rank is slow.
def computes_alone() -> None:
    rank = start()
    compute(3 * (1 + rank))
    end()


def sleeps_for_a_while() -> None:
    if start() == 1:
        time.sleep(10)
    end()


def waits_for_a_slow_first_batch() -> None:
    rank = start()
    model = ddp_model()
    for _ in DataLoader(Numbers(delay=6 * rank), batch_size=4, num_workers=2):
        train_step(model)
    end()


def compiles_for_long() -> None:
    rank = start()

    def compiler(graph, inputs):
        compute(4 + 4 * rank)
        return graph.forward

    model = torch.compile(torch.nn.Linear(8, 8), backend=compiler)
    for _ in range(20):
        dist.all_reduce(model(torch.ones(2, 8)))
    end()


def waits_long_in_a_monitored_barrier() -> None:
    if start() == 1:
        compute(7)
    dist.monitored_barrier()
    end()


def ends_late() -> None:
    rank = start()
    dist.destroy_process_group()
    time.sleep(8 * rank)


# These programs use data loaders and other processes.
class Numbers(Dataset):
    def __init__(self, delay=0.0):
        self.delay = delay

    def __len__(self):
        return 64

    def __getitem__(self, index):
        if index == 0:
            time.sleep(self.delay)
        return torch.ones(8)


def load(method) -> None:
    start()
    for _ in range(3):
        for _ in DataLoader(Numbers(), batch_size=4, num_workers=2, multiprocessing_context=method):
            dist.all_reduce(TENSOR)
    end()


def loads_by_fork() -> None:
    load("fork")


def has_children() -> None:
    start()
    environment = subprocess.check_output([sys.executable, "-c", "import os; print(os.environ.get('PYTHONPATH', ''))"])
    assert b"ddp_python:" not in environment, environment
    pid = os.fork()
    if pid == 0:
        os._exit(0)
    os.waitpid(pid, 0)
    end()


def has_a_child_with_its_own_process_group() -> None:
    script = ("import sys, torch, torch.distributed as dist\n"
              "dist.init_process_group('gloo', init_method='file://' + sys.argv[1], rank=0, world_size=1)\n"
              "dist.all_reduce(torch.ones(1))\n"
              "dist.destroy_process_group()\n")
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([sys.executable, "-c", script, folder + "/before"], check=True)
        start()
        subprocess.run([sys.executable, "-c", script, folder + "/after"], check=True)
    end()


def square(number):
    return number * number


def has_pools_of_processes() -> None:
    start()
    for method in ("fork", "spawn"):
        with multiprocessing.get_context(method).Pool(2) as pool:
            assert pool.map(square, range(100))[9] == 81
        dist.all_reduce(TENSOR)
    end()


def spawned(rank, path) -> None:
    dist.init_process_group("gloo", init_method=f"file://{path}", rank=rank, world_size=2)
    for _ in range(100):
        dist.all_reduce(TENSOR)
    dist.destroy_process_group()


def spawns_processes() -> None:
    # The processes have their own ranks.
    for name in [name for name in os.environ if name.startswith("TORCHELASTIC")]:
        del os.environ[name]
    with tempfile.TemporaryDirectory() as folder:
        torch.multiprocessing.spawn(spawned, (folder + "/store",), nprocs=2)


# These programs train in various ways.
def joins() -> None:
    rank = start()
    model = ddp_model()
    with model.join():
        for _ in range(50 + 20 * rank):
            train_step(model)
    end()


def finds_unused_parameters() -> None:
    rank = start()
    layers = torch.nn.ModuleList(torch.nn.Linear(8, 8) for _ in range(2))
    layers.forward = lambda batch, step: layers[(step + rank) % 2](batch)
    model = torch.nn.parallel.DistributedDataParallel(layers, find_unused_parameters=True)
    for step in range(20):
        model(torch.ones(2, 8), step).sum().backward()
    end()


def trains_with_fsdp2() -> None:
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard

    start()
    model = fully_shard(torch.nn.Linear(8, 8), mesh=init_device_mesh("cpu", (2,)))
    for _ in range(50):
        train_step(model)
    end()


def trains_on_a_mesh() -> None:
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.tensor.parallel import ColwiseParallel, parallelize_module

    start()
    mesh = init_device_mesh("cpu", (2, 2), mesh_dim_names=("data", "model"))
    model = parallelize_module(torch.nn.Linear(8, 8), mesh["model"], ColwiseParallel())
    for _ in range(20):
        train_step(model)
        dist.all_reduce(TENSOR, group=mesh.get_group("data"))
    end()


def has_a_pipeline_schedule() -> None:
    from torch.distributed.pipelining import PipelineStage, ScheduleGPipe

    rank, size = start(), dist.get_world_size()
    stage = PipelineStage(torch.nn.Linear(8, 8), rank, size, torch.device("cpu"))
    schedule = ScheduleGPipe(stage, n_microbatches=4, loss_fn=torch.nn.functional.mse_loss)
    for _ in range(10):
        if rank == 0:
            schedule.step(torch.ones(8, 8))
        else:
            schedule.step(target=torch.ones(8, 8))
    end()


# These programs save checkpoints.
def saves_a_checkpoint_asynchronously() -> None:
    import torch.distributed.checkpoint as checkpoint

    rank = start()
    model = ddp_model()
    folder = [tempfile.mkdtemp() if rank == 0 else None]
    dist.broadcast_object_list(folder, 0)
    # The thread that saves calls collectives of its own group.
    group = dist.new_group([0, 1])
    saved = checkpoint.async_save(model.state_dict(), checkpoint_id=folder[0], process_group=group)
    for _ in range(50):
        train_step(model)
    saved.result()
    end()


# These programs use collectives and groups in various ways.
def overlaps() -> None:
    start()
    for _ in range(20):
        works = [dist.all_reduce(torch.ones(1000), async_op=True) for _ in range(20)]
        time.sleep(0.1)
        for work in works:
            work.wait()
    end()


def polls_its_work() -> None:
    rank = start()
    for _ in range(5):
        work = dist.all_reduce(TENSOR, async_op=True)
        while not work.is_completed():
            time.sleep(0.01)
        time.sleep(0.5 * rank)
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


def reduces_big_tensors() -> None:
    start()
    tensor = torch.ones(50_000_000)
    for _ in range(5):
        dist.all_reduce(tensor)
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


def has_many_groups() -> None:
    start()
    groups = [dist.new_group([0, 1]) for _ in range(60)]
    for _ in range(10):
        for group in groups:
            dist.all_reduce(torch.ones(4), group=group)
    end()


def starts_again_after_destroy() -> None:
    for _ in range(3):
        start()
        end()


def trains_two_models_in_two_worlds() -> None:
    world, rank = divmod(int(os.environ["RANK"]), 2)
    start_at(shared_path(world), rank, 2)
    for _ in range(4):
        if rank == 1:
            compute(3)
        if world == 0:
            dist.all_reduce(torch.ones(10))
        else:
            dist.broadcast(torch.ones(20), 1)
    end()


def swaps_its_ranks() -> None:
    rank = start()
    end()
    start_at(shared_path("swapped"), 1 - rank, 2)
    for _ in range(3):
        compute(2 * rank)
        dist.broadcast(TENSOR, 1)
    end()


def serves_parameters_by_messages() -> None:
    rank = start()
    values = torch.zeros(4)
    if rank == 0:
        while values[0] >= 0:
            source = dist.recv(values)
            dist.send(values, source)
    if rank == 1:
        for number in range(20):
            compute(1)
            dist.send(torch.full((4,), float(number if number < 19 else -1)), 0)
            dist.recv(values, 0)
    end()  # rank 2 waits here


def waits_late_for_what_it_began() -> None:
    rank = start()
    if rank == 1:
        compute(14)
    work = dist.all_reduce(TENSOR, async_op=True)
    if rank == 0:
        compute(16)
    work.wait()
    end()


def waits_for_children_between_two_groups() -> None:
    rank = start()
    groups = [dist.new_group([0, 1]) for _ in range(2)]
    done = multiprocessing.get_context("spawn").Event()
    child = multiprocessing.get_context("spawn").Process(target=compute_and_tell, args=(done,))
    child.start()
    works = [dist.all_reduce(torch.ones(4), group=groups[rank], async_op=True)]
    done.wait()
    works.append(dist.all_reduce(torch.ones(4), group=groups[1 - rank], async_op=True))
    for work in works:
        work.wait()
    child.join()
    end()


def compute_and_tell(done) -> None:
    compute(15)
    done.set()


# These programs use threads.
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


def listens_in_a_thread() -> None:
    rank = start()
    control, training = dist.new_group([0, 1]), dist.new_group([0, 1])
    command = torch.zeros(1)
    thread = threading.Thread(target=dist.broadcast, args=(command, 0, control))
    if rank == 1:
        thread.start()
    for _ in range(200):
        dist.all_reduce(TENSOR, group=training)
        time.sleep(0.1)
    if rank == 0:
        thread.start()
    thread.join()
    end()


# These programs cover everything else.
def handles_signals() -> None:
    start()
    ticks = []
    signal.signal(signal.SIGALRM, lambda number, frame: ticks.append(number))
    signal.setitimer(signal.ITIMER_REAL, 0.05, 0.05)
    for _ in range(200):
        dist.all_reduce(TENSOR)
        compute(0.01)
    signal.setitimer(signal.ITIMER_REAL, 0)
    assert ticks
    end()


def names_the_store_itself() -> None:
    rank, size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    store = dist.TCPStore(os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"]), size, False)
    dist.init_process_group("gloo", store=dist.PrefixStore("own", store), rank=rank, world_size=size)
    dist.all_reduce(TENSOR)
    end()


def leaves_at_once() -> None:
    start()
    dist.barrier()
    os._exit(0)


def forgets_to_destroy_its_process_group() -> None:
    start()
    dist.barrier()


def never_waits_for_the_last() -> None:
    start()
    work = dist.all_reduce(TENSOR, async_op=True)
    time.sleep(3)
    del work
    dist.destroy_process_group()


if __name__ == "__main__":
    run(globals())
