#!/usr/bin/env python3
"""Compares the store with PyTorch's and with Redis, if they are installed. All are interleaved in one run.

    tests/bench/store_bench.py build/release/bin [--torch PYTHON] [--clients 1,8,64] [--rounds 5] [--seconds 0.5]
                               [--only server,client,rendezvous] [--ranks 10000] [--json FILE]

server: one load generator (store_load.cpp: one thread, a closed loop) runs against each server. client: each server
runs with its own client, one process per client, because a user depends on both. rendezvous: all ranks connect and pass
one barrier. --torch names a Python with a current PyTorch. Prints tables and the goals. Exits with 1 if a goal is
missed.
"""
import argparse
import contextlib
import json
import os
import pathlib
import platform
import statistics
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "support"))
import environments  # noqa: E402  (it is in another folder)
import store_servers  # noqa: E402

DEADLINE = 120
# Each row gives the round trips of a client's call, as operations of load_script.h: (row, PyTorch's client,
# ddp::Store).
ROWS = [("set", "set", "set"), ("get", "get_two_trips", "get_one_trip"), ("raw get", "get_raw", "get_raw"),
        ("set+get", "set_get", "set_get_one_trip"), ("add", "add", "add"), ("wake", "wake", "wake")]
CLIENT_ROWS = ["set", "get", "add"]
LATENCIES = ("median_us", "p99_us", "server_cpu_us")
OURS = "ddplaunch"


def output_of(command: list) -> dict:
    result = subprocess.run([str(word) for word in command], text=True, capture_output=True, timeout=DEADLINE, check=False)
    if result.returncode != 0:
        raise RuntimeError(f"{command}: {result.stderr.strip()[-500:]}")
    return json.loads(result.stdout)


def medians(rounds: list[dict]) -> dict:
    return {key: round(statistics.median(measured[key] for measured in rounds), 1) for key in rounds[0]} | {
        "rounds": len(rounds)}


def start_servers(stack: contextlib.ExitStack, options: argparse.Namespace) -> list[store_servers.Server]:
    found = [stack.enter_context(store_servers.ours(options.bin))]
    found.append(stack.enter_context(store_servers.ours(options.bin, "legacy")))
    found += [stack.enter_context(store_servers.torch(python)) for python in options.pythons]
    if store_servers.redis_is_there():
        found.append(stack.enter_context(store_servers.redis()))
    return found


def cpu_seconds(pid: int) -> float:
    """Returns the processor time that all threads of a process have used. It is the most reliable figure on a busy
    computer."""
    tasks = pathlib.Path(f"/proc/{pid}/task").glob("*/schedstat")
    return sum(int(task.read_text().split()[0]) for task in tasks) / 1e9


def interleaved(options: argparse.Namespace, names: list[str], measure) -> dict:
    """Returns {name: medians}. In each round the names take turns."""
    rounds = {name: [] for name in names}
    for _ in range(options.rounds):
        for name in names:
            rounds[name].append(measure(name))
    return {name: medians(measured) for name, measured in rounds.items()}


def server_rows(options: argparse.Namespace) -> dict:
    table = {}
    with contextlib.ExitStack() as stack:
        servers = {server.name: server for server in start_servers(stack, options)}
        for clients in options.clients:
            for row, theirs, own in ROWS:
                if options.rows and row not in options.rows:
                    continue

                def measure(name: str) -> dict:
                    server = servers[name]
                    operation = own if name == OURS else theirs
                    before = cpu_seconds(server.pid)
                    measured = output_of([options.bin / "store_load", server.port, server.protocol, operation, clients,
                                          options.seconds])
                    used = cpu_seconds(server.pid) - before
                    return measured | {"server_cpu_us": used / measured["operations"] * 1e6}
                table.setdefault(clients, {})[row] = interleaved(options, list(servers), measure)
    return table


def client_rows(options: argparse.Namespace) -> dict:
    table = {}
    script = pathlib.Path(__file__).with_name("torch_client_bench.py")
    with contextlib.ExitStack() as stack:
        pairs = {OURS: (stack.enter_context(store_servers.ours(options.bin)), [options.bin / "store_client_bench"])}
        for python in options.pythons:
            server = stack.enter_context(store_servers.torch(python))
            pairs[server.name] = server, [python, "-W", "ignore", script]
        for clients in options.clients:
            for row in CLIENT_ROWS:
                def measure(name: str) -> dict:
                    server, client = pairs[name]
                    return output_of([*client, server.port, row, clients, options.seconds])
                table.setdefault(clients, {})[row] = interleaved(options, list(pairs), measure)
    return table


def rendezvous_rows(options: argparse.Namespace) -> dict:
    """Starts a new server for each measurement, so that its memory is used by these connections alone."""
    ways = {OURS: (lambda: store_servers.ours(options.bin), "keys"),
            f"{OURS}, BARRIER": (lambda: store_servers.ours(options.bin), "barrier")}
    for python in options.pythons:
        name = f"torch {store_servers.torch_version(python)}"
        ways[name] = (lambda python=python: store_servers.torch(python)), "keys"
        if not name.startswith("torch 1"):
            ways[f"{name}, BARRIER"] = (lambda python=python: store_servers.torch(python)), "barrier"
    rounds = {name: [] for name in ways}
    for _ in range(options.rounds):
        for name, (start, kind) in ways.items():
            try:
                with start() as server:
                    rounds[name].append(output_of([options.bin / "store_rendezvous", server.port, server.protocol, kind,
                                                   options.ranks, server.pid]))
            except (RuntimeError, subprocess.TimeoutExpired) as error:
                print(f"rendezvous of {options.ranks} with {name}: {error}", file=sys.stderr)
    return {name: medians(measured) for name, measured in rounds.items() if measured}


def goals(report: dict) -> list[dict]:
    checks = []

    def check(goal: str, value: float, limit: float, at_least: bool = True) -> None:
        checks.append({"goal": f"{goal} ({'at least' if at_least else 'at most'} {limit:g})", "value": round(value, 2),
                       "met": value >= limit if at_least else value <= limit})
    for part in ("server", "client"):
        for clients, rows in report.get(part, {}).items():
            for row, values in rows.items():
                ours = values[OURS]["per_second"]
                for name, theirs in values.items():
                    if name.startswith("torch") and row in ("get", "add"):
                        check(f"{part}, {clients} clients, {row}: times {name}", ours / theirs["per_second"], 3)
                    if name == "redis" and row != "wake":
                        check(f"{part}, {clients} clients, {row}: times {name}", ours / theirs["per_second"], 1)
    if report.get("rendezvous"):
        name = f"rendezvous of {report['ranks']} ranks, seconds"
        check(name, report["rendezvous"][OURS]["seconds"], 2, False)
    return checks


def show(report: dict) -> None:
    for part in ("server", "client"):
        for clients, rows in report.get(part, {}).items():
            print(f"\n{part}: {clients} clients, operations a second{'' if part == 'client' else ' (median, p99, CPU of the server in µs)'}; "
                  "ours is so many times as fast")
            for row, values in rows.items():
                for name, measured in values.items():
                    latency = "".join(f"{measured[key]:>9}" for key in LATENCIES if key in measured)
                    ratio = values[OURS]["per_second"] / measured["per_second"]
                    print(f"  {row:<8} {name:<20} {measured['per_second']:>12,.0f} {latency}   x{ratio:.2f}")
    if report.get("rendezvous"):
        print(f"\nrendezvous of {report['ranks']} ranks")
        for name, measured in report["rendezvous"].items():
            print(f"  {name:<22} {measured['seconds']:>7} s (connected after {measured['connect_seconds']} s), "
                  f"{measured['bytes_per_connection']:,.0f} bytes of the server's memory a connection")
    print()
    for goal in report["goals"]:
        print(f"{'met   ' if goal['met'] else 'MISSED'} {goal['goal']}: {goal['value']:,}")


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("bin", type=pathlib.Path, help="where ddplaunch, store_load and the others are")
    parser.add_argument("--torch", default=environments.find("pytorch") or "", help="a Python with a current PyTorch")
    parser.add_argument("--clients", type=lambda text: [int(word) for word in text.split(",")], default=[1, 8, 64])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=0.5, help="of each measurement")
    parser.add_argument("--ranks", type=int, default=10_000)
    parser.add_argument("--only", type=lambda text: text.split(","), default=["server", "client", "rendezvous"])
    parser.add_argument("--rows", type=lambda text: text.split(","), help="of the server's table: set,add,...")
    parser.add_argument("--json", type=pathlib.Path, help="file for all figures")
    options = parser.parse_args()
    options.bin = options.bin.resolve()
    options.pythons = store_servers.torch_pythons(options.torch)
    return options


def main() -> int:
    options = parse()
    report = {"machine": f"{os.cpu_count()} CPUs, {platform.platform()}", "ranks": options.ranks}
    for part, measure in (("server", server_rows), ("client", client_rows), ("rendezvous", rendezvous_rows)):
        if part in options.only:
            report[part] = measure(options)
    report["goals"] = goals(report)
    show(report)
    if options.json:
        options.json.write_text(json.dumps(report, indent=2) + "\n")
    return 0 if all(goal["met"] for goal in report["goals"]) else 1


if __name__ == "__main__":
    sys.exit(main())
