"""Implements groups whose ranks meet through files in the folder MEETING. A collective ends when all ranks have
called the collective of its number."""
import os
import pathlib
import time

from torch._C import _distributed_c10d as recorder

__all__ = ["all_reduce", "broadcast", "init_process_group"]

RANK = int(os.environ["RANK"])
SIZE = int(os.environ["WORLD_SIZE"])
calls = 0


def _new_process_group_helper(group_size, group_rank, global_ranks_in_group, backend, store, group_name, group_desc=None):
    return object()


def init_process_group(backend):
    _new_process_group_helper(SIZE, RANK, [], backend, None, group_name="0", group_desc="default_pg")


def _call(operation, count):
    global calls
    calls += 1
    entry = {
        "collective_seq_id": calls, "input_dtypes": ["Float"], "input_sizes": [[count]], "is_p2p": False,
        "process_group": ["0", "default_pg"], "profiling_name": "gloo:" + operation, "retired": False,
        "time_created_ns": time.time_ns(),
    }
    recorder.ENTRIES.append(entry)
    meeting = pathlib.Path(os.environ["MEETING"])
    (meeting / f"{calls}.{RANK}").touch()
    while not all((meeting / f"{calls}.{rank}").exists() for rank in range(SIZE)):
        time.sleep(0.01)
    # Ranks that called different operations never meet.
    while "stuck" in os.environ.get("FAKE_TORCH", "") and operation != "all_reduce":
        time.sleep(0.01)
    entry["retired"] = True


def all_reduce(count):
    _call("all_reduce", count)


def broadcast(count):
    _call("broadcast", count)
