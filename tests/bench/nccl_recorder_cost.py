#!/usr/bin/env python3
"""nccl_recorder_cost.py BIN_DIR PYTHON [PLUGIN...]: what it costs per collective, on the host, to know what ranks have
called: with profiler plug-ins of NCCL, and with PyTorch's flight recorder. All are measured in turns.

The plug-ins are called by nccl_profiler_bench, which plays NCCL. The recorder is measured in all_reduces of one element
and one rank with Gloo, once with 2000 entries and once without it. PYTHON must have PyTorch 2.8 or newer.
"""
import os
import pathlib
import statistics
import subprocess
import sys

BIN, PYTHON, PLUGINS = pathlib.Path(sys.argv[1]), sys.argv[2], sys.argv[3:]
ROUNDS = 5
PROGRAM = """
import time, torch, torch.distributed as dist
dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
torch.set_num_threads(1)
tensor = torch.ones(1)
def calls(number):
    begun = time.perf_counter_ns()
    for _ in range(number):
        dist.all_reduce(tensor)
    return (time.perf_counter_ns() - begun) / number
calls(2000)
print(sorted(calls(2000) for _ in range(7))[3])
dist.destroy_process_group()
"""


def with_recorder(entries: int) -> float:
    job = subprocess.run([PYTHON, "-c", PROGRAM], stdout=subprocess.PIPE, text=True, check=True,
                         env={**os.environ, "TORCH_FR_BUFFER_SIZE": str(entries), "OMP_NUM_THREADS": "1"})
    return float(job.stdout)


def by_plugins() -> dict[str, float]:
    job = subprocess.run([BIN / "nccl_profiler_bench", "5", *PLUGINS], stdout=subprocess.PIPE, text=True, check=True)
    rows = [line.split() for line in job.stdout.splitlines()]
    return {row[0]: float(row[row.index("collective,") + 1]) for row in rows[1:]}  # the first one does nothing


rows: dict[str, list[float]] = {}
for _ in range(ROUNDS):
    for name, cost in by_plugins().items():
        rows.setdefault(name, []).append(cost)
    without = with_recorder(0)
    rows.setdefault("PyTorch's flight recorder", []).append(with_recorder(2000) - without)
for name, costs in rows.items():
    print(f"{name:40} {statistics.median(costs):8.0f} ns ({min(costs):.0f} to {max(costs):.0f})")
