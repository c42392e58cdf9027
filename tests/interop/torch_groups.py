"""Runs four ranks over gloo and the launcher's store: the whole group, and sub-groups, one after the other and made
again."""
import datetime

import torch
import torch.distributed as dist

dist.init_process_group("gloo", timeout=datetime.timedelta(seconds=60))
rank, world_size = dist.get_rank(), dist.get_world_size()
KEPT = []  # torch_train.py explains why


def total(group=None) -> float:
    value = torch.tensor([float(rank + 1)])
    KEPT.append(value)
    dist.all_reduce(value, group=group)
    return value.item()


# This call comes first because it makes its own tensors, which cannot be kept.
objects = [None] * world_size
dist.all_gather_object(objects, {"rank": rank})
assert [entry["rank"] for entry in objects] == list(range(world_size))
assert total() == world_size * (world_size + 1) / 2
dist.barrier()
halves = [list(range(world_size // 2)), list(range(world_size // 2, world_size))]
groups = [dist.new_group(half) for half in halves]
mine = rank // (world_size // 2)
assert total(groups[mine]) == sum(r + 1 for r in halves[mine])
dist.barrier(group=groups[mine])
for _ in range(3):
    again = dist.new_group(list(range(world_size)), timeout=datetime.timedelta(seconds=30))
    assert total(again) == world_size * (world_size + 1) / 2
    dist.barrier(group=again)
dist.barrier()
dist.destroy_process_group()
print(f"rank {rank}: groups ok")
