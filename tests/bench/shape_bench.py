#!/usr/bin/env python3
"""Measures whether the time of each collective grows with its size, and exits with 1 if there is a hole.

A hole is a size that takes longer than the next larger one. The sizes alternate within each round, and so do the
builds if several directories are given. Only the first one must have no hole. The table shows microseconds: the
least time of all calls, because other programs on the computer only make a call slower, and the median of the rounds'
medians.

    tests/bench/shape_bench.py build/release/bin [OTHER_BIN] [--ranks 2,4] [--backend cpu] [--own-buffers]
"""
import argparse
import json
import os
import statistics
import subprocess
import sys

OPERATIONS = ["all_reduce", "broadcast", "all_gather", "reduce_scatter", "all_to_all"]
# Differences within these are noise.
RELATIVE = 1.15
ABSOLUTE = 0.05  # microseconds


def holes(times):
    """Returns the sizes that take longer than the next larger one. `times` maps bytes to microseconds."""
    sizes = sorted(times)
    return [small for small, large in zip(sizes, sizes[1:]) if times[small] > times[large] * RELATIVE + ABSOLUTE]


def measure(arguments, directory, operation, ranks):
    """Returns the least time and the median of one round for each size, in microseconds."""
    command = [os.path.join(directory, "ddplaunch"), "-q", "--no-tag", f"--nproc-per-node={ranks}",
               os.path.join(directory, "ddp_bench"), operation, "--json", "--no-check",
               "--seconds", str(arguments.seconds), "--sizes", arguments.sizes]
    if arguments.own_buffers:
        command.append("--own-buffers")
    environment = dict(os.environ, DDP_BACKEND=arguments.backend)
    output = subprocess.run(command, env=environment, stdout=subprocess.PIPE, text=True, timeout=600, check=True).stdout
    lines = [json.loads(line[line.index("{"):]) for line in output.splitlines() if "{" in line]
    return {line["bytes"]: (line["least_microseconds"], line["microseconds"]) for line in lines}


def times_of(arguments, operation, ranks):
    """Returns {bytes: [(least, median) of each directory]}."""
    rounds = [[measure(arguments, directory, operation, ranks) for directory in arguments.bins]
              for _ in range(arguments.rounds)]
    return {size: [(min(each[build][size][0] for each in rounds),
                    statistics.median(each[build][size][1] for each in rounds))
                   for build in range(len(arguments.bins))] for size in rounds[0][0]}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("bins", nargs="+", help="directories of ddplaunch and ddp_bench")
    parser.add_argument("--ranks", default="2", help="numbers of ranks, such as 2,4")
    parser.add_argument("--operations", default=",".join(OPERATIONS))
    parser.add_argument("--backend", default="cpu")
    parser.add_argument("--sizes", default=",".join(str(2 ** power) for power in range(8, 18)))
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--seconds", type=float, default=0.05, help="time per size and round")
    parser.add_argument("--own-buffers", action="store_true")
    arguments = parser.parse_args()
    found = False
    for ranks in map(int, arguments.ranks.split(",")):
        for operation in arguments.operations.split(","):
            times = times_of(arguments, operation, ranks)
            slow = holes({size: builds[0][0] for size, builds in times.items()})
            print(f"{operation}, {ranks} ranks, {arguments.backend}")
            for size in sorted(times):
                columns = "".join(f"   least {least:8.2f}  median {median:8.2f}" for least, median in times[size])
                print(f"  {size:8d} bytes{columns}{'   hole' if size in slow else ''}", flush=True)
            found = found or bool(slow)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
