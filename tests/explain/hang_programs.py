"""Programs that hang, each a function of the rank, with the answer that is expected of their dumps.

Gloo's dumps do not list the ranks of a group. If none of them has called anything there, it cannot be known which rank is missing.
"""
import datetime
import threading
import time

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

CASES = {}
FOREVER = 60


def stop_here():
    """Writes the dump and stops the process, as a debugger or a batch system does. record_hangs.py replaces it."""


def exit_here():
    """Writes the dump and exits with 0. record_hangs.py replaces it."""


def case(world, kind="not_called", culprits=(), **more):
    def add(program):
        CASES["gloo_" + program.__name__] = {
            "world": world, "kind": kind, "culprits": list(culprits), "program": program,
            "json": len(CASES) % 2 == 1, "about": program.__doc__, **more}
        return program
    return add


def ones(count=4, dtype=torch.float32):
    return torch.ones(count, dtype=dtype)


def steps(count):
    for _ in range(count):
        dist.all_reduce(ones())


def never():
    time.sleep(FOREVER)


def late(name, about, world, culprits, before, call, **more):
    """Adds a program in which the culprits do not come to a call after some steps."""
    def program(rank):
        steps(before)
        if rank in late_ranks:
            never()
        call(rank)
    late_ranks = more.pop("late", culprits)
    program.__name__, program.__doc__ = name, about
    return case(world, culprits=culprits, **more)(program)


def all_reduce_of(count):
    return lambda rank: dist.all_reduce(ones(count))


all_reduce = late("all_reduce", "Rank 1 leaves the loop early.", 4, [1], 3, all_reduce_of(1024), operation="all_reduce", number=4)
late("two_ranks_are_late", "Two ranks read their data.", 4, [1, 3], 2, all_reduce_of(4), operation="all_reduce", number=3)
late("broadcast_without_its_source", "Rank 0 still loads the checkpoint that it has to send.", 3, [0], 1,
     lambda rank: dist.broadcast(ones(100), src=0), operation="broadcast", number=2)
late("barrier_before_anything", "Rank 0 downloads the data set, the others wait for it.", 4, [0], 0,
     lambda rank: dist.barrier(), operation="barrier", number=1)
late("all_gather", "Rank 2 does not take part in the gathering of the metrics.", 3, [2], 1,
     lambda rank: dist.all_gather([ones() for _ in range(3)], ones()), operation="all_gather", number=2)
late("gather", "Rank 0 gathers, and rank 2 does not send.", 4, [2], 1,
     lambda rank: dist.gather(ones(), [ones() for _ in range(4)] if rank == 0 else None, dst=0), operation="gather", number=2)
late("scatter", "Rank 0 has the parts, and does not send them.", 4, [0], 1,
     lambda rank: dist.scatter(ones(), None, src=0), operation="scatter", number=2)
late("reduce", "Rank 1 does not send its part of a sum to rank 0.", 2, [1], 2,
     lambda rank: dist.reduce(ones(), dst=0), operation="reduce", number=3)
late("all_to_all", "Rank 1 does not exchange its tokens.", 3, [1], 1,
     lambda rank: dist.all_to_all_single(ones(6), ones(6)), number=2)
late("reduce_scatter", "Rank 0 does not scatter the gradients.", 2, [0], 1,
     lambda rank: dist.reduce_scatter_tensor(ones(3), ones(6)), number=2)
late("all_gather_object", "Rank 1 does not gather objects.", 3, [1], 0,
     lambda rank: dist.all_gather_object([None] * 3, {"loss": rank}), number=1)
late("broadcast_object", "Rank 0 does not send the name of the run.", 3, [0], 1,
     lambda rank: dist.broadcast_object_list([None], src=0), operation="broadcast", number=2)
late("ring_is_full", "The recorder keeps 8 calls, and rank 2 misses the 41st.", 3, [2], 40, all_reduce_of(4),
     operation="all_reduce", number=41, buffer=8)
late("never_called_anything", "Rank 1 has not called anything at all.", 2, [1], 0, all_reduce_of(4), operation="all_reduce", number=1)
late("two_dumps_are_missing", "Ranks 0 and 2 have left no dump, and rank 2 is the culprit.", 4, [], 2, all_reduce_of(4), late=[2],
     kind="cannot_be_decided", no_dump=[0, 2], missing="the records of ranks 0, 2 of 4")
late("world_size_is_unknown", "Without the world size, it is unknown that rank 3 exists.", 4, [], 2, all_reduce_of(4), late=[3],
     kind="cannot_be_decided", no_dump=[3], known_world=None)


@case(3, culprits=[1, 2], operation="all_reduce", number=3)
def validation_on_rank_zero(rank):
    """Only rank 0 validates, and its metric averages over all ranks. The others have finished."""
    steps(2)
    if rank == 0:
        dist.all_reduce(ones(1))
    never()


@case(4, culprits=[2], operation="barrier", number=3)
def broadcast_then_barrier(rank):
    """Rank 2 misses a broadcast, which most others end without it, and the barrier behind it."""
    steps(1)
    if rank == 2:
        never()
    dist.broadcast(ones(), src=0)
    dist.barrier()
CASES["gloo_broadcast_then_barrier"].pop("number")  # noqa: E305  Some ranks may wait in the broadcast already.
CASES["gloo_broadcast_then_barrier"].pop("operation")


def train(rank, steps_of_rank, model=None, skips=()):
    torch.manual_seed(0)
    net = DistributedDataParallel(model or torch.nn.Linear(10, 10))
    for step in range(steps_of_rank):
        loss = net(torch.randn(4, 10)).sum()
        if (rank, step) not in skips:
            loss.backward()


@case(3, culprits=[1], operation="all_reduce", stacks=True, seconds=15)
def ddp_uneven_batches(rank):
    """Rank 1 has one batch less than the others."""
    train(rank, 3 if rank == 1 else 4)
    never()


@case(2, culprits=[0], seconds=15)
def ddp_skipped_backward(rank):
    """Rank 0 skips a step whose loss is not finite."""
    train(rank, 4, skips={(0, 2)})
    never()


@case(3, kind="mismatch", culprits=[1], seconds=15)
def ddp_skipped_backward_with_buffers(rank):
    """Rank 1 skips a step, so that its broadcast of the buffers meets the gradients of the others."""
    train(rank, 5, torch.nn.Sequential(torch.nn.Linear(10, 10), torch.nn.BatchNorm1d(10)), skips={(1, 2)})
    never()


@case(3, kind="mismatch", culprits=[0])
def wrong_order(rank):
    """Rank 0 calls two operations in another order."""
    steps(1)
    calls = [lambda: dist.all_reduce(ones(6)), lambda: dist.broadcast(ones(6), src=1)]
    for call in calls if rank == 0 else calls[::-1]:
        call()
    dist.barrier()


@case(2, kind="mismatch", culprits=[], number=2)
def wrong_order_of_two(rank):
    """Two ranks call two operations in different order: there is no majority."""
    steps(1)
    calls = [lambda: dist.all_reduce(ones(6)), lambda: dist.barrier()]
    for call in calls if rank == 0 else calls[::-1]:
        call()


@case(3, kind="cannot_be_decided")
def different_sizes_kill_a_rank(rank):
    """Gloo aborts a process that receives more than it expects, so that its dump is missing."""
    steps(2)
    dist.all_reduce(ones(100_000 if rank == 2 else 200_000))
    never()


@case(3, kind="mismatch", culprits=[0], number=2)
def barrier_against_all_reduce(rank):
    """Rank 0 waits in a barrier behind its checkpoint, the others go on with the next step."""
    steps(1)
    if rank == 0:
        dist.barrier()
    dist.all_reduce(ones(1000))
    never()


@case(4, culprits=[1], operation="all_reduce", number=2, group="1")
def subgroup(rank):
    """Rank 1 misses the second call in its group of two."""
    pair = dist.new_group([0, 1])
    if rank < 2:
        dist.all_reduce(ones(), group=pair)
    if rank == 0:
        dist.all_reduce(ones(), group=pair)
    never()


@case(4, kind="cannot_be_decided")
def subgroup_without_records(rank):
    """Rank 1 has never called anything in its group, so that Gloo's dumps do not show that it belongs to it."""
    pair = dist.new_group([0, 1])
    steps(1)
    if rank == 0:
        dist.all_reduce(ones(), group=pair)
    never()


@case(4, culprits=[2])
def subgroup_delays_all(rank):
    """Rank 1 waits for rank 2 in their group, and the others wait for both."""
    pair = dist.new_group([1, 2])
    if rank in (1, 2):
        dist.all_reduce(ones(), group=pair)
    steps(1)
    if rank == 1:
        dist.all_reduce(ones(), group=pair)
    if rank == 2:
        never()
    dist.all_reduce(ones())


@case(4, culprits=[3])
def chain_of_groups(rank):
    """Rank 0 waits for 1, which waits for 2 in another group, which waits for 3 in a third one."""
    groups = [dist.new_group([i, i + 1]) for i in range(3)]
    for i, group in enumerate(groups):
        if rank in (i, i + 1):
            dist.all_reduce(ones(), group=group)
    dist.barrier()
    if rank < 3:
        dist.all_reduce(ones(), group=groups[rank])
    never()


@case(4, culprits=[3], operation="broadcast", number=2, group="2")
def chain_that_ends_in_a_broadcast(rank):
    """Tensor parallel ranks 0 and 1 wait for data parallel ranks 1 and 3."""
    tensor = [dist.new_group([0, 1]), dist.new_group([2, 3])]
    data = [dist.new_group([0, 2]), dist.new_group([1, 3])]
    dist.all_reduce(ones(), group=tensor[rank // 2])
    dist.all_reduce(ones(), group=data[rank % 2])
    if rank == 0:
        dist.all_reduce(ones(8), group=tensor[0])
    if rank == 1:
        dist.broadcast(ones(9), src=3, group=data[1])
    never()
CASES["gloo_chain_that_ends_in_a_broadcast"]["group"] = "4"  # noqa: E305  The groups are 1 to 4.


@case(2, kind="circular_wait")
def groups_in_different_order(rank):
    """Two ranks use two groups in different order."""
    groups = [dist.new_group([0, 1]), dist.new_group([0, 1])]
    for group in groups:
        dist.all_reduce(ones(), group=group)
    for group in groups if rank == 0 else groups[::-1]:
        dist.all_reduce(ones(), group=group)


@case(3, kind="circular_wait")
def circle_of_three_groups(rank):
    """Each rank waits for the next one in another group."""
    groups = [dist.new_group([0, 1]), dist.new_group([1, 2]), dist.new_group([0, 2])]
    for i, group in enumerate(groups):
        if rank != (i + 2) % 3:
            dist.all_reduce(ones(), group=group)
    dist.all_reduce(ones(), group=groups[rank])
    never()


@case(4, kind="cannot_be_decided", no_dump=[1], missing="the records of rank 1 of 4")
def culprit_without_dump(rank):
    """The culprit's dump is missing."""
    all_reduce(rank)


@case(4, culprits=[1], no_dump=[3], missing="the records of rank 3 of 4")
def other_dump_is_missing(rank):
    """Rank 3 has left no dump, but rank 1 is a culprit anyway."""
    all_reduce(rank)


@case(4, kind="cannot_be_decided", no_dump=[1], known_world=None)
def gap_in_the_ranks(rank):
    """The world size is unknown, but rank 1 must exist, since rank 3 does."""
    all_reduce(rank)


@case(3, kind="all_called", culprits=[], operation="all_reduce", number=3)
def stopped_in_all_reduce(rank):
    """All ranks have called it, and the process of rank 2 is stopped."""
    steps(2)
    if rank == 2:
        threading.Thread(target=lambda: dist.all_reduce(ones(50_000_000)), daemon=True).start()
        stop_here()
    dist.all_reduce(ones(50_000_000))


@case(2, kind="all_called", culprits=[], operation="broadcast", number=2)
def stopped_in_broadcast(rank):
    """The process of the source is stopped while it sends."""
    steps(1)
    if rank == 0:
        threading.Thread(target=lambda: dist.broadcast(ones(50_000_000), src=0), daemon=True).start()
        stop_here()
    dist.broadcast(ones(50_000_000), src=0)


@case(3, culprits=[1], number=3)
def rank_exits(rank):
    """Rank 1 leaves with exit code 0 after a part of the steps."""
    steps(2)
    if rank == 1:
        exit_here()
    dist.all_reduce(ones())


@case(3, kind="cannot_be_decided", no_dump=[1])
def rank_exits_without_dump(rank):
    """Rank 1 leaves, and it was not asked for its dump."""
    rank_exits(rank)


@case(4, culprits=[0, 1], operation="barrier", number=2)
def point_to_point(rank):
    """Rank 1 receives from rank 0, which never sends. Gloo's recorder does not show such calls."""
    steps(1)
    if rank == 0:
        never()
    if rank == 1:
        dist.recv(ones(), src=0)
    dist.barrier()


@case(3, culprits=[1], operation="all_reduce", number=3)
def asynchronous(rank):
    """Three calls are started without waiting, but rank 1 starts only one of them."""
    steps(1)
    works = [dist.all_reduce(ones(i + 1), async_op=True) for i in range(1 if rank == 1 else 3)]
    if rank != 1:
        for work in works:
            work.wait()
    never()


@case(2, kind="none")
def all_has_ended(rank):
    """Nothing waits: the ranks compute."""
    steps(5)
    never()


@case(2, culprits=[1], number=3)
def timed_out(rank):
    """The time-out has expired on rank 0 before the dump."""
    group = dist.new_group([0, 1], timeout=datetime.timedelta(seconds=1))
    for _ in range(2):
        dist.all_reduce(ones(), group=group)
    if rank == 1:
        never()
    dist.all_reduce(ones(), group=group)
