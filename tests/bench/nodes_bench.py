#!/usr/bin/env python3
"""nodes_bench.py BIN_DIR [PYTHON]: measures jobs on 2 and 8 nodes, which are network namespaces and need root. It
measures the time from the last launcher's start to the first worker's, and from a worker's failure to the end of all
launchers. With PYTHON, its torchrun (c10d) is measured too. Prints JSON with medians in seconds, or null if not all
launchers had ended after 20 s."""
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "integration"))
BIN = pathlib.Path(sys.argv[1])
PYTHON = sys.argv[2] if len(sys.argv) > 2 else None
RUNS = 7
LIMIT = 20

import node_rig  # noqa: E402  (it reads sys.argv, too)


def inside(hosts: node_rig.Hosts, number: int) -> list:
    # Enters only the network namespace of the node: to enter the others would take longer than what is measured.
    return ["nsenter", f"--net=/run/netns/{hosts.namespace(number)}"]


def ddplaunch(hosts: node_rig.Hosts, number: int, count: int, port: int) -> list:
    return [*inside(hosts, number), BIN / "ddplaunch", "-q", "--nproc-per-node=1", f"--nnodes={count}",
            f"--rdzv-endpoint=10.77.0.1:{port}"]


def torchrun(hosts: node_rig.Hosts, number: int, count: int, port: int) -> list:
    return [*inside(hosts, number), PYTHON, "-m", "torch.distributed.run", "--nproc-per-node=1", f"--nnodes={count}",
            "--rdzv-backend=c10d", f"--rdzv-endpoint=10.77.0.1:{port}", f"--rdzv-conf=is_host={int(number == 1)}",
            f"--local-addr=10.77.0.{number}", "--no-python"]


def run(hosts: node_rig.Hosts, launcher, count: int, port: int) -> tuple[float, float | None]:
    with tempfile.TemporaryDirectory() as folder:
        # Rank 1 fails when all have started.
        program = f"""date +%s%N > {folder}/began$RANK.new; mv {folder}/began$RANK.new {folder}/began$RANK
            [ $RANK = 1 ] || exec sleep 1000
            while [ $(ls {folder} | grep -c 'began[0-9]*$') -lt {count} ]; do sleep 0.05; done
            sleep 1; date +%s%N > {folder}/failed; exit 3"""
        # The launcher with the store starts early. The last launcher starts when all others wait for it.
        processes = [subprocess.Popen([*map(str, launcher(hosts, number, count, port)), "sh", "-c", program],
                                      stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) for number in range(1, count)]
        time.sleep(8 if launcher is torchrun else 1)
        last = time.time()
        processes.append(subprocess.Popen([*map(str, launcher(hosts, count, count, port)), "sh", "-c", program],
                                          stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL))
        until = time.monotonic() + 60
        while not pathlib.Path(folder, "failed").exists() and time.monotonic() < until:
            time.sleep(0.01)
        failed = time.monotonic()
        while any(process.poll() is None for process in processes) and time.monotonic() < failed + LIMIT:
            time.sleep(0.002)
        end = time.time()
        is_over = all(process.poll() is not None for process in processes)
        for process in processes:
            process.terminate()
        for process in processes:
            process.wait(timeout=60)
        began = min(int(path.read_text()) for path in pathlib.Path(folder).glob("began*")) / 1e9
        failure = end - int(pathlib.Path(folder, "failed").read_text()) / 1e9
        return began - last, failure if is_over else None


def main() -> None:
    hosts = node_rig.Hosts(8)
    try:
        assert hosts.are_apart, "needs network namespaces"
        port = 29500
        for count in (2, 8):
            for launcher, runs in ((ddplaunch, RUNS), *([(torchrun, 3 if count == 2 else 1)] if PYTHON else [])):
                results = []
                for _ in range(runs):
                    port += 1
                    results.append(run(hosts, launcher, count, port))
                failures = [failure for _, failure in results if failure is not None]
                print(json.dumps({"launcher": launcher.__name__, "hosts": count, "runs": runs,
                                  "start_seconds": round(statistics.median(start for start, _ in results), 4),
                                  "failure_seconds": round(statistics.median(failures), 4) if failures else None}),
                      flush=True)
    finally:
        hosts.remove()


if __name__ == "__main__":
    main()
