#!/usr/bin/env python3
"""How long starting and ending jobs takes, beside the peers that this machine has; all in one run, interleaved.

    tests/bench/launch_bench.py build/release/bin/ddplaunch [--rounds 15] [--workers 2] [--torchrun "COMMAND"]

Prints one JSON object: medians in milliseconds and, for a peer, the ratio of its median to ours.
"""
import argparse
import json
import shlex
import shutil
import statistics
import subprocess
import time


def run(command: list[str]) -> tuple[float, str]:
    """Wall milliseconds of a whole process, and what it printed."""
    start = time.perf_counter()
    result = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, check=False)
    return (time.perf_counter() - start) * 1e3, result.stdout.decode()


def ending_time(command: list[str]) -> float:
    """Milliseconds from the moment in which a worker says that it fails to the end of the launcher."""
    _, output = run(command)
    stamps = [int(word) for word in output.split() if word.isdigit()]
    return (time.time_ns() - min(stamps)) / 1e6


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("ddplaunch")
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--torchrun", default="", help="command that stands for torchrun, e.g. 'torchrun'")
    options = parser.parse_args()

    n = str(options.workers)
    starts = {"ddplaunch": [options.ddplaunch, "-q", "--nproc-per-node", n, "/bin/true"],
              "bare": ["/bin/sh", "-c", "i=0; while [ $i -lt " + n + " ]; do /bin/true & i=$((i+1)); done; wait"]}
    fail = "date +%s%N; exit 3"
    # The other rank is in the middle of something; it has the default answer to SIGTERM.
    fails = {"ddplaunch": [options.ddplaunch, "-q", "--nproc-per-node", n, "sh", "-c",
                           f"[ $RANK = 0 ] && {{ sleep 0.05; {fail}; }}; exec sleep 100"]}
    if shutil.which("mpirun"):
        mpirun = ["mpirun", "--allow-run-as-root", "--oversubscribe", "-n", n]
        starts["mpirun"] = [*mpirun, "/bin/true"]
        fails["mpirun"] = [*mpirun, "sh", "-c",
                           f"[ $OMPI_COMM_WORLD_RANK = 0 ] && {{ sleep 0.05; {fail}; }}; exec sleep 100"]
    if options.torchrun:
        torchrun = [*shlex.split(options.torchrun), f"--nproc_per_node={n}", "--no_python"]
        starts["torchrun"] = [*torchrun, "/bin/true"]
        fails["torchrun"] = [*torchrun, "sh", "-c", f"[ $RANK = 0 ] && {{ sleep 0.05; {fail}; }}; exec sleep 100"]

    start_times = {name: [] for name in starts}
    end_times = {name: [] for name in fails}
    for _ in range(options.rounds):
        for name, command in starts.items():
            start_times[name].append(run(command)[0])
        for name, command in fails.items():
            end_times[name].append(ending_time(command))

    def summary(times: dict[str, list[float]]) -> dict:
        ours = statistics.median(times["ddplaunch"])
        return {name: {"median_ms": round(statistics.median(values), 2), "min_ms": round(min(values), 2),
                       "max_ms": round(max(values), 2), "ratio_to_ours": round(statistics.median(values) / ours, 2)}
                for name, values in times.items()}

    print(json.dumps({"workers": options.workers, "rounds": options.rounds,
                      "whole run of /bin/true": summary(start_times),
                      "a rank's failure to the launcher's end": summary(end_times)},
                     indent=2))


if __name__ == "__main__":
    main()
