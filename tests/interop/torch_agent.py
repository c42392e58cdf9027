"""Runs as a worker of two torchrun agents that met over ddplaunch's store. It prints its rank, and adds up the ranks
over gloo."""
import os
import sys

import torch
import torch.distributed as dist

dist.init_process_group("gloo")
value = torch.tensor([float(dist.get_rank())])
dist.all_reduce(value)
sys.stdout.write(f"agent worker: rank={dist.get_rank()} of {dist.get_world_size()} sum={value.item():g} "
                 f"node={os.environ['GROUP_RANK']}\n")
dist.destroy_process_group()
