#!/usr/bin/env python3
"""status_page_test.py BIN_DIR: checks the status page of running, stopped and waiting workers, read as
docs/development/protocol.md describes it."""
import collections
import os
import pathlib
import signal
import struct
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
from event_lines import read_events  # noqa: E402

BIN = pathlib.Path(sys.argv[1])
HEADER = struct.Struct("=IIIiiiiiI")
GROUP = struct.Struct("=IiiiQQ48sQQQQQ")
CALL = struct.Struct("=QQQQiiBBB5x64s80s")
HEADER_BYTES, GROUP_HEAD, GROUPS, CALLS, TRANSFERS, TRANSFER_BYTES = 320, 192, 32, 16, 8, 128
GROUP_BYTES = GROUP_HEAD + CALLS * CALL.size + TRANSFERS * TRANSFER_BYTES
Page = collections.namedtuple("Page", "magic version bytes rank local_rank attempt lost_rank writer unshown groups")
Group = collections.namedtuple("Group", "in_use rank size unused identity reserved name called started finished transfers_called "
                                        "transfers_finished calls")
Call = collections.namedtuple("Call", "sequence fingerprint called_at count peer line operation type op name file")


def read(pid: int) -> Page:
    with open(f"/proc/{pid}/fd/197", "rb") as file:
        data = file.read()
    groups = []
    for i in range(GROUPS):
        at = HEADER_BYTES + i * GROUP_BYTES
        calls = [Call(*CALL.unpack_from(data, at + GROUP_HEAD + n * CALL.size)) for n in range(CALLS)]
        groups.append(Group(*GROUP.unpack_from(data, at), calls))
    return Page(*HEADER.unpack_from(data), groups)


def until(condition) -> None:
    end = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < end, "it did not come true in time"
        time.sleep(0.01)


def workers(log: pathlib.Path, count: int) -> dict[int, int]:
    """Returns the pids by rank as the launcher reports them. A search would also find the workers' children, which
    inherit the environment and the page."""
    found: dict[int, int] = {}

    def all_there() -> bool:
        found.update({event["rank"]: event["pid"] for event in read_events(log) if event["event"] == "worker_started"})
        return len(found) == count

    until(all_there)
    return found


def collectives_are_seen_from_outside(folder: pathlib.Path) -> None:
    log = folder / "events"
    job = subprocess.Popen([BIN / "ddplaunch", "--nproc_per_node=2", "--grace=1", f"--event-log={log}", BIN / "ddp_bench", "all_reduce",
                            "--sizes", "4K", "--iterations", "100000000"], stdout=subprocess.DEVNULL, stderr=open(folder / "stderr", "w"))
    try:
        pids = workers(log, 2)
        until(lambda: all(read(pid).groups[0].finished > 100 for pid in pids.values()))
        for rank, pid in pids.items():
            page = read(pid)
            assert page.magic == 0x50504444 and page.version == 6, page[:9]
            assert page.bytes == os.stat(f"/proc/{pid}/fd/197").st_size, page[:9]
            assert page.writer == pid and page.lost_rank == -1 and page.attempt == 0, page[:9]
            world = page.groups[0]
            assert world.in_use == 1 and world.rank == rank and world.size == 2, world
            assert world.identity == read(pids[0]).groups[0].identity != 0, world
            assert world.name.rstrip(b"\0") == b"world" and not page.groups[1].in_use, world
            until(lambda: read(pid).groups[0].finished > world.finished)
            calls = [call for call in world.calls if call.sequence]
            assert any(call.operation == 0 and call.type == 2 and call.count == 1024 for call in calls), calls
            assert all(b"collective_bench.cpp" in call.file and call.line > 0 for call in calls), calls
        # The page of a stopped worker can be read, while the other worker waits for it.
        os.kill(pids[1], signal.SIGSTOP)

        def rank_0_waits() -> bool:
            before = read(pids[0]).groups[0]
            time.sleep(0.2)
            now = read(pids[0]).groups[0]
            return now.called - now.finished == 1 and now.finished == before.finished

        until(rank_0_waits)
        waiting, stopped = read(pids[0]).groups[0], read(pids[1]).groups[0]
        assert waiting.called >= stopped.finished, (waiting[:9], stopped[:9])
        # Every call that both ranks have made has the same fingerprint.
        seen = {call.sequence: call.fingerprint for call in waiting.calls}
        common = [call for call in stopped.calls if call.sequence in seen and call.sequence]
        assert common and all(seen[call.sequence] == call.fingerprint for call in common), (waiting, stopped)
        os.kill(pids[1], signal.SIGCONT)
    except Exception as error:
        raise AssertionError(f"the job says: {(folder / 'stderr').read_text()}") from error
    finally:
        job.terminate()
        job.wait(timeout=30)


def the_launcher_says_which_rank_is_lost_to_any_program(folder: pathlib.Path) -> None:
    log = folder / "events"
    script = ('trap "" TERM; wait_for() { until [ -e "$1" ]; do sleep 0.02; done; }; '
              'if [ "$RANK" = 1 ]; then wait_for fail; exit 7; fi; wait_for seen')
    job = subprocess.Popen([BIN / "ddplaunch", "--nproc_per_node=2", "--grace=100", f"--event-log={log}", "/bin/sh", "-c", script],
                           stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, cwd=folder)
    try:
        pid = workers(log, 2)[0]
        assert read(pid).writer == 0 and read(pid).lost_rank == -1
        (folder / "fail").touch()
        until(lambda: read(pid).lost_rank == 1)
    finally:
        (folder / "fail").touch()
        (folder / "seen").touch()
        assert job.wait(timeout=30) == 7


def a_worker_without_descriptors_to_spare_runs_without_a_page(_: pathlib.Path) -> None:
    done = subprocess.run(["/bin/sh", "-c", f"ulimit -n 60; exec {BIN}/ddplaunch --nproc_per_node=2 {BIN}/ddp_bench "
                                            "all_reduce --sizes 4K --iterations 2"], capture_output=True, text=True,
                          timeout=60)
    assert done.returncode == 0, done


if __name__ == "__main__":
    for check in [collectives_are_seen_from_outside, the_launcher_says_which_rank_is_lost_to_any_program,
                  a_worker_without_descriptors_to_spare_runs_without_a_page]:
        with tempfile.TemporaryDirectory() as place:
            check(pathlib.Path(place))
        print(f"ok: {check.__name__.replace('_', ' ')}")
