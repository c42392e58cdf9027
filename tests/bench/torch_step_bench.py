#!/usr/bin/env python3
"""torch_step_bench.py DDPLAUNCH [--python PYTHON]: measures what it costs a PyTorch program that ddplaunch observes it.

Two ranks train a small model with DistributedDataParallel and Gloo, under ddplaunch, under ddplaunch with DDP_TORCH=0,
and under torchrun, in turn. Prints three medians over the runs for each: the time of a step, the time from the
launcher's start to the first step, and the time from the last step to the launcher's end.
"""
import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

PROGRAM = """
import json, os, sys, time
import torch, torch.distributed as dist

torch.manual_seed(0)
torch.set_num_threads(1)
dist.init_process_group("gloo")
layers = [layer for _ in range(6) for layer in (torch.nn.Linear(64, 64), torch.nn.ReLU())]
model = torch.nn.parallel.DistributedDataParallel(torch.nn.Sequential(*layers))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
data = torch.randn(16, 64)
took, first = [], time.time()
for _ in range(int(sys.argv[2])):
    began = time.perf_counter()
    optimizer.zero_grad()
    model(data).square().mean().backward()
    optimizer.step()
    took.append(time.perf_counter() - began)
last = time.time()
if dist.get_rank() == 0:
    with open(sys.argv[1], "w") as file:
        json.dump({"step": sorted(took)[len(took) // 2], "first": first, "last": last}, file)
dist.destroy_process_group()
"""


def run(command, environment, folder, steps):
    script, result = pathlib.Path(folder) / "train.py", pathlib.Path(folder) / "result.json"
    script.write_text(PROGRAM)
    began = time.time()
    subprocess.run([*command, "--nproc-per-node=2", script, result, str(steps)], check=True, stdout=subprocess.DEVNULL,
                   stderr=subprocess.DEVNULL, env={**os.environ, **environment, "OMP_NUM_THREADS": "1"}, timeout=300)
    ended = time.time()
    seen = json.loads(result.read_text())
    return {"step, µs": 1e6 * seen["step"], "to the first step, s": seen["first"] - began,
            "from the last step to the end, s": ended - seen["last"]}


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("launcher")
    parser.add_argument("--python", default=sys.executable, help="a Python with PyTorch")
    parser.add_argument("--runs", type=int, default=7)
    parser.add_argument("--steps", type=int, default=3000)
    options = parser.parse_args()
    path = {"PATH": f"{pathlib.Path(options.python).parent}:{os.environ['PATH']}"}
    ways = {
        "ddplaunch": ([options.launcher], path),
        "ddplaunch, DDP_TORCH=0": ([options.launcher], {**path, "DDP_TORCH": "0"}),
        "torchrun": ([options.python, "-m", "torch.distributed.run", "--standalone"], path),
    }
    found = {way: [] for way in ways}
    with tempfile.TemporaryDirectory() as folder:
        for _ in range(options.runs):
            for way, (command, environment) in ways.items():
                found[way].append(run(command, environment, folder, options.steps))
    names = list(found["ddplaunch"][0])
    print("| started by | " + " | ".join(names) + " |\n|---|" + "---|" * len(names))
    for way, runs in found.items():
        medians = [statistics.median(one[name] for one in runs) for name in names]
        print(f"| {way} | " + " | ".join(f"{median:.3g}" if median < 100 else f"{median:.0f}" for median in medians) + " |")


if __name__ == "__main__":
    main()
