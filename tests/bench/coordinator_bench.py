#!/usr/bin/env python3
"""coordinator_bench.py BIN_DIR [--nodes 10,100,1000,5000] [--rounds 3] [--connecting 32] [--token]: measures what many
nodes cost their coordinator.

Runs a real coordinator (ddplaunch with one worker, sleep) and coordinator_load, which acts as the launchers of all
other nodes. Both run on one computer and talk over loopback. For each number of nodes, prints the median time and the
median processor time of the coordinator in these phases:

    connect     until all nodes are connected
    begin       from the first hello until the last node has received the start of the job
    heartbeats  the heartbeats
    failure     from a failure until the last node has received it
    end         until the last node has received the end of the job

With --token, each connection proves that it has the token. Times are upper bounds, because the client uses the same
processors; processor times are the coordinator's alone. --json FILE writes JSON."""
import argparse
import json
import os
import pathlib
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
from ports import free_port  # noqa: E402  (it is in another folder)

PHASES = ("connect", "begin", "heartbeats", "failure", "end")


def supervisor_of(launcher: subprocess.Popen, port: int) -> int:
    """Returns the supervisor's pid once the coordinator listens. The launcher's first process only waits; its child
    does the work."""
    until = time.monotonic() + 20
    while time.monotonic() < until:
        children = pathlib.Path(f"/proc/{launcher.pid}/task/{launcher.pid}/children").read_text().split()
        with socket.socket() as probe:
            if children and probe.connect_ex(("127.0.0.1", port)) == 0:
                return int(children[0])
        time.sleep(0.01)
    raise RuntimeError("the coordinator does not listen")


def measure(options: argparse.Namespace, nodes: int) -> dict:
    port = free_port()
    program = shutil.which("sleep")
    with tempfile.TemporaryDirectory() as folder:
        token = []
        if options.token:
            token = [pathlib.Path(folder, "token")]
            token[0].write_text("a token of the bench")
            token[0].chmod(0o600)
        coordinator = subprocess.Popen([options.bin / "ddplaunch", "-q", "--nproc-per-node=1", f"--nnodes={nodes + 1}",
                                        f"--rdzv-endpoint=127.0.0.1:{port}", "--rdzv-id=bench",
                                        *(f"--auth-token-file={path}" for path in token), program, "1000"],
                                       stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        try:
            load = subprocess.run([str(word) for word in
                                   [options.bin / "coordinator_load", port, nodes, supervisor_of(coordinator, port),
                                    program, options.seconds, options.connecting, *token]],
                                  capture_output=True, text=True, timeout=300)
            if load.returncode != 0:
                coordinator.terminate()
                raise RuntimeError(f"{load.stderr.strip()}; the coordinator: "
                                   f"{coordinator.communicate(timeout=60)[1].strip()[-500:]}")
            errors = coordinator.communicate(timeout=60)[1]
            if coordinator.returncode != 3:
                raise RuntimeError(f"the coordinator ended with {coordinator.returncode}, "
                                   f"not with the failure's 3: {told}")
        finally:
            if coordinator.poll() is None:
                coordinator.terminate()
                coordinator.wait(timeout=60)
    return json.loads(load.stdout)


def medians(rounds: list[dict]) -> dict:
    return {phase: {key: statistics.median(measured[phase][key] for measured in rounds) for key in rounds[0][phase]}
            for phase in PHASES}


def show(nodes: int, row: dict, seconds: int) -> None:
    print(f"\n{nodes} nodes; bytes and messages of one node, said and heard")
    for phase in PHASES:
        values = row[phase]
        repeats = seconds if phase == "heartbeats" else 1
        cpu = values["hub_cpu_seconds"] / repeats
        first = f", the first {values['first_seconds'] * 1e3:.2f}" if values["first_seconds"] else ""
        each = ", ".join(f"{values[f'{who}_bytes'] / nodes:.0f} in {values[f'{who}_messages'] / nodes:.1f}"
                         for who in ("said", "heard"))
        print(f"  {phase:<10} {values['seconds'] * 1e3:>9.1f} ms{first}; coordinator's CPU {cpu * 1e3:>8.2f} ms"
              f"{' a second' if phase == 'heartbeats' else ''}, {cpu / nodes * 1e6:>6.1f} us a node; {each}")
    print(f"  memory of the coordinator {row['heartbeats']['hub_rss_bytes'] / 2**20:.1f} MiB")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("bin", type=pathlib.Path)
    parser.add_argument("--nodes", type=lambda text: [int(word) for word in text.split(",")], default=[10, 100, 1000, 5000])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=int, default=5, help="of heartbeats")
    parser.add_argument("--connecting", type=int, default=32, help="connections that are made at a time")
    parser.add_argument("--token", action="store_true")
    parser.add_argument("--json", type=pathlib.Path)
    options = parser.parse_args()
    report = {"cpus": os.cpu_count(), "rounds": options.rounds}
    for nodes in options.nodes:
        report[nodes] = medians([measure(options, nodes) for _ in range(options.rounds)])
        show(nodes, report[nodes], options.seconds)
        sys.stdout.flush()
    if options.json:
        options.json.write_text(json.dumps(report, indent=2) + "\n")


if __name__ == "__main__":
    main()
