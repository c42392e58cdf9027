#!/usr/bin/env python3
"""Measures what data parallelism adds to a training step, with ddplaunch's runtime (cpu, gloo) and PyTorch's
DistributedDataParallel.

    tests/bench/step_bench.py build/release/bin [--batches 32,128] [--rounds 3] [--pairs 15] [--torch PYTHON] [--json FILE]

The model is a multilayer perceptron of 25 million parameters, on 2 ranks of 1 thread, in libtorch with OpenBLAS. Every
program alternates between a step with no_sync() and a synchronised one, and the programs take turns in rounds. "added"
is the median of the differences of all pairs, with their quartiles. A change of the computer's speed affects both steps
of a pair alike. "local" and "step" are medians in ms. "peak" is the peak resident memory of rank 0 in MiB. "own" is the
growth of its proportional set size since the group was made; memory that ranks share counts in equal parts. "barrier"
replaces the synchronised step by a local one with a barrier after backward. It shows what any program that averages
must spend on waiting for the slower rank.
"""
import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys

from collective_bench import output, pythons


def programs(options: argparse.Namespace) -> dict[str, list]:
    """Maps a name to a command without batch and pairs."""
    launch = [options.bin / "ddplaunch", "-q", "--no-tag", "--nproc-per-node=2"]
    ours = options.bin / "step_bench"
    result = {"a barrier alone": [*launch, "--backend=cpu", ours, "barrier"],
              "ours, cpu": [*launch, "--backend=cpu", ours, "synchronised"],
              "ours, gloo": [*launch, "--backend=gloo", ours, "synchronised"]}
    script = pathlib.Path(__file__).with_name("torch_step_bench.py")
    for version, python in pythons(options.torch).items():
        result[f"PyTorch {version}"] = [*launch, python, script, "synchronised"]
        result[f"PyTorch {version}, bucket views"] = [*launch, python, script, "views"]
    return result


def row(name: str, runs: list[dict]) -> str:
    local = [time for run in runs for time in run["local"]]
    steps = [time for run in runs for time in run["steps"]]
    added = [step - alone for step, alone in zip(steps, local)]
    low, middle, high = statistics.quantiles(added, n=4)
    alone = statistics.median(local)
    return (f"| {name} | {alone:.1f} | {statistics.median(steps):.1f} | {middle:+.1f} ({low:+.1f} to {high:+.1f}) | "
            f"{100 * middle / alone:+.1f} % | {statistics.median(run['peak'] for run in runs):.0f} | "
            f"{statistics.median(run['own'] for run in runs):.0f} |")


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("bin", type=pathlib.Path)
    parser.add_argument("--batches", default="32,128")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--pairs", type=int, default=15)
    parser.add_argument("--torch", action="append", default=[])
    parser.add_argument("--json", type=pathlib.Path)
    options = parser.parse_args()
    figures = {}
    for batch in options.batches.split(","):
        found = {name: [] for name in programs(options)}
        for _ in range(options.rounds):
            for name, command in programs(options).items():
                lines = output([*command[:-1], batch, options.pairs, command[-1]],
                               OPENBLAS_NUM_THREADS="1", MKL_NUM_THREADS="1")
                found[name].append(json.loads(lines.splitlines()[-1]))
        figures[batch] = found
        print(f"\nbatch {batch}, 2 ranks on {os.cpu_count()} processors, {options.rounds * options.pairs} pairs\n")
        print("| | local, ms | step, ms | added, ms | added | peak, MiB | own |")
        print("|---|---|---|---|---|---|---|")
        for name, runs in found.items():
            print(row(name, runs), flush=True)
    if options.json:
        options.json.write_text(json.dumps(figures, indent=1))
    return 0


if __name__ == "__main__":
    sys.exit(main())
