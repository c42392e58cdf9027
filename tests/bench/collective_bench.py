#!/usr/bin/env python3
"""Measures all-reduce of f32 by ddplaunch's backends, and by raw Gloo, Open MPI and PyTorch if they are installed. All
are interleaved in one run.

    tests/bench/collective_bench.py build/release/bin [--ranks 2,4] [--sizes 4096,...] [--rounds 5] [--torch PYTHON]
                                    [--json FILE]

Prints medians over the rounds of each program's own medians, in µs. `memory` is the shortest time that the node's
memory allows; see bound().
"""
import argparse
import json
import os
import pathlib
import shutil
import statistics
import subprocess
import sys
import tempfile

SIZES = [4096, 1 << 20, 25 << 20, 100 << 20]
ITERATIONS = 400


def output(command: list, **environment: str) -> str:
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True, timeout=600,
                          env=dict(os.environ, OMP_NUM_THREADS="1", **environment))
    if done.returncode != 0:
        raise RuntimeError(f"{command}: {done.stdout[-500:]} {done.stderr[-500:]}")
    return done.stdout


class Benches:
    def __init__(self, options: argparse.Namespace):
        self.bin, self.sizes, self.pythons = options.bin, options.sizes, options.pythons
        self.names = ["cpu, the runtime's buffers", "cpu, foreign buffers", "gloo (ours)", "raw Gloo, the better algorithm"]
        if shutil.which("mpirun") and (self.bin / "mpi_bench").exists():
            self.names.append("Open MPI")
        self.names += [f"PyTorch {version}" for version in self.pythons]

    def ours(self, ranks: int, backend: str, *words: str) -> dict[int, float]:
        lines = output([self.bin / "ddplaunch", "bench", f"--nproc-per-node={ranks}", f"--backend={backend}", "all_reduce",
                        "--sizes", ",".join(map(str, self.sizes)), "--seconds", "0.4", "--no-check", "--json", *words])
        return {line["bytes"]: line["microseconds"] for line in map(json.loads, lines.splitlines())}

    def measure(self, name: str, ranks: int) -> dict[int, float]:
        sizes = [str(size) for size in self.sizes]
        launch = [self.bin / "ddplaunch", "-q", "--no-tag", f"--nproc-per-node={ranks}"]
        if name == "cpu, the runtime's buffers":
            return self.ours(ranks, "cpu")
        if name == "cpu, foreign buffers":
            return self.ours(ranks, "cpu", "--own-buffers")
        if name == "gloo (ours)":
            return self.ours(ranks, "gloo", "--own-buffers")
        if name.startswith("raw Gloo"):
            with tempfile.TemporaryDirectory() as folder:
                found = json.loads(output([*launch, self.bin / "raw_gloo_bench", folder, ITERATIONS, *sizes]))
            return {int(size): min(times[size] for times in found.values()) for size in sizes}
        if name == "Open MPI":
            found = json.loads(output(["mpirun", "--allow-run-as-root", "--oversubscribe", "-np", ranks,
                                       self.bin / "mpi_bench", ITERATIONS, *sizes]))
        else:
            script = pathlib.Path(__file__).with_name("torch_collective_bench.py")
            found = json.loads(output([*launch, self.pythons[name.split()[1]], script, ITERATIONS, *sizes]))
        return {int(size): time for size, time in found.items()}


def bound(bandwidth: float, ranks: int, size: int) -> float:
    """Returns the shortest possible time in µs. Every rank's buffer must be read once and written once, which moves
    2 * ranks * size bytes through the memory. Its bandwidth (bytes/s, all ranks together, read + written) was
    measured in the same run by `stream`."""
    return 2 * ranks * size / bandwidth * 1e6


def stream(bin_: pathlib.Path, ranks: int) -> float:
    """Returns the bytes/s that `ranks` processes together read and write; see memory_bench.cpp."""
    found = output([bin_ / "ddplaunch", "-q", "--no-tag", f"--nproc-per-node={ranks}", bin_ / "memory_bench"])
    return sum(float(line) for line in found.split())


def pythons(given: list[str]) -> dict[str, str]:
    found = {}
    for python in ["/usr/bin/python3", *given]:
        done = subprocess.run([python, "-c", "import torch; print(torch.__version__)"], capture_output=True, text=True)
        if done.returncode == 0:
            found[done.stdout.split("+")[0].strip()] = python
    return found


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("bin", type=pathlib.Path)
    parser.add_argument("--ranks", default="2,4")
    parser.add_argument("--sizes", default=",".join(map(str, SIZES)))
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--torch", action="append", default=[])
    parser.add_argument("--json", type=pathlib.Path)
    options = parser.parse_args()
    options.sizes = [int(size) for size in options.sizes.split(",")]
    options.pythons = pythons(options.torch)
    benches = Benches(options)
    figures = {}
    for ranks in map(int, options.ranks.split(",")):
        rounds = {name: [] for name in benches.names}
        bandwidths = []
        for _ in range(options.rounds):
            bandwidths.append(stream(options.bin, ranks))
            for name in benches.names:
                rounds[name].append(benches.measure(name, ranks))
        bandwidth = statistics.median(bandwidths)
        table = {name: {size: statistics.median(found[size] for found in times) for size in options.sizes}
                 for name, times in rounds.items()}
        table[f"memory ({bandwidth / 1e9:.1f} GB/s)"] = {size: bound(bandwidth, ranks, size) for size in options.sizes}
        figures[ranks] = table
        print(f"\nall_reduce of f32, {ranks} ranks on {os.cpu_count()} processors, µs\n")
        print("| | " + " | ".join(f"{size:,} B" for size in options.sizes) + " |")
        print("|---" * (len(options.sizes) + 1) + "|")
        for name, times in table.items():
            print(f"| {name} | " + " | ".join(f"{times[size]:,.1f}" for size in options.sizes) + " |", flush=True)
    if options.json:
        options.json.write_text(json.dumps(figures, indent=1))
    return 0


if __name__ == "__main__":
    sys.exit(main())
