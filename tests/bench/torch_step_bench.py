"""torch_step_bench.py BATCH PAIRS MODE: what step_bench.cpp does, in PyTorch with its gloo backend.

MODE: synchronised, or views (gradient_as_bucket_view).
"""
import contextlib
import json
import os
import resource
import sys
import time

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

WARM_UP = 3
batch, pairs, mode = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
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


def time_of(is_local: bool) -> float:
    dist.barrier()
    began = time.perf_counter()
    optimizer.zero_grad()
    with net.no_sync() if is_local else contextlib.nullcontext():
        torch.nn.functional.mse_loss(net(x), y).backward()
    optimizer.step()
    return (time.perf_counter() - began) * 1e3


times = [[time_of(True), time_of(False)] for _ in range(WARM_UP + pairs)][WARM_UP:]
own = proportional_mib() - before
slowest = torch.tensor(times, dtype=torch.float64)
dist.all_reduce(slowest, op=dist.ReduceOp.MAX)
if dist.get_rank() == 0:
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(json.dumps({"local": slowest[:, 0].tolist(), "steps": slowest[:, 1].tolist(), "peak": peak, "own": own}))
dist.destroy_process_group()
sys.stdout.flush()
os._exit(0)  # PyTorch 1.13's own threads abort the exit of the interpreter now and then
