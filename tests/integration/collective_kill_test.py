#!/usr/bin/env python3
"""collective_kill_test.py BIN_DIR BACKEND [ROUNDS [MACHINES]]

In each round some ranks, without a launcher, call random collectives, and one of them is killed at a random moment.
Every other rank must get an error, and the times until then are printed. With backends cpu and gloo the error names the
killed rank. Nothing may be left behind. With 2 machines, the ranks run in two network namespaces.
"""
import contextlib
import json
import os
import pathlib
import random
import signal
import statistics
import subprocess
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
from launched_job import Skip, machines  # noqa: E402
from ports import free_port  # noqa: E402
from stuck_program import stacks_of  # noqa: E402


def leftovers(machine: list[str]) -> list[str]:
    """Returns the names of this project in the machine's /dev/shm, and its abstract sockets."""
    names = subprocess.run([*machine, "sh", "-c", "ls /dev/shm; cat /proc/self/net/unix"], capture_output=True, text=True, check=True)
    return [line for line in names.stdout.splitlines() if "ddp" in line]


def play(program: pathlib.Path, backend: str, ranks: int, seed: int, chance: random.Random,
         places: list[list[str]]) -> list[float]:
    """Returns the seconds from the kill to each survivor's error. Each of `places` is a command prefix that runs a
    command on one machine."""
    port = free_port()
    address = "127.0.0.1" if len(places) == 1 else "10.98.76.1"
    workers = []
    for rank in range(ranks):
        environment = dict(os.environ, RANK=str(rank), WORLD_SIZE=str(ranks), LOCAL_RANK=str(rank),
                           LOCAL_WORLD_SIZE=str(ranks), MASTER_ADDR=address, MASTER_PORT=str(port),
                           DDP_BACKEND=backend, DDP_QUIET="1")
        words = places[rank * len(places) // ranks]
        workers.append(subprocess.Popen([*words, program, str(seed)], env=environment, stdout=subprocess.PIPE,
                                        stderr=subprocess.PIPE, text=True))
    try:
        for worker in workers:
            assert worker.stdout.readline() == "ready\n", worker.communicate()
        time.sleep(chance.uniform(0, 0.1))
        killed = chance.randrange(ranks)
        killed_at = time.monotonic()
        workers[killed].send_signal(signal.SIGKILL)
        delays = []
        for rank, worker in enumerate(workers):
            try:
                out, err = worker.communicate(timeout=30)
            except subprocess.TimeoutExpired:
                stacks = "".join(stacks_of(other.pid) for other in workers)
                raise AssertionError(f"rank {rank} (pid {worker.pid}) of {ranks} did not hear that {killed} was killed\n{stacks}")
            if rank == killed:
                continue
            said = json.loads(out)
            assert worker.returncode == 3, (worker.returncode, out, err)
            assert said["kind"] == "peer_lost", (killed, said, err)
            # The ranks report a lost peer across machines through the store, which is lost with rank 0.
            if backend in ("cpu", "gloo") and (len(places) == 1 or killed != 0):
                # The error may instead name a survivor that has detected the loss before.
                assert said["peer"] == killed or "has failed" in err or "cannot be read" in err, (killed, said, err)
            delays.append(said["at"] - killed_at)
        return delays
    finally:
        for worker in workers:
            if worker.poll() is None:
                worker.kill()
            worker.wait()


def main() -> int:
    program = pathlib.Path(sys.argv[1]) / "collective_rank"
    backend = sys.argv[2]
    rounds = int(sys.argv[3]) if len(sys.argv) > 3 else 15
    count = int(sys.argv[4]) if len(sys.argv) > 4 else 1
    seed = int(os.environ.get("DDP_TEST_SEED", random.randrange(1 << 30)))
    print(f"seed {seed}")
    chance = random.Random(seed)
    delays = []
    with contextlib.ExitStack() as stack:
        try:
            places = stack.enter_context(machines(count))
        except Skip as reason:
            if count == 2:
                raise
            print(f"{reason}: what is left behind cannot be told from what other programs have")
            places = [[]]
        for number in range(rounds):
            ranks = chance.choice([2, 3, 4])
            delays += play(program, backend, ranks, seed + number, chance, places)
        for place in filter(None, places):
            assert not leftovers(place), leftovers(place)
    delays.sort()
    print(f"{backend}: {rounds} ranks killed, {len(delays)} survivors told: median "
          f"{statistics.median(delays) * 1e3:.1f} ms, 99 % within {delays[int(len(delays) * 0.99)] * 1e3:.1f} ms, "
          f"last {delays[-1] * 1e3:.1f} ms")
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except Skip as reason:
        print(f"skipped: {reason}")
        sys.exit(77)
