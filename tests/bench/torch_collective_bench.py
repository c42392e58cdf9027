"""torch_collective_bench.py ITERATIONS BYTES...: measures all_reduce of f32 by torch.distributed's gloo. Rank 0
prints {"BYTES": µs}: medians of the time that the slowest rank took."""
import json
import sys
import time

import torch
import torch.distributed as dist

torch.set_num_threads(1)
dist.init_process_group("gloo")
result = {}
for size in sys.argv[2:]:
    values = torch.ones(int(size) // 4)
    times = []
    for run in range(-2, max(7, int(int(sys.argv[1]) / (1 + int(size) / 2e5)))):
        dist.barrier()
        begin = time.perf_counter()
        dist.all_reduce(values)
        if run >= 0:
            times.append((time.perf_counter() - begin) * 1e6)
        values.fill_(1)
    slowest = torch.tensor(times, dtype=torch.float64)
    dist.all_reduce(slowest, op=dist.ReduceOp.MAX)
    result[size] = round(slowest.median().item(), 3)
if dist.get_rank() == 0:
    print(json.dumps(result))
dist.destroy_process_group()
