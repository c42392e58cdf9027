#!/usr/bin/env python3
"""Kills a random process of a job (guardian, supervisor, worker, grandchild) at a random moment, many times.

Soon after, the job must have left nothing: no process, no zombie, no temporary file, no cgroup.

    chaos_test.py DDPLAUNCH [RUNS] [SEED]
"""
import collections.abc
import os
import pathlib
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
from launched_job import PATIENCE, command_of, processes

MARK = "DDP_CHAOS_RUN"

# Every worker has a child in its process group and a child in another session. It also has an orphan (forked twice)
# that ignores SIGTERM.
WORKER = """
sleep 1000 & setsid sleep 1000 &
(setsid sh -c 'trap "" TERM; while :; do sleep 1; done' &)
[ "$LAST" = 1 ] && { sleep 0.$RANDOM_MS; exit 0; }
exec sleep 1000
"""


def leads_session(pid: int) -> bool:
    try:
        return os.getsid(pid) == pid
    except OSError:
        return False


def zombies() -> set[int]:
    """Returns the zombies that their parent does not reap. Those of pid 1 and of this test are left out."""
    found = set()
    for entry in pathlib.Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            name, _, rest = (entry / "stat").read_text(errors="replace").rpartition(")")
            fields = rest.split()
        except OSError:
            continue
        if fields[0] == "Z" and int(fields[1]) not in (1, os.getpid()) and name.split("(")[1] in ("sh", "sleep", "ddplaunch"):
            found.add(int(entry.name))
    return found


def cgroups() -> set[str]:
    """Returns the cgroups of launchers that have ended."""
    # os.walk() skips directories that are removed during the walk.
    return {os.path.join(parent, name) for parent, names, _ in os.walk("/sys/fs/cgroup") for name in names
            if name.startswith("ddplaunch-") and not os.path.exists("/proc/" + name.rpartition("-")[2])}


def what_stays(found: collections.abc.Callable[[], set], before: set) -> set:
    """Returns what stays until the deadline. Other tests that run at the same time create such objects, too, but
    remove them."""
    deadline = time.monotonic() + PATIENCE
    left = found() - before
    while left and time.monotonic() < deadline:
        time.sleep(0.05)
        left &= found()
    return left


def pick(role: str, guardian: int, found: dict[int, tuple[str, int]]) -> int | None:
    supervisors = [pid for pid, (_, parent) in found.items() if parent == guardian]
    # The supervisor has also adopted orphans, and some of them have not executed their program yet. A worker leads its
    # session, which an orphan does not.
    workers = [pid for pid, (_, parent) in found.items() if parent in supervisors and "$LAST" in command_of(pid) and leads_session(pid)]
    others = [pid for pid in found if pid != guardian and pid not in supervisors and pid not in workers]
    candidates = {"guardian": [guardian], "supervisor": supervisors, "worker": workers, "grandchild": others}[role]
    return random.choice(candidates) if candidates else None


def one_run(program: str, number: int, temporary: str) -> str:
    """Returns the role of the killed process. Raises AssertionError with the survivors."""
    mark = f"{MARK}={os.getpid()}.{number}"
    role = random.choice(["guardian", "supervisor", "worker", "grandchild"])
    moment = random.choice([random.uniform(0, 0.01), random.uniform(0, 0.1), random.uniform(0, 0.4)])
    last = number % 4 == 0  # the job ends by itself, so that the kill also meets its end
    environment = dict(os.environ, TMPDIR=temporary, LAST=str(int(last)), RANDOM_MS=str(random.randint(10, 99)),
                       **dict([mark.split("=")]))
    command = [program, "-q", "--grace=0.2", f"--nproc-per-node={random.randint(1, 4)}", "sh", "-c", WORKER]
    job = subprocess.Popen(command, env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                           stderr=subprocess.DEVNULL)
    time.sleep(moment)
    target = pick(role, job.pid, processes(mark)) if role != "guardian" else job.pid
    # The guardian is this test's child and not reaped yet. Any other process belongs to the job or has ended.
    if target is not None and (job.poll() is None or role != "guardian"):
        try:
            os.kill(target, signal.SIGKILL)
        except ProcessLookupError:
            pass
    killed = f"{role} (pid {target}) {moment * 1e3:.1f} ms after the start"
    if target is None or role == "grandchild":
        # A job does not end when a grandchild is killed, so it is asked to end.
        time.sleep(0.01)
        if job.poll() is None and not last:
            job.terminate()
    try:
        job.wait(timeout=PATIENCE)
    except subprocess.TimeoutExpired:
        raise AssertionError(f"killed {killed}: the job does not end") from None
    deadline = time.monotonic() + PATIENCE
    while (left := processes(mark)) and time.monotonic() < deadline:
        time.sleep(0.005)
    if left:
        names = [command_of(pid) for pid in left]
        for pid in left:
            os.kill(pid, signal.SIGKILL)
        raise AssertionError(f"killed {killed}: later there are {left} {names}")
    files = os.listdir(temporary)
    assert not files, f"killed {killed}: left in the temporary directory: {files}"
    return role if target is not None else "nobody"


def main() -> int:
    program = sys.argv[1]
    runs = int(sys.argv[2]) if len(sys.argv) > 2 else 60
    seed = int(sys.argv[3]) if len(sys.argv) > 3 else random.SystemRandom().randrange(10**6)
    print(f"seed {seed}, {runs} runs", flush=True)
    random.seed(seed)
    temporary = tempfile.mkdtemp(prefix="chaos")
    counts: dict[str, int] = {}
    before = (zombies(), cgroups())
    try:
        for number in range(runs):
            role = one_run(program, number, temporary)
            counts[role] = counts.get(role, 0) + 1
            if number % 100 == 99:
                print(f"{number + 1} runs", flush=True)
    except AssertionError as error:
        print(f"FAILED (seed {seed}): {error}")
        return 1
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
    neglected, folders = what_stays(zombies, before[0]), what_stays(cgroups, before[1])
    print("killed:", ", ".join(f"{count} x {role}" for role, count in sorted(counts.items())))
    print(f"survivors 0, zombies {len(neglected)}, files 0, cgroups {len(folders)}")
    return 1 if neglected or folders else 0


if __name__ == "__main__":
    sys.exit(main())
