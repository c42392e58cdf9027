#!/usr/bin/env python3
"""Measures how many lines per second the launcher's pump carries from workers to files and to a console that is read.

    tests/bench/output_bench.py build/release/bin/output_pump_driver [--rounds 5] [--workers 8] [--lines 250000]

The workers only write lines of about 40 bytes; the console is a pipe into `cat > /dev/null`. Prints one JSON object
with medians over the rounds, in which the cases are interleaved. The files must be bit-identical to the lines written.
"""
import argparse
import json
import pathlib
import statistics
import subprocess
import tempfile

CASES = {"own_lines_collapse_files": ("collapse", "own", True), "same_lines_collapse_files": ("collapse", "same", True),
         "own_lines_files": ("each", "own", True), "own_lines": ("each", "own", False)}


def expected(rank: int, lines: int, which: str) -> bytes:
    start = "all ranks " if which == "same" else f"rank {rank} step "
    return "".join(f"{start}{1_000_000 + i} loss 0.693147 lr 0.001\n" for i in range(lines)).encode()


def run(options: argparse.Namespace, case: str) -> dict:
    mode, which, files = CASES[case]
    with tempfile.TemporaryDirectory() as folder:
        sink = subprocess.Popen(["sh", "-c", "cat > /dev/null"], stdin=subprocess.PIPE)
        result = subprocess.run([options.driver, str(options.workers), str(options.lines), folder if files else "-", mode,
                                 which], stdout=sink.stdin, stderr=subprocess.PIPE, check=True)
        sink.stdin.close()
        sink.wait()
        for rank in range(options.workers if files else 0):
            if pathlib.Path(folder, f"{rank}.log").read_bytes() != expected(rank, options.lines, which):
                raise SystemExit(f"{case}: the file of rank {rank} is not what it wrote")
    return json.loads(result.stderr)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("driver")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--workers", type=int, default=8)
    parser.add_argument("--lines", type=int, default=250_000, help="of each worker")
    options = parser.parse_args()
    rounds = [{case: run(options, case) for case in CASES} for _ in range(options.rounds)]
    total = options.workers * options.lines
    report = {"workers": options.workers, "lines": total, "rounds": options.rounds, "files_identical": True}
    for case in CASES:
        results = [one[case] for one in rounds]
        report[case] = {
            "lines_per_second": round(total / statistics.median(one["seconds"] for one in results)),
            "pump_cpu_ns_per_line": round(statistics.median(one["pump_cpu_seconds"] for one in results) / total * 1e9),
            "peak_mib": round(max(one["peak_kib"] for one in results) / 1024, 1),
            "lost": sum(one["lost"] for one in results)}
    print(json.dumps(report, indent=2))


if __name__ == "__main__":
    main()
