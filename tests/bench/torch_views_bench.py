#!/usr/bin/env python3
"""torch_views_bench.py DDPLAUNCH PYTHON [--rounds N]: measures what a PyTorch program pays for the views of ddplaunch.

The same script runs on two ranks, in turn, under torchrun and under ddplaunch: without the observer (DDP_TORCH=0), with
it, and with --trace --record=all. Rank 0 measures a small all_reduce, and a step of the optimizer of one parameter,
both without any other work. A column has the medians over the rounds. `start` is from the launcher's start to the end
of init_process_group(). `CPU` is the processor time of the rank, which other programs disturb less than wall time.
"""
import argparse
import json
import os
import statistics
import subprocess
import tempfile
import time

CALLS = 1500
SCRIPT = f"""
import json, os, sys, time
import torch, torch.distributed as dist
dist.init_process_group("gloo")
ready = time.time()
torch.set_num_threads(1)
data = torch.zeros(16)
weight = torch.nn.Parameter(torch.zeros(4))
weight.grad = torch.zeros(4)
optimizer = torch.optim.SGD([weight], lr=0.1)

def cost(call):
    for _ in range(100):
        call()
    wall, cpu = time.perf_counter(), time.process_time()
    for _ in range({CALLS}):
        call()
    return [1e6 * (now - before) / {CALLS} for now, before in ((time.perf_counter(), wall), (time.process_time(), cpu))]

time.sleep(2)  # the observer has seen the group
optimizer.step()
result = cost(lambda: dist.all_reduce(data)) + cost(optimizer.step)
if dist.get_rank() == 0:
    print(json.dumps([ready, *result]), file=open(sys.argv[1], "w"))
dist.barrier()
dist.destroy_process_group()
"""
HEADS = ["start, ms", "all_reduce, us", "all_reduce CPU, us", "optimizer step, us", "optimizer step CPU, us"]


def run(words: list[str], script: str, folder: str, **variables: str) -> list[float]:
    result = f"{folder}/result.json"
    begin = time.time()
    subprocess.run([*words, script, result], check=True, capture_output=True, timeout=300, env={**os.environ, **variables})
    with open(result) as file:
        ready, *costs = json.load(file)
    return [1000 * (ready - begin), *costs]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("ddplaunch")
    parser.add_argument("python", help="a Python that has PyTorch")
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        script = f"{folder}/script.py"
        with open(script, "w") as file:
            file.write(SCRIPT)
        ours = [options.ddplaunch, "-q", "--nproc-per-node=2"]
        ways = {"torchrun": ([options.python, "-m", "torch.distributed.run", "--nproc_per_node=2"], {}),
                "ddplaunch, DDP_TORCH=0": (ours, {"DDP_TORCH": "0"}),
                "ddplaunch": (ours, {}),
                "ddplaunch --trace": ([*ours, f"--trace={folder}/trace.json", "--record=all"], {})}
        found = {name: [] for name in ways}
        for _ in range(options.rounds):
            for name, (words, variables) in ways.items():
                found[name].append(run(words, script, folder, PYTHON_EXEC=options.python, OMP_NUM_THREADS="1", **variables))
    print("| | " + " | ".join(HEADS) + " |\n|" + "---|" * (len(HEADS) + 1))
    for name, rows in found.items():
        print(f"| {name} | " + " | ".join(f"{statistics.median(column):.1f}" for column in zip(*rows)) + " |")


if __name__ == "__main__":
    main()
