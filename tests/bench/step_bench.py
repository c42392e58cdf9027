#!/usr/bin/env python3
"""What data parallelism adds to a training step: ours (cpu, gloo) and PyTorch's DistributedDataParallel, interleaved.

    tests/bench/step_bench.py build/release/bin [--batches 32,128] [--rounds 3] [--steps 15] [--torch PYTHON] [--json FILE]

A multilayer perceptron of 25 million parameters, 2 ranks of 1 thread, libtorch with OpenBLAS. Medians over the rounds of
each program's own medians, in ms; "added" is the difference to the same program with no_sync() in every step, in the
median of the rounds. "peak" is the resident memory of rank 0 in MiB, "own" what has come since the group
was made, of the proportional set size at the end, in which memory that ranks share counts in equal parts.
"barrier": local steps with a barrier after backward, which is what waiting for the slower rank costs whoever averages.
"""
import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys

from collective_bench import output, pythons


def programs(options: argparse.Namespace) -> dict[str, tuple[list, str]]:
    """Name -> command without batch and steps, and the name of what it is compared with ("" for a base)."""
    launch = [options.bin / "ddplaunch", "-q", "--no-tag", "--nproc-per-node=2"]
    ours = options.bin / "step_bench"
    result = {"ours, local": ([*launch, "--backend=cpu", ours, "local"], ""),
              "ours, barrier": ([*launch, "--backend=cpu", ours, "barrier"], "ours, local"),
              "ours, cpu": ([*launch, "--backend=cpu", ours, "synchronised"], "ours, local"),
              "ours, gloo": ([*launch, "--backend=gloo", ours, "synchronised"], "ours, local")}
    script = pathlib.Path(__file__).with_name("torch_step_bench.py")
    for version, python in pythons(options.torch).items():
        base = f"PyTorch {version}, local"
        result[base] = ([*launch, python, script, "local"], "")
        result[f"PyTorch {version}"] = ([*launch, python, script, "synchronised"], base)
        result[f"PyTorch {version}, bucket views"] = ([*launch, python, script, "views"], base)
    return result


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("bin", type=pathlib.Path)
    parser.add_argument("--batches", default="32,128")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=15)
    parser.add_argument("--torch", action="append", default=[])
    parser.add_argument("--json", type=pathlib.Path)
    options = parser.parse_args()
    figures = {}
    for batch in options.batches.split(","):
        found = {name: [] for name in programs(options)}
        for _ in range(options.rounds):
            for name, (command, _) in programs(options).items():
                lines = output([*command[:-1], batch, options.steps, command[-1]],
                               OPENBLAS_NUM_THREADS="1", MKL_NUM_THREADS="1")
                found[name].append(json.loads(lines.splitlines()[-1]))
        figures[batch] = found
        print(f"\nbatch {batch}, 2 ranks on {os.cpu_count()} processors\n")
        print("| | step, ms | best, ms | added, ms | added | peak, MiB | own |")
        print("|---|---|---|---|---|---|---|")
        for name, (_, base) in programs(options).items():
            def middle(key: str) -> float:
                return statistics.median(run[key] for run in found[name])
            added = ["", ""]
            if base:
                pairs = [(run["median"], other["median"]) for run, other in zip(found[name], found[base])]
                added = [f"{statistics.median(a - b for a, b in pairs):+.1f}",
                         f"{100 * statistics.median((a - b) / b for a, b in pairs):+.1f} %"]
            print(f"| {name} | {middle('median'):.1f} | {middle('best'):.1f} | {added[0]} | {added[1]} | "
                  f"{middle('peak'):.0f} | {middle('own'):.0f} |", flush=True)
    if options.json:
        options.json.write_text(json.dumps(figures, indent=1))
    return 0


if __name__ == "__main__":
    sys.exit(main())
