"""torch_step_bench.py BATCH STEPS MODE: what step_bench.cpp does, in PyTorch with its gloo backend.

MODE: local (no_sync in every step), synchronised, or views (gradient_as_bucket_view).
"""
import contextlib
import json
import resource
import sys
import time

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

WARM_UP = 3
batch, steps, mode = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
torch.set_num_threads(1)
dist.init_process_group("gloo")


def proportional_mib() -> float:
    return next(int(line.split()[1]) for line in open("/proc/self/smaps_rollup") if line.startswith("Pss:")) / 1024


before = proportional_mib()
widths = [1024, 3072, 3072, 3072, 1024]
layers = []
for i in range(len(widths) - 1):
    layers.append(torch.nn.Linear(widths[i], widths[i + 1]))
    if i + 2 < len(widths):
        layers.append(torch.nn.ReLU())
net = DistributedDataParallel(torch.nn.Sequential(*layers), gradient_as_bucket_view=mode == "views")
optimizer = torch.optim.SGD(net.parameters(), 0.01)
x, y = torch.randn(batch, 1024), torch.randn(batch, 1024)
times = []
for step in range(WARM_UP + steps):
    dist.barrier()
    began = time.perf_counter()
    optimizer.zero_grad()
    with net.no_sync() if mode == "local" else contextlib.nullcontext():
        torch.nn.functional.mse_loss(net(x), y).backward()
    optimizer.step()
    if step >= WARM_UP:
        times.append((time.perf_counter() - began) * 1e3)
own = proportional_mib() - before
slowest = torch.tensor(times, dtype=torch.float64)
dist.all_reduce(slowest, op=dist.ReduceOp.MAX)
slowest = slowest.sort().values
if dist.get_rank() == 0:
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(json.dumps({"median": round(slowest[len(times) // 2].item(), 2), "best": round(slowest[0].item(), 2),
                      "peak": peak, "own": round(own, 1)}))
dist.destroy_process_group()
