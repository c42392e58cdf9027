#!/usr/bin/env python3
"""signal_storm_test.py DDPLAUNCH INTERRUPTING_LIBRARY [WORD]: stray signals must change nothing.

Ranks that use the whole runtime get signals all the time: the one with which the launcher asks for stacks, one whose
handler interrupts every call, and SIGSTOP with SIGCONT. The processes of the launcher get them, too. Every operation
must succeed, with right results."""
import contextlib
import os
import pathlib
import random
import signal
import sys
import threading
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
INTERRUPTING = str(pathlib.Path(sys.argv.pop(2)).resolve())
from launched_job import LAUNCHER, Job, processes, python, run_tests, test  # noqa: E402
from ports import free_port  # noqa: E402

WORKER = str(pathlib.Path(LAUNCHER).with_name("signal_storm_worker"))
STACKS = signal.SIGRTMIN + 10
# They do nothing to a launcher.
HARMLESS = [signal.SIGCHLD, signal.SIGWINCH, signal.SIGPIPE, signal.SIGCONT, signal.SIGURG]
SIGNALS = [str(int(number)) for number in (signal.SIGALRM, STACKS)]


def expect_ranks(out: str, ranks: list[int], signals: int) -> None:
    for rank in ranks:
        lines = [line for line in out.splitlines() if f"rank {rank} ok, " in line]
        assert len(lines) == 1 and int(lines[0].split()[-2]) >= signals, (rank, out)


@contextlib.contextmanager
def storm(numbers: list[int], targets, pause: float = 0.001):
    """Sends signals to processes until the end of the block, and lets all of them continue then. `targets` returns
    their pids. Yields a list of what was sent."""
    sent = []
    ends = threading.Event()
    chance = random.Random(1)

    def send(pid: int, number: int) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, number)
            sent.append((pid, number))

    def blow() -> None:
        while not ends.wait(pause):
            pids = targets()
            if not pids:
                continue
            number = chance.choice(numbers)
            pid = chance.choice(pids)
            send(pid, number)
            if number in (signal.SIGSTOP, signal.SIGTSTP):
                ends.wait(0.01)
                send(pid, signal.SIGCONT)
    thread = threading.Thread(target=blow)
    thread.start()
    try:
        yield sent
    finally:
        ends.set()
        thread.join()


def run_ranks(backend: str, signals: list[str], *via: str) -> None:
    with Job("-q", f"--backend={backend}", "--nproc-per-node=3", *via, WORKER, ".", *signals) as job:
        assert job.wait() == 0, (job.out(), job.err())
        expect_ranks(job.out(), [0, 1, 2], 20 if signals else 0)
        job.expect_nothing_left()


@test("signals", "ranks of one node survive signals in every call of the backend cpu")
def ranks_of_one_node() -> None:
    run_ranks("cpu", SIGNALS)


@test("signals", "ranks of one node survive signals in every call of the backend gloo")
def ranks_with_gloo() -> None:
    run_ranks("gloo", SIGNALS)


@test("signals", "ranks and launchers of two nodes survive signals")
def ranks_of_two_nodes() -> None:
    meet = ["--nnodes=2", f"--rdzv-endpoint=127.0.0.1:{free_port()}", "-q"]
    with Job() as shared:  # its folder is for both nodes
        shared.wait()
        command = [WORKER, shared.folder, *SIGNALS]
        with Job(*meet, "--node-rank=0", "--nproc-per-node=2", *command) as first, \
                Job(*meet, "--node-rank=1", "--nproc-per-node=1", *command) as second:
            launchers = [job.pid for job in (first, second)] + [job.supervisor() for job in (first, second)]
            with storm(HARMLESS, lambda: launchers):
                ends = [job.wait() for job in (first, second)]
            assert ends == [0, 0], (first.err(), second.err())
            expect_ranks(first.out(), [0, 1], 20)
            expect_ranks(second.out(), [2], 20)
            for job in (first, second):
                job.expect_nothing_left()


@test("signals", "calls on files and sockets that are interrupted go on")
def interrupted_calls() -> None:
    run_ranks("cpu", [], "env", f"LD_PRELOAD={INTERRUPTING}")


@test("signals", "the ranks go on while their stacks are asked for")
def requests() -> None:
    with Job("-q", "--nproc-per-node=3", WORKER, ".", *SIGNALS) as job:
        launcher = [job.supervisor()]
        with storm([signal.SIGQUIT], lambda: launcher, 0.1) as sent:
            assert job.wait() == 0, (job.out(), job.err())
        assert len(sent) > 1 and "state of the ranks" in job.err(), (sent, job.err())
        expect_ranks(job.out(), [0, 1, 2], 20)


@test("signals", "ranks and launchers are stopped and continued again and again")
def stops() -> None:
    with Job("-q", "--nproc-per-node=3", WORKER, ".", *SIGNALS) as job:
        with storm([signal.SIGSTOP], lambda: list(processes(job.mark)), 0.01) as sent:
            assert job.wait() == 0, (job.out(), job.err())
        assert len({pid for pid, _ in sent}) > 1, sent  # a busy computer finds the processes slowly
        expect_ranks(job.out(), [0, 1, 2], 20)


LINES = "for i in range(500): print(f'line {i}', flush=True); time.sleep(0.002)"


@test("signals", "a launcher that gets signals loses no line and ends the job normally")
def launcher() -> None:
    ignore = lambda: signal.signal(signal.SIGHUP, signal.SIG_IGN)  # as under nohup
    with Job("--nproc-per-node=2", "--event-log=events", *python(LINES), preexec_fn=ignore) as job:
        job.wait_for("line", 2)
        launchers = [job.pid, job.supervisor()]
        with storm([*HARMLESS, signal.SIGHUP, signal.SIGSTOP], lambda: launchers):
            assert job.wait() == 0, job.err()
        for rank in (0, 1):
            own = [line for line in job.out().splitlines() if line.startswith(f"[{rank}]")]
            assert own == [f"[{rank}] line {i}" for i in range(500)], own
        assert not job.err().count("warning"), job.err()
        assert '"job_ended"' in pathlib.Path(job.path("events")).read_text()
        job.expect_nothing_left()


if __name__ == "__main__":
    sys.exit(run_tests())
