#!/usr/bin/env python3
"""collective_kill_test.py BIN_DIR BACKEND [ROUNDS]

In each round some ranks, without a launcher, call random collectives, and one of them is killed at a random moment. Every
other one must hear of it by an error, soon; the error of backends cpu and gloo names the killed rank; and nothing is left behind.
"""
import json
import os
import pathlib
import random
import signal
import socket
import statistics
import subprocess
import sys
import time

SOON = 5.0  # seconds; what is usual is printed


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def leftovers() -> set[str]:
    """Names of ours in /dev/shm, and our abstract sockets."""
    names = {name for name in os.listdir("/dev/shm") if "ddp" in name} if os.path.isdir("/dev/shm") else set()
    with open("/proc/net/unix") as sockets:
        return names | {line.split()[-1] for line in sockets if "@ddp-" in line}


def play(program: pathlib.Path, backend: str, ranks: int, seed: int, chance: random.Random) -> list[float]:
    """Seconds from the kill to each survivor's error."""
    port = free_port()
    workers = []
    for rank in range(ranks):
        environment = dict(os.environ, RANK=str(rank), WORLD_SIZE=str(ranks), LOCAL_RANK=str(rank),
                           LOCAL_WORLD_SIZE=str(ranks), MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port),
                           DDP_BACKEND=backend, DDP_QUIET="1")
        workers.append(subprocess.Popen([program, str(seed)], env=environment, stdout=subprocess.PIPE,
                                        stderr=subprocess.PIPE, text=True))
    try:
        for worker in workers:
            assert worker.stdout.readline() == "ready\n", worker.communicate()
        time.sleep(chance.uniform(0, 0.1))
        victim = chance.randrange(ranks)
        killed_at = time.monotonic()
        workers[victim].send_signal(signal.SIGKILL)
        delays = []
        for rank, worker in enumerate(workers):
            try:
                out, err = worker.communicate(timeout=30)
            except subprocess.TimeoutExpired:
                raise AssertionError(f"rank {rank} (pid {worker.pid}) of {ranks} did not hear that {victim} was killed")
            if rank == victim:
                continue
            said = json.loads(out)
            assert worker.returncode == 3, (worker.returncode, out, err)
            assert said["kind"] == "peer_lost", (victim, said, err)
            if backend in ("cpu", "gloo"):
                # Or that of a survivor who heard of it first.
                assert said["peer"] == victim or "has failed" in err or "cannot be read" in err, (victim, said, err)
            delays.append(said["at"] - killed_at)
        assert max(delays) < SOON, (victim, delays)
        return delays
    finally:
        for worker in workers:
            if worker.poll() is None:
                worker.kill()
            worker.wait()


def main() -> int:
    program = pathlib.Path(sys.argv[1]) / "collective_victim"
    backend = sys.argv[2]
    rounds = int(sys.argv[3]) if len(sys.argv) > 3 else 15
    seed = int(os.environ.get("DDP_TEST_SEED", random.randrange(1 << 30)))
    print(f"seed {seed}")
    chance = random.Random(seed)
    before = leftovers()
    delays = []
    for number in range(rounds):
        ranks = chance.choice([2, 3, 4])
        delays += play(program, backend, ranks, seed + number, chance)
    # Those of other tests that run beside this one come and go.
    deadline = time.monotonic() + 30
    while not leftovers() <= before and time.monotonic() < deadline:
        time.sleep(0.01)
    assert leftovers() <= before, leftovers() - before
    delays.sort()
    print(f"{backend}: {rounds} ranks killed, {len(delays)} survivors told: median "
          f"{statistics.median(delays) * 1e3:.1f} ms, 99 % within {delays[int(len(delays) * 0.99)] * 1e3:.1f} ms, "
          f"last {delays[-1] * 1e3:.1f} ms")
    return 0


if __name__ == "__main__":
    sys.exit(main())
