"""Trains a line with PyTorch's DistributedDataParallel on CPUs; rank 0 prints "trained: SLOPE".

Debian 13's PyTorch is built without libuv, but its env:// rendezvous requires it. So it works under no launcher,
including its own torchrun. In that case the program opens the store itself.
"""
import os

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

rank, size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
try:
    dist.init_process_group("gloo")
except RuntimeError as error:
    if "without libuv" not in str(error):
        raise
    store = dist.TCPStore(os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"]), size, False, use_libuv=False)
    dist.init_process_group("gloo", store=store, rank=rank, world_size=size)

torch.manual_seed(rank)
model = DistributedDataParallel(torch.nn.Linear(1, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
for _ in range(200):
    inputs = torch.rand(32, 1)
    loss = torch.nn.functional.mse_loss(model(inputs), 3 * inputs)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
slopes = [torch.empty(1) for _ in range(size)]
dist.all_gather(slopes, model.module.weight.detach().reshape(1))
assert all(torch.equal(slope, slopes[0]) for slope in slopes), "the ranks' parameters differ"
assert abs(slopes[0].item() - 3) < 0.1, f"the slope is {slopes[0].item()}"
if rank == 0:
    print(f"trained: {slopes[0].item():.2f}")
dist.destroy_process_group()
