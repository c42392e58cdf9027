#!/usr/bin/env python3
"""Measures start, end, memory and output of whole jobs, under ddplaunch and the other launchers that are installed. All
are interleaved in one run.

    tests/bench/launch_bench.py build/release/bin [--workers 2,64,256] [--rounds 15,7,5] [--torchrun COMMAND]
                                [--torchrun-rounds 5,2,1] [--output-rounds 3] [--only start,end,memory,output] [--json FILE]

docs/development/benchmarks.md explains each number. Prints a table and the goals; --json writes everything. Exits with
1 if a goal is missed.
"""
import argparse
import contextlib
import json
import os
import pathlib
import platform
import select
import shlex
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time

import output_bench

DEADLINE = 60  # seconds per job; a launcher that takes longer is left out of that row from then on
OUTPUT_WORKERS = 8
OUTPUT_LINES = 250_000  # per worker
# The maps name no rank of the job: with "0", which is the default, torchrun 1.13 does not start under Python 3.11.
DEBIAN_TORCHRUN = "/usr/bin/python3 -m torch.distributed.run -r 9:1 -t 9:1"


def launchers(options: argparse.Namespace) -> dict:
    """Maps the name of a launcher to a function. It takes the number of workers and their command, and returns the
    command line to run."""
    found = {"ddplaunch": lambda n, command: [options.bin / "ddplaunch", "-q", f"--nproc_per_node={n}", *command],
             "bare spawn": lambda n, command: [options.bin / "bare_spawn", str(n), *command]}
    if shutil.which("mpirun"):
        root = ["--allow-run-as-root"] if os.geteuid() == 0 else []
        found["mpirun"] = lambda n, command: ["mpirun", *root, "--oversubscribe", "-n", str(n), *command]
    if options.torchrun:
        torchrun = shlex.split(options.torchrun)
        found["torchrun"] = lambda n, command: [*torchrun, f"--nproc_per_node={n}", "--no_python", *command]
    return found


def descendants(pid: int) -> list[int]:
    result = [pid]
    with contextlib.suppress(FileNotFoundError, ProcessLookupError):  # the process may have ended
        for path in pathlib.Path(f"/proc/{pid}/task").glob("*/children"):
            for child in path.read_text().split():
                result += descendants(int(child))
    return result


@contextlib.contextmanager
def job(command: list):
    """Runs a launcher in a new session. At the end its descendants are killed, even after an error."""
    process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                               start_new_session=True)
    try:
        yield process
    finally:
        if process.poll() is None:
            for pid in descendants(process.pid):
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            process.wait()


def wait(process: subprocess.Popen) -> int:
    """Returns the exit code. Popen.wait(timeout) polls, which would distort the figures."""
    end = os.pidfd_open(process.pid)
    try:
        if not select.select([end], [], [], DEADLINE)[0]:
            raise subprocess.TimeoutExpired(process.args, DEADLINE)
    finally:
        os.close(end)
    return process.wait()


def start_time(launcher, workers: int, _: argparse.Namespace) -> float:
    """Returns the milliseconds that the whole launcher process takes if its workers do nothing."""
    start = time.monotonic_ns()
    with job(launcher(workers, ["/bin/true"])) as process:
        code = wait(process)
        end = time.monotonic_ns()
    if code != 0:
        raise SystemExit(f"{shlex.join(map(str, process.args))}: exit code {code}")
    return (end - start) / 1e6


def end_time(launcher, workers: int, options: argparse.Namespace) -> float:
    """Returns the milliseconds from the last moment of the failing worker to the end of the launcher. The other
    workers obey SIGTERM."""
    with tempfile.TemporaryDirectory() as folder:
        ready, stamp = f"{folder}/ready", pathlib.Path(folder, "stamp")
        os.mkfifo(ready)
        with job(launcher(workers, [options.bin / "bench_worker", "fail", ready, stamp])) as process:
            code = wait(process)
            end = time.monotonic_ns()
        if code == 0 or not stamp.exists():
            raise SystemExit(f"{shlex.join(map(str, process.args))}: exit code {code}, and a worker should have failed")
        return (end - int(stamp.read_text())) / 1e6


def field(path: str, name: str) -> int:
    """Returns the KiB of a line "name:  1234 kB"."""
    for line in pathlib.Path(path).read_text().splitlines():
        if line.startswith(name + ":"):
            return int(line.split()[1])
    raise SystemExit(f"{path} has no {name}")


def raise_timeout(*_) -> None:
    raise TimeoutError


def memory(launcher, workers: int, options: argparse.Namespace) -> dict[str, float]:
    """Returns the MiB of all of the launcher's own processes while every worker runs, in two sums. The first one
    adds their proportional shares (PSS), in which pages that several processes map count once. The second one adds
    the peak resident memory that each process had until then (VmHWM)."""
    with tempfile.TemporaryDirectory() as folder:
        for name in ("ready", "hold"):
            os.mkfifo(f"{folder}/{name}")
        hold = os.open(f"{folder}/hold", os.O_RDWR)
        command = launcher(workers, [options.bin / "bench_worker", "wait", f"{folder}/ready", f"{folder}/hold"])
        with open(os.open(f"{folder}/ready", os.O_RDWR), encoding="ascii") as ready, job(command) as process:
            signal.signal(signal.SIGALRM, raise_timeout)
            signal.alarm(DEADLINE)
            pids = {int(ready.readline()) for _ in range(workers)}
            own = [pid for pid in descendants(process.pid) if pid not in pids]
            sizes = {"processes": len(own),
                     "pss_mib": sum(field(f"/proc/{pid}/smaps_rollup", "Pss") for pid in own) / 1024,
                     "peak_mib": sum(field(f"/proc/{pid}/status", "VmHWM") for pid in own) / 1024}
            signal.alarm(0)
            os.close(hold)
            wait(process)
    return sizes


def output(options: argparse.Namespace) -> dict[str, float]:
    """Measures workers that only print. Their output goes to files and, tagged, to a console that is a pipe into
    cat."""
    with tempfile.TemporaryDirectory() as folder:
        sink = subprocess.Popen(["sh", "-c", "cat > /dev/null"], stdin=subprocess.PIPE)
        start = time.monotonic_ns()
        result = subprocess.run([options.bin / "ddplaunch", f"--nproc_per_node={OUTPUT_WORKERS}", "--log-dir", folder,
                                 "--tee=3", options.bin / "bench_worker", "lines", str(OUTPUT_LINES)],
                                stdin=subprocess.DEVNULL, stdout=sink.stdin, stderr=subprocess.PIPE, text=True,
                                timeout=DEADLINE, check=False)
        seconds = (time.monotonic_ns() - start) / 1e9
        sink.stdin.close()
        sink.wait()
        if result.returncode != 0 or "not shown" in result.stderr:
            raise SystemExit(f"output: exit code {result.returncode}\n{result.stderr}")
        logs = {int(path.parent.name): path for path in pathlib.Path(folder).glob("*/attempt_0/*/stdout.log")}
        for rank in range(OUTPUT_WORKERS):
            if logs[rank].read_bytes() != output_bench.expected(rank, OUTPUT_LINES, "own"):
                raise SystemExit(f"output: the file of rank {rank} is not what it wrote")
    return {"seconds": seconds, "lines_per_second": OUTPUT_WORKERS * OUTPUT_LINES / seconds}


def interleave(measure, found: dict, options: argparse.Namespace, skip: tuple = ()) -> dict:
    """Returns {workers: {launcher: [measurement, ...]}}. In each round the launchers take turns."""
    results = {}
    for workers, rounds, torchrun_rounds in zip(options.workers, options.rounds, options.torchrun_rounds):
        row = results[workers] = {name: [] for name in found if name not in skip}
        hung = set()
        for i in range(rounds):
            for name, values in row.items():
                if name == "torchrun" and i >= torchrun_rounds:
                    continue
                if name in hung:
                    continue
                try:
                    values.append(measure(found[name], workers, options))
                except (subprocess.TimeoutExpired, TimeoutError):
                    if name == "ddplaunch":
                        raise
                    hung.add(name)
                    print(f"{name} hangs with {workers} workers ({measure.__name__}, round {i + 1})", file=sys.stderr)
        for name in [name for name, values in row.items() if not values]:
            del row[name]
    return results


def summary(values: list[float], ours: list[float]) -> dict[str, float]:
    median = statistics.median(values)
    return {"median_ms": round(median, 2), "min_ms": round(min(values), 2), "max_ms": round(max(values), 2),
            "rounds": len(values), "ratio_to_ours": round(median / statistics.median(ours), 2)}


def times(measure, *args, **kwargs) -> dict:
    results = interleave(measure, *args, **kwargs)
    return {workers: {name: summary(values, row["ddplaunch"]) for name, values in row.items()}
            for workers, row in results.items()}


def sizes_of(found: dict, options: argparse.Namespace) -> dict:
    few = argparse.Namespace(**{**vars(options), "rounds": [3] * len(options.workers),
                                "torchrun_rounds": [min(1, rounds) for rounds in options.torchrun_rounds]})
    return {workers: {name: {key: round(max(size[key] for size in sizes), 2) for key in sizes[0]}
                      for name, sizes in row.items()}
            for workers, row in interleave(memory, found, few).items()}


def goals(report: dict) -> list[dict]:
    """Returns the goals of the project, each with the result of this run."""
    checks = []

    def check(what: str, value: float, unit: str, limit: float, at_least: bool = False) -> None:
        met = value >= limit if at_least else value <= limit
        checks.append({"goal": f"{what}: {'at least' if at_least else 'at most'} {limit:,} {unit}",
                       "value": round(value, 2), "met": met})

    # With many workers, their own starts and ends take most of the time, under any launcher.
    if row := report.get("start", {}).get(2):
        check("2 workers, median over bare spawn", row["ddplaunch"]["median_ms"] - row["bare spawn"]["median_ms"], "ms", 10)
        if "torchrun" in row:
            check("2 workers, torchrun's median to ours", row["torchrun"]["ratio_to_ours"], "times", 100, True)
    if row := report.get("end", {}).get(2):
        check("2 workers, median from a worker's exit to the launcher's end", row["ddplaunch"]["median_ms"], "ms", 10)
    for workers, row in report.get("memory", {}).items():
        check(f"{workers} workers, peak resident memory", row["ddplaunch"]["peak_mib"], "MiB", 20)
    if "output" in report:
        check("output, median", report["output"]["lines_per_second"], "lines/s", 1_000_000, True)
    return checks


def show(report: dict) -> None:
    columns = {"start": ("whole run of /bin/true", ("median_ms", "min_ms", "max_ms", "ratio_to_ours", "rounds")),
               "end": ("a worker's exit to the launcher's end", ("median_ms", "min_ms", "max_ms", "ratio_to_ours", "rounds")),
               "memory": ("the launcher's memory", ("peak_mib", "pss_mib", "processes"))}
    for part, (title, keys) in columns.items():
        if part not in report:
            continue
        print(f"\n{title}\n{'workers':>8} {'launcher':<12}" + "".join(f"{key:>15}" for key in keys))
        for workers, row in report[part].items():
            for name, values in row.items():
                print(f"{workers:>8} {name:<12}" + "".join(f"{values[key]:>15,}" for key in keys))
    if "output" in report:
        print(f"\noutput: {report['output']['lines_per_second']:,} lines/s, files identical")
    print()
    for goal in report["goals"]:
        print(f"{'met   ' if goal['met'] else 'MISSED'} {goal['goal']}: {goal['value']:,}")


def parse() -> argparse.Namespace:
    def numbers(text: str) -> list[int]:
        return [int(word) for word in text.split(",")]

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("bin", type=pathlib.Path, help="where ddplaunch, bare_spawn and bench_worker are")
    parser.add_argument("--workers", type=numbers, default=[2, 64, 256])
    parser.add_argument("--rounds", type=numbers, default=[15, 7, 5], help="for each number of workers")
    parser.add_argument("--torchrun", help="command that stands for torchrun; default: Debian's, if it is there; '': none")
    parser.add_argument("--torchrun-rounds", type=numbers, default=[5, 2, 1])
    parser.add_argument("--output-rounds", type=int, default=3)
    parser.add_argument("--only", type=lambda text: text.split(","), default=["start", "end", "memory", "output"])
    parser.add_argument("--json", type=pathlib.Path, help="file for all figures")
    options = parser.parse_args()
    if not len(options.workers) == len(options.rounds) == len(options.torchrun_rounds):
        parser.error("--workers, --rounds and --torchrun-rounds want equally many numbers")
    options.bin = options.bin.resolve()
    if options.torchrun is None:
        known = subprocess.run(["/usr/bin/python3", "-c", "import torch"], stderr=subprocess.DEVNULL, check=False)
        options.torchrun = DEBIAN_TORCHRUN if known.returncode == 0 else ""
    return options


def main() -> int:
    options = parse()
    found = launchers(options)
    report = {"machine": f"{os.cpu_count()} CPUs, {platform.platform()}", "torchrun": options.torchrun}
    if "start" in options.only:
        report["start"] = times(start_time, found, options)
    if "end" in options.only:
        report["end"] = times(end_time, found, options, skip=("bare spawn",))
    if "memory" in options.only:
        report["memory"] = sizes_of(found, options)
    if "output" in options.only:
        rates = [output(options)["lines_per_second"] for _ in range(options.output_rounds)]
        report["output"] = {"workers": OUTPUT_WORKERS, "lines": OUTPUT_WORKERS * OUTPUT_LINES, "rounds": len(rates),
                            "lines_per_second": round(statistics.median(rates)), "least_lines_per_second": round(min(rates)),
                            "files_identical": True}
    report["goals"] = goals(report)
    show(report)
    if options.json:
        options.json.write_text(json.dumps(report, indent=2) + "\n")
    return 0 if all(goal["met"] for goal in report["goals"]) else 1


if __name__ == "__main__":
    sys.exit(main())
