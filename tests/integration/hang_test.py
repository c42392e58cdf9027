#!/usr/bin/env python3
"""hang_test.py BIN_DIR: checks the verdict, the culprit, the place and the exit code of jobs that hang or only seem
to."""
import concurrent.futures
import os
import pathlib
import re
import signal
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
from event_lines import eventually_event, read_events  # noqa: E402

BIN = pathlib.Path(sys.argv[1])
SOURCE = "hanging_worker.cpp"


class Run:
    def __init__(self, *words: str, timeout: int | None = 6, program: tuple = (),
                 name: str = "ddplaunch"):
        self.folder = tempfile.TemporaryDirectory()
        self.log = pathlib.Path(self.folder.name) / "events"
        self.began = time.monotonic()
        launcher = pathlib.Path(self.folder.name) / name
        launcher.symlink_to((BIN / "ddplaunch").resolve())
        command = [launcher, "--nproc-per-node=3", f"--event-log={self.log}",
                   *([] if timeout is None else [f"--hang-timeout={timeout}"]),
                   *[word for word in words if word.startswith("-")],
                   *(program or (BIN / "hanging_worker", *[word for word in words if not word.startswith("-")]))]
        for name in ("go", *(f"end{rank}" for rank in range(3))):
            os.mkfifo(f"{self.folder.name}/{name}")
        # The launcher gets a process group whose parent process is in the test's group, because only such a group can
        # be stopped (Ctrl-Z).
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, process_group=0,
                                        env=dict(os.environ, HANG_FOLDER=self.folder.name))

    def events(self, state: str) -> list[dict]:
        return [event["stall"] for event in read_events(self.log) if event["event"] == "hang" and event["state"] == state]

    def until(self, state: str) -> dict:
        return eventually_event(lambda: self.events(state), self.process, state)[0]

    def pids(self) -> dict[int, int]:
        return {event["rank"]: event["pid"] for event in read_events(self.log) if event["event"] == "worker_started"}

    def open(self, fifo: str) -> None:
        """Opens the FIFO that the worker waits for."""
        os.close(os.open(f"{self.folder.name}/{fifo}", os.O_WRONLY))

    def let_slow_rank_go_on(self) -> str:
        self.open("go")
        self.until("goes_on")
        return self.let_all_ranks_end()

    def let_all_ranks_end(self) -> str:
        for rank in range(3):
            self.open(f"end{rank}")
        return self.end(0)

    def end(self, code: int) -> str:
        out, err = self.process.communicate(timeout=60)
        assert self.process.returncode == code, (self.process.returncode, out, err)
        self.seconds = time.monotonic() - self.began
        return err


def hangs(kind: str, code: str, culprits: list[int], hang_class: str = "users_limit", backend: str = "") -> None:
    """If the hang is certain, it ends the job without a limit."""
    run = Run(kind, "20", *([f"--backend={backend}"] if backend else []), timeout=None if hang_class == "certain" else 6)
    err = run.end(124)
    stall = run.events("hung")[0]
    assert stall["code"] == code and stall["culprits"] == culprits and stall["class"] == hang_class, stall
    assert f"[{code} " in err and f"ddp: backend {backend}" in err, err
    for rank in culprits:
        assert re.search(rf"rank {rank} \(pid \d+\): .*{SOURCE}:\d+", err), err
    if kind == "chain":
        waits = stall["ranks"][2]["groups"][0]["transfers"][0]
        assert stall["transfer"] and waits["call"].startswith("recv f32[8] from rank 1") and waits["waited_for"], stall
        assert SOURCE in waits["place"] and waits["number"] == 1, stall
    assert 4.5 < stall["age_seconds"] < 30, stall
    for pid in run.pids().values():
        assert not os.path.exists(f"/proc/{pid}"), pid


# The zoo has more programs that hang.
FAULTS = [("pause", "DDP-H03", [1]), ("everybody", "DDP-H08", []), ("chain", "DDP-H03", [1]),
          ("exchange", "DDP-H06", [0, 1], "certain", "gloo")]


def without_a_limit_a_hang_is_reported_and_the_job_goes_on() -> None:
    for name in ("ddplaunch", "torchrun"):
        run = Run("slow", *(["--no-python"] if name == "torchrun" else []), timeout=None, name=name)
        stall = run.until("stalled")
        # On a busy computer, the signs of life may not have been read before the first report. Then there is no limit yet.
        assert stall["class"] == "unknown" and stall["limit_seconds"] in (0, 1800) and stall["culprits"] == [1], stall
        err = run.let_slow_rank_go_on()
        assert "the job continues, because no --hang-timeout was given" in err and not run.events("hung"), err


def a_rank_that_is_woken_for_its_stack_does_not_become_the_cause() -> None:
    for kind in ("wakes", "fails_when_woken"):
        run = Run(kind, "20", timeout=6)
        err = run.end(124)
        stall = run.events("hung")[0]
        assert stall["code"] == "DDP-H03" and stall["culprits"] == [1], stall
        assert "hung " in err and "rank 1 has not called all_reduce" in err, err


def a_program_whose_wrapper_closes_descriptors_is_seen() -> None:
    wrapper = "import subprocess, sys; sys.exit(subprocess.call(sys.argv[1:]))"
    run = Run(timeout=6, program=("--no-python", sys.executable, "-c", wrapper, BIN.resolve() / "hanging_worker", "pause", "20"))
    run.end(124)
    stall = run.events("hung")[0]
    assert stall["code"] == "DDP-H03" and stall["culprits"] == [1], stall


def under_torchruns_name_a_limit_ends_a_job_that_hangs() -> None:
    run = Run("pause", "20", "--no-python", timeout=6, name="torchrun")
    err = run.end(124)
    stall = run.events("hung")[0]
    assert stall["code"] == "DDP-H03" and stall["culprits"] == [1] and stall["class"] == "users_limit", stall
    assert stall["ends_job"] and "the limit was 6.0 s (--hang-timeout); the job is terminated" in err, (stall, err)
    assert "hung " in err and "rank 1 has not called all_reduce" in err, err


def a_stopped_rank_is_reported_and_left_alone() -> None:
    run = Run("stop", timeout=6)
    stopped = run.until("stopped")
    assert stopped["culprits"] == [1] and stopped["code"] == "DDP-H02", stopped
    time.sleep(8)
    assert run.process.poll() is None and not run.events("stalled"), run.events("stalled")
    os.kill(run.pids()[1], signal.SIGCONT)
    run.until("resumed")
    run.open("go")
    err = run.end(0)
    assert len(run.events("resumed")) == 1, err


def the_time_in_which_the_launcher_is_stopped_does_not_count() -> None:
    run = Run("slow", timeout=16)
    run.until("stalled")
    os.kill(run.process.pid, signal.SIGSTOP)
    guardian_child = int(subprocess.run(["pgrep", "-P", str(run.process.pid)], capture_output=True, text=True).stdout.split()[0])
    os.kill(guardian_child, signal.SIGSTOP)
    time.sleep(20)
    for pid in (guardian_child, run.process.pid):
        os.kill(pid, signal.SIGCONT)
    run.let_slow_rank_go_on()


def a_stopped_job_is_not_judged() -> None:
    run = Run("slow", timeout=16)
    run.until("stalled")
    run.process.send_signal(signal.SIGTSTP)  # this is the signal of Ctrl-Z
    stat = pathlib.Path(f"/proc/{run.process.pid}/stat")
    eventually_event(lambda: stat.read_text().rpartition(") ")[2].startswith("T"), run.process, "the launcher stops")
    time.sleep(20)
    assert not run.events("hung")
    run.process.send_signal(signal.SIGCONT)
    run.let_slow_rank_go_on()


def a_slow_rank_is_reported_and_the_job_goes_on() -> None:
    run = Run("slow", timeout=60)
    run.until("stalled")
    err = run.let_slow_rank_go_on()
    assert "DDP-H03" in err and "the job continues: all_reduce" in err, err
    assert not run.events("hung")


def a_warning_does_not_end_the_job() -> None:
    run = Run("pause", "--hang-action=warn", timeout=6)
    run.until("hung")
    assert run.process.poll() is None
    assert run.events("hung")[0]["ends_job"] is False
    run.process.terminate()
    run.end(-signal.SIGTERM)


def a_silent_program_is_ended_only_on_request() -> None:
    run = Run(timeout=6, program=("sleep", "1000"))
    err = run.end(124)
    assert run.events("hung")[0]["code"] == "DDP-H08" and "does not show its collectives" in err, err
    printing = Run(timeout=6, program=("sh", "-c", "for i in 1 2 3 4; do sleep 3; echo $i; done"))
    printing.end(0)
    assert not printing.events("hung"), printing.events("hung")


def a_timeout_of_the_program_does_not_outrank_the_verdict() -> None:
    # Rank 0 waits for rank 2, and rank 2 for rank 1. Whether rank 0 or rank 2 gives up first, rank 1 is named.
    run = Run("chain", "20", "8", timeout=None)
    err = run.end(134)
    ended = [event for event in read_events(run.log) if event["event"] == "attempt_ended"][0]["cause"]
    assert ended["kind"] == "worker_failed" and ended["verdict"]["code"] == "DDP-H03" and ended["verdict"]["culprits"] == [1], ended
    assert ended["rank"] in (0, 2) and "a timeout that the program set" in ended["error"], ended
    assert re.search(r"rank 1 has not called .*\n.*rank [02] \(pid \d+\) gave up waiting: killed by SIGABRT", err), err


def hang_timeout_off_disables_the_detection() -> None:
    run = Run("slow", timeout=0)
    time.sleep(8)
    run.open("go")
    err = run.let_all_ranks_end()
    assert "DDP-H" not in err, err


TESTS = [a_stopped_job_is_not_judged, a_program_whose_wrapper_closes_descriptors_is_seen,
         a_rank_that_is_woken_for_its_stack_does_not_become_the_cause, without_a_limit_a_hang_is_reported_and_the_job_goes_on,
         under_torchruns_name_a_limit_ends_a_job_that_hangs, a_stopped_rank_is_reported_and_left_alone,
         the_time_in_which_the_launcher_is_stopped_does_not_count, a_slow_rank_is_reported_and_the_job_goes_on,
         a_warning_does_not_end_the_job, a_timeout_of_the_program_does_not_outrank_the_verdict,
         a_silent_program_is_ended_only_on_request, hang_timeout_off_disables_the_detection]
# The tests mostly wait, so they run in parallel.
with concurrent.futures.ThreadPoolExecutor(8) as pool:
    running = {pool.submit(hangs, *fault): " ".join(map(str, fault)) for fault in FAULTS}
    running |= {pool.submit(test): test.__name__ for test in TESTS}
    for done in concurrent.futures.as_completed(running):
        done.result()
        print(f"{running[done]}: well", flush=True)
