"""Implements groups whose ranks meet through files in the folder MEETING. A collective ends when all ranks of the group
have called the collective of its number.

A call on Gloo returns when it has ended. A call on NCCL is enqueued on the group's stream of the simulated GPU, where it
begins when the work before it is done, and later work of the program waits for it. A thread notices its end up to 0.1 s
later, and retires it. Within a capture nothing is recorded.
"""
import os
import pathlib
import threading
import time

from torch import cuda
from torch._C import _distributed_c10d as recorder

__all__ = ["abort_process_group", "all_gather", "all_reduce", "barrier", "broadcast", "destroy_process_group", "init_process_group",
           "new_group", "recv", "send", "split_group"]

RANK = int(os.environ["RANK"])
SIZE = int(os.environ["WORLD_SIZE"])
MEETING = pathlib.Path(os.environ["MEETING"])
NAMES = {"barrier": "all_reduce_barrier", "all_gather": "_all_gather_base"}  # PyTorch's names for NCCL's collectives
WATCHED = []  # enqueued calls of NCCL, which the thread of PyTorch observes
groups_made = {"gloo": 0, "nccl": 0}
groups_named = 0
world = None


class Group:
    def __init__(self, name, ranks, backend):
        self.name, self.ranks, self.backend = name, ranks, backend
        self.number = groups_made[backend]
        groups_made[backend] += 1
        self.calls, self.messages = 0, {}
        if backend == "nccl":
            self.stream = cuda.Stream()
            shown = f"[{', '.join(map(str, ranks))}]"
            recorder.NCCL.config[name] = {"name": name, "desc": "undefined", "ranks": shown}

    def entry(self, operation, count, is_p2p, number):
        return {
            "pg_id": self.number, "process_group": [self.name, "default_pg" if self is world else "undefined"],
            "collective_seq_id": self.calls, "p2p_seq_id": number if is_p2p else 0, "is_p2p": is_p2p,
            "input_dtypes": ["Float"], "input_sizes": [[count]], "profiling_name": f"{self.backend}:{operation}",
        }


def _meet(key, who, others):
    (MEETING / f"{key}.{who}").touch()
    while not all((MEETING / f"{key}.{other}").exists() for other in others):
        time.sleep(0.01)


def _retire():
    while True:
        time.sleep(0.1)
        for call in list(WATCHED):
            entry, number, done = call
            if done.is_set():
                WATCHED.remove(call)
                recorder.NCCL.retire(entry, number)


def _new_process_group_helper(group_size, group_rank, global_ranks_in_group, backend, store, group_name, group_desc=None):
    """The name of a backend is as in PyTorch: "undefined" means Gloo for host memory, and NCCL for a GPU's."""
    return Group(group_name, global_ranks_in_group or list(range(SIZE)), "gloo" if backend == "gloo" else "nccl")


def init_process_group(backend="undefined", **options):
    global world
    threading.Thread(target=_retire, daemon=True).start()
    world = _new_process_group_helper(SIZE, RANK, [], backend, None, group_name="0", group_desc="default_pg")


def new_group(ranks, backend="nccl"):
    global groups_named
    groups_named += 1
    if RANK not in ranks:
        return None
    return _new_process_group_helper(len(ranks), ranks.index(RANK), ranks, backend, None, group_name=str(groups_named))


def split_group(ranks):
    """Makes a group of a part of the world, which the recorder alone knows."""
    global groups_named
    groups_named += 1
    return Group(str(groups_named), ranks, "nccl") if RANK in ranks else None


def destroy_process_group():
    global world
    cuda.synchronize()
    world = None


def abort_process_group():
    """Gives up calls that are not completed. PyTorch frees their events, and keeps their entries."""
    global world
    for entry, _, _ in WATCHED:
        entry["done"] = cuda.FREED
    WATCHED.clear()
    cuda.compute = cuda.Stream()
    world = None


def _call(operation, count, group):
    group = group or world
    if group.backend == "gloo":
        return _call_gloo(operation, count, group)
    group.calls += 1
    key = f"{group.name}.{group.calls}"
    # Ranks whose calls do not fit never get each other's data. For NCCL, a barrier reduces one element.
    call = f"{operation.replace('barrier', 'all_reduce')}.{count if operation in ('all_reduce', 'barrier') else 0}"
    work = lambda: _meet(key + "." + call, RANK, group.ranks)  # noqa: E731
    if cuda.is_capturing():
        captured, replays = cuda._Capture.active, [0]

        def replayed():
            replays[0] += 1
            _meet(f"{key}.replay{replays[0]}", RANK, group.ranks)

        captured.works.append(replayed)
        return None
    group.stream.wait_for(cuda.compute.record())
    done = group.stream.enqueue(work)
    cuda.compute.wait_for(done)
    WATCHED.append((*recorder.NCCL.enqueue(group.entry(NAMES.get(operation, operation), count, False, 0), done), done))
    return done


def _call_gloo(operation, count, group):
    group.calls += 1
    entry, number = recorder.GLOO.enqueue(group.entry(operation, count, False, 0))
    _meet(f"{group.name}.{group.calls}", RANK, group.ranks)
    # Ranks that called different operations never meet.
    while recorder.KIND == "stuck" and operation != "all_reduce":
        time.sleep(0.01)
    recorder.GLOO.retire(entry, number)


def all_reduce(count, group=None):
    return _call("all_reduce", count, group)


def all_gather(count, group=None):
    return _call("all_gather", count, group)


def broadcast(count, group=None):
    return _call("broadcast", count, group)


def barrier(group=None):
    """Waits for the end, as PyTorch's barrier does."""
    group = group or world
    done = _call("barrier", 1, group)
    while done is not None and not done.is_set():
        time.sleep(0.0005)


def _transfer(operation, peer, group):
    group = group or world
    number = group.messages[operation, peer] = group.messages.get((operation, peer), 0) + 1
    sender, receiver = (RANK, peer) if operation == "send" else (peer, RANK)
    group.stream.wait_for(cuda.compute.record())
    done = group.stream.enqueue(lambda: _meet(f"{group.name}.{sender}to{receiver}.{number}", RANK, [peer]))
    cuda.compute.wait_for(done)
    total = sum(group.messages.values())
    WATCHED.append((*recorder.NCCL.enqueue(group.entry(operation, 8, True, total), done), done))


def send(peer, group=None):
    _transfer("send", peer, group)


def recv(peer, group=None):
    _transfer("recv", peer, group)
