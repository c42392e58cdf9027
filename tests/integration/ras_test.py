#!/usr/bin/env python3
"""ras_test.py BIN_DIR: tests what is said of ranks that only NCCL's RAS knows. The ranks sleep, and a server at
NCCL_RAS_ADDR answers as the RAS of NCCL 2.28.7 and newer does, or in the text of NCCL 2.24 to 2.28.6, with counts that
the test sets."""
import collections
import concurrent.futures
import json
import os
import pathlib
import signal
import socketserver
import subprocess
import sys
import tempfile
import threading
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
from event_lines import eventually_event, read_events  # noqa: E402

BIN = pathlib.Path(sys.argv[1])
NAMES = ("Broadcast", "Reduce", "AllGather", "ReduceScatter", "AllReduce")


class Ras(socketserver.ThreadingTCPServer):
    """Answers for communicators: a list of (hash, {rank in the job: number of all_reduces})."""
    daemon_threads = True
    allow_reuse_address = True

    def __init__(self, has_json: bool = True):
        super().__init__(("127.0.0.1", 0), Conversation)
        self.has_json = has_json
        self.pids: dict[int, int] = {}
        self.communicators: list[tuple[int, dict[int, int]]] = []
        self.gathers: dict[int, int] = {}  # number of all_gathers, by rank in the job
        self.silent: set[int] = set()  # ranks that do not answer RAS
        self.broken = ""  # what it answers instead
        self.floods = False  # whether it answers 10,000 lines a second, without an end
        self.asked = 0
        threading.Thread(target=self.serve_forever, daemon=True).start()

    def status(self) -> str:
        communicators = []
        for number, counts in self.communicators:
            members = [{"rank": own, "host": "127.0.0.1", "pid": self.pids[rank], "cuda_dev": 0, "nvml_dev": 0,
                        "status": {"init_state": 0, "async_error": 0, "finalize_called": False, "destroy_flag": False,
                                   "abort_flag": False},
                        "collective_counts": {**{name: 0 for name in NAMES}, "AllReduce": count,
                                               "AllGather": self.gathers.get(rank, 0)}}
                       for own, (rank, count) in enumerate(counts.items()) if rank not in self.silent]
            communicators.append({"hash": hex(number), "size": len(counts), "ranks_count": len(members),
                                  "missing_ranks_count": 0, "ranks": members, "missing_ranks": []})
        return json.dumps({"nccl_version": "2.28.9", "communicators_count": len(communicators),
                           "communicators": communicators}, indent=2) + "\n"


    def text(self) -> str:
        text = "NCCL version 2.27.7 compiled with CUDA 12.9\n\nErrors\n======\n\nWarnings\n========\n\n"
        for number, counts in self.communicators:
            if len(set(counts.values())) < 2:
                continue
            text += (f"#0-0 ({number:016x}) MISMATCH\n"
                     "  Communicator ranks have different AllReduce operation counts\n")
            for count, ranks in sorted(collections.Counter(counts.values()).items(), key=lambda item: -item[1]):
                listed = [f"  Rank {own}%s -- GPU 0 managed by process {self.pids[rank]} on node 127.0.0.1\n"
                          for own, (rank, of_rank) in enumerate(counts.items()) if of_rank == count]
                if ranks == 1:
                    text += listed[0] % f" has launched up to operation {count}"
                    continue
                text += f"  {ranks} ranks have launched up to operation {count}\n"
                text += "".join(line % "" for line in listed) if ranks < len(counts) / 2 else ""
            text += "\n"
        return text


class Conversation(socketserver.StreamRequestHandler):
    def handle(self) -> None:
        has_json = False
        for line in self.rfile:
            command = line.decode().strip().upper()
            if command.startswith("CLIENT PROTOCOL"):
                answer = "SERVER PROTOCOL 2\n"
            elif command.startswith("TIMEOUT"):
                answer = "OK\n"
            elif command == "SET FORMAT JSON" and self.server.has_json:
                has_json, answer = True, "OK\n"
            elif command == "VERBOSE STATUS":
                self.server.asked += 1
                while self.server.floods:
                    self.wfile.write(b"rank 1 has launched up to operation 7\n" * 1000)
                    time.sleep(0.1)
                self.wfile.write((self.server.broken or (self.server.status() if has_json else self.server.text())).encode())
                return
            else:
                answer = f"ERROR: Unknown command {command}\n"
            self.wfile.write(answer.encode())


class Job:
    def __init__(self, ras: Ras, ranks: int, *options: str):
        self.folder = tempfile.TemporaryDirectory()
        self.log = pathlib.Path(self.folder.name) / "events"
        address = "{}:{}".format(*ras.server_address)
        self.process = subprocess.Popen(
            [BIN / "ddplaunch", f"--nproc-per-node={ranks}", f"--event-log={self.log}", *options, "sleep", "100"],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
            env={**os.environ, "NCCL_RAS_ADDR": address})
        started = lambda: [event for event in read_events(self.log) if event["event"] == "worker_started"]
        eventually_event(lambda: len(started()) == ranks, self.process, "all ranks")
        ras.pids = {event["rank"]: event["pid"] for event in started()}

    def stalls(self) -> list[dict]:
        return [event["stall"] for event in read_events(self.log) if event["event"] == "hang"]

    def named(self, code: str) -> dict:
        find = lambda: [stall for stall in self.stalls() if stall["code"] == code]
        return eventually_event(find, self.process, f"a report with {code}")[0]

    def end(self) -> str:
        self.process.terminate()
        return self.process.communicate(timeout=60)[1]


def a_rank_that_launches_less_is_named() -> None:
    ras = Ras()
    job = Job(ras, 3, "--hang-timeout=12")
    ras.communicators = [(0xabc, {0: 8, 1: 6, 2: 8})]
    err = job.process.communicate(timeout=90)[1]
    assert job.process.returncode == 124, err
    assert "rank 1 has not called collective (#7 of ranks 0-2), in which ranks 0, 2 wait" in err, err
    assert "training; has called 6 collectives" in err, err
    assert "NCCL RAS: it counts fewer operations on rank 1, too" in err and "MISMATCH" not in err, err


def in_a_grid_the_rank_that_is_missing_is_named() -> None:
    ras = Ras()
    job = Job(ras, 8)
    ras.communicators = [(0x100, {0: 4, 1: 4, 2: 4, 3: 4}), (0x101, {4: 5, 5: 5, 6: 4, 7: 5}),
                         (0x200, {0: 7, 4: 7}), (0x201, {1: 7, 5: 7}), (0x202, {2: 8, 6: 7}), (0x203, {3: 7, 7: 7})]
    stall = job.named("DDP-H03")
    assert stall["culprits"] == [6], stall
    job.end()


def a_different_call_is_named() -> None:
    ras = Ras()
    job = Job(ras, 3, "--hang-timeout=12")
    ras.communicators = [(0xabc, {0: 8, 1: 7, 2: 8})]
    ras.gathers = {1: 1}
    err = job.process.communicate(timeout=90)[1]
    assert job.process.returncode == 124, err
    assert "rank 1 called all_gather as #8 of ranks 0-2, and the other ranks called all_reduce" in err, err


def a_stopped_and_a_killed_rank_are_named() -> None:
    ras = Ras()
    job = Job(ras, 3)
    ras.communicators = [(0xabc, {0: 8, 1: 7, 2: 8})]
    ras.silent = {1}
    os.kill(ras.pids[1], signal.SIGSTOP)
    assert job.named("DDP-H02")["culprits"] == [1]
    os.kill(ras.pids[1], signal.SIGKILL)
    err = job.process.communicate(timeout=90)[1]
    assert job.process.returncode == 137 and "rank 1 " in err and "SIGKILL" in err, err


def a_slow_step_is_no_hang() -> None:
    """Every five steps the ranks differ for 18 s, and then go on."""
    ras = Ras()
    job = Job(ras, 2)
    step, until = 0, time.monotonic() + 45
    while time.monotonic() < until:
        step += 1
        ras.communicators = [(0xabc, {0: step + 1, 1: step if step % 5 == 0 else step + 1})]
        time.sleep(18 if step % 5 == 0 else 0.3)
    assert job.process.poll() is None, job.process.communicate()
    assert ras.asked >= 5, ras.asked
    states = {event["state"] for event in read_events(job.log) if event["event"] == "hang"}
    assert states <= {"stalled", "goes_on"}, states  # notes
    job.end()


def equal_counts_prove_nothing() -> None:
    ras = Ras()
    job = Job(ras, 2)
    ras.communicators = [(0xabc, {0: 8, 1: 8})]
    time.sleep(12)
    assert not [stall for stall in job.stalls() if stall["culprits"]], job.stalls()
    job.end()


def a_server_that_lies_or_leaves_does_no_harm() -> None:
    ras = Ras()
    job = Job(ras, 2)
    for answer in ("{", "[]\n", '{"communicators": [{"hash": "0x1"}]}\n', "x" * 2_000_000, "\n" * 10_000):
        ras.broken = answer
        time.sleep(2.5)
    ras.floods = True
    time.sleep(10)
    ras.floods = False
    ras.shutdown()
    ras.server_close()
    time.sleep(5)
    assert job.process.poll() is None and not [stall for stall in job.stalls() if stall["culprits"]], job.stalls()
    job.end()


def a_report_on_request_shows_the_counts() -> None:
    ras = Ras()
    job = Job(ras, 2)
    ras.communicators = [(0xabc, {0: 8, 1: 8})]
    eventually_event(lambda: ras.asked > 0, job.process, "a question")
    time.sleep(2)
    job.process.send_signal(signal.SIGQUIT)
    asked = lambda: [event for event in read_events(job.log) if event["event"] == "hang" and event["state"] == "asked"]
    text = " ".join(eventually_event(asked, job.process, "a report")[0]["text"])
    assert text.count("has called 8 collectives") == 2, text
    job.end()


def an_old_nccl_names_the_rank_in_text() -> None:
    ras = Ras(has_json=False)
    job = Job(ras, 4, "--hang-timeout=12")
    ras.communicators = [(0xabc, {0: 8, 1: 6, 2: 8, 3: 8})]
    time.sleep(4)
    ras.communicators = [(0xabc, {0: 9, 1: 9, 2: 9, 3: 9})]
    time.sleep(4)
    ras.communicators = [(0xabc, {0: 12, 1: 12, 2: 10, 3: 12})]
    err = job.process.communicate(timeout=90)[1]
    assert job.process.returncode == 124, err
    assert "rank 2 has not called collective (#11 of ranks 0-3), in which ranks 0, 1, 3 wait" in err, err


def an_old_nccl_is_asked_on_request() -> None:
    ras = Ras(has_json=False)
    job = Job(ras, 2)
    time.sleep(6)
    assert job.process.poll() is None and not job.stalls(), job.stalls()
    job.process.send_signal(signal.SIGQUIT)
    eventually_event(lambda: "NCCL version 2.27.7" in pathlib.Path(job.log).read_text(), job.process, "what RAS says")
    job.end()


TESTS = [a_different_call_is_named, a_stopped_and_a_killed_rank_are_named, a_rank_that_launches_less_is_named, in_a_grid_the_rank_that_is_missing_is_named, a_slow_step_is_no_hang,
         equal_counts_prove_nothing, a_server_that_lies_or_leaves_does_no_harm, an_old_nccl_names_the_rank_in_text,
         a_report_on_request_shows_the_counts, an_old_nccl_is_asked_on_request]
with concurrent.futures.ThreadPoolExecutor(len(TESTS)) as pool:
    running = {pool.submit(test): test.__name__ for test in TESTS}
    for done in concurrent.futures.as_completed(running):
        done.result()
        print(f"{running[done]}: well", flush=True)
