#!/usr/bin/env python3
"""explain_bench.py DDPLAUNCH [MEBIBYTES [ROUNDS]]: measures `ddplaunch explain` on logs of training (default: 1024 MiB, 5
rounds), and grep on the same logs in turn. Prints one JSON document: medians in seconds, and the peak memory in MiB."""
import json
import os
import pathlib
import random
import statistics
import subprocess
import sys
import tempfile
import time

LAUNCHER = pathlib.Path(sys.argv[1]).resolve()
MEBIBYTES = int(sys.argv[2]) if len(sys.argv) > 2 else 1024
ROUNDS = int(sys.argv[3]) if len(sys.argv) > 3 else 5
FAILURE = ("[default3]:[rank3]: Traceback (most recent call last):\n[default3]:[rank3]:   File \"train.py\", line 88, in <module>\n"
           "[default3]:[rank3]: ValueError: Expected more than 1 value per channel when training, got input size [1, 64]\n")


def long_line(step: int, rank: int) -> str:
    return (f"[default{rank}]:2026-11-04 12:{step % 60:02d}:03,123 INFO epoch {step // 1000} step {step} loss {random.random():.6f} "
            f"lr 0.0003 tokens/s {random.randrange(10000, 20000)} memory 31.2 GiB\n")


def short_line(step: int, rank: int) -> str:
    return f"step {step} loss {rank}.{step % 1000:03d}\n"


def coloured_line(step: int, rank: int) -> str:
    return f"\x1b[36m[{rank}]\x1b[0m step {step} \x1b[32mloss\x1b[0m {random.random():.6f}\n"


def measured(*words: object) -> tuple[float, float]:
    """Returns the seconds and the peak memory in MiB of a command. A child of Python would count the memory of Python."""
    begin = time.monotonic()
    done = subprocess.run(["/usr/bin/time", "-f", "%M", *map(str, words)], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
                          env={**os.environ, "LC_ALL": "C"}, check=True)
    return time.monotonic() - begin, int(done.stderr) / 1024


def main() -> None:
    random.seed(1)
    results = {"mebibytes": MEBIBYTES, "rounds": ROUNDS}
    with tempfile.TemporaryDirectory() as folder:
        for make in (long_line, short_line, coloured_line):
            block = "".join(make(step, step % 8) for step in range(100_000))
            log = pathlib.Path(folder) / "train.log"
            with log.open("w") as file:
                for _ in range((MEBIBYTES << 20) // len(block) + 1):
                    file.write(block)
                file.write(FAILURE)
            answer = json.loads(subprocess.run([LAUNCHER, "explain", "--json", log], stdout=subprocess.PIPE).stdout)
            assert (answer["cause"], answer["rank"]) == ("batch-of-one", 3), answer
            runs = [(measured(LAUNCHER, "explain", log), measured("grep", "-c", "Traceback", log)) for _ in range(ROUNDS)]
            results[make.__name__] = {
                "explain_seconds": round(statistics.median(explain[0] for explain, _ in runs), 2),
                "explain_mebibytes": round(max(explain[1] for explain, _ in runs), 1),
                "grep_seconds": round(statistics.median(grep[0] for _, grep in runs), 2)}
    print(json.dumps(results))


main()
