"""The program of the README's recording: `train.py crash` fails on rank 2, `train.py hang` hangs on rank 1."""
import sys
import time

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel


def load_batch(rank: int, step: int) -> torch.Tensor:
    if sys.argv[1:] == ["crash"] and rank == 2 and step == 30:
        raise ValueError("shard-0017.tar: image 4711 is truncated")
    if sys.argv[1:] == ["hang"] and rank == 1 and step == 30:
        time.sleep(3600)  # a file server that does not answer
    return torch.randn(32, 64)


dist.init_process_group("gloo")
rank = dist.get_rank()
model = DistributedDataParallel(torch.nn.Linear(64, 10))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(100):
    loss = model(load_batch(rank, step)).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 10 == 0:
        print(f"step {step}", flush=True)
    time.sleep(0.02)
dist.destroy_process_group()
