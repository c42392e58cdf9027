#!/usr/bin/env python3
"""Checks the files of --event-log and --summary against the tables of docs/reference/event-log.md. argv[1]:
ddplaunch."""
import json
import os
import pathlib
import re
import signal
import socket
import subprocess
import sys
import tempfile
import time
from typing import Callable

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
from ports import free_port  # noqa: E402  (it is in another folder)

ROOT = pathlib.Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs/reference/event-log.md").read_text(encoding="utf-8")
DDPLAUNCH = str(pathlib.Path(sys.argv[1]).resolve())
DEADLINE = 60

# These fields are documented but cannot be produced here. tests/unit/launcher/see/report/job_json_test.cpp produces them.
UNSEEN = {
    ("stall", "transfer"): "hang_test: chain", ("group_at", "transfers"): "hang_test: chain",
    ("transfer_at", "call"): "hang_test: chain", ("transfer_at", "number"): "hang_test: chain",
    ("transfer_at", "waited_for"): "hang_test: chain", ("transfer_at", "place"): "hang_test: chain",
    ("job_started", "attempts_before"): "needs a GPU: gpu_hang_test.py",
    ("worker_started", "gpu"): "needs a GPU",
    ("rank_at", "node"): "needs several nodes: nodes_hang_test.py",
    **{(section, "gpu_uuid"): "needs a GPU" for section in ("worker_ended", "cause worker_failed", "worker")},
    ("gpu_memory", "gpu"): "needs a GPU: gpu_memory_test.py",
    **{("gpu_process", name): "needs a GPU: gpu_memory_test.py" for name in ("rank", "name")},
    ("worker_ended", "oom"): "needs a memory limit",
    ("cause worker_failed", "oom"): "needs a memory limit",
    ("worker", "oom"): "needs a memory limit",
    ("oom", "cgroup"): "needs a memory limit",
    ("oom", "limit_bytes"): "needs a memory limit",
    ("oom", "peak_bytes"): "needs a memory limit",
    **{("stall", name): "needs a worker with the runtime" for name in ("group", "number", "call", "sides")},
    ("cause worker_failed", "verdict"): "needs a worker with the runtime",
    **{("verdict", name): "needs a worker with the runtime"
       for name in ("code", "verdict", "culprits", "waiting", "group", "number", "call", "sides")},
    **{("side", name): "needs a worker with the runtime" for name in ("rank", "number", "call", "name", "place")},
    **{("straggler", name): "needs a worker with the runtime"
       for name in ("rank", "waited_for_seconds", "longest_wait_seconds", "last", "late_seconds")},
    **{("rank_at", name): "needs a worker with the runtime"
       for name in ("waits_in", "phase", "phase_name", "phase_place", "steps", "groups")},
    **{("group_at", name): "needs a worker with the runtime"
       for name in ("name", "size", "called", "started", "finished", "gpu", "calls")},
    **{("gpu_at", name): "needs a GPU" for name in ("queued", "started", "finished")},
    **{("call_at", name): "needs a worker with the runtime" for name in ("number", "call", "name", "place")},
    ("history", "ranks_left_out"): "needs 16,385 ranks: job_history_test.cpp",
    ("history_rank", "waited_for"): "needs a worker with the runtime: report_test.py",
    **{("history_rank", name): "needs a worker with the runtime: history_json_test.cpp"
       for name in ("step_median_seconds", "step_p99_seconds", "dropped")},
    **{("history_curve", name): "needs a worker with the runtime: history_json_test.cpp"
       for name in ("name", "mean", "least", "most")},
    **{("history_collective", name): "needs a worker with the runtime: history_json_test.cpp"
       for name in ("operation", "name", "group", "size", "count", "matched", "bytes", "median_seconds", "p99_seconds",
                    "longest_seconds", "gpu_median_seconds", "transfer_median_seconds", "algorithm_bytes_per_second",
                    "bus_bytes_per_second", "last_rank", "last_count")},
    ("process", "rank"): "needs a worker that survives SIGKILL",
    ("process", "pid"): "needs a worker that survives SIGKILL",
}


def sections() -> dict[str, dict[str, tuple[str, bool]]]:
    """Maps a heading to its fields, and a field to (type, always present). A section may have all fields of another."""
    found, same = {}, {}
    for part in re.split(r"^### ", PAGE, flags=re.MULTILINE)[1:]:
        part = re.split(r"^## ", part, flags=re.MULTILINE)[0]
        rows = re.findall(r"^\| `(\w+)` \| ([^|]+) \| (yes|no) \|", part, re.MULTILINE)
        name = part.split("\n")[0]
        found[name] = {field: (kind, always == "yes") for field, kind, always in rows}
        if other := re.search(r"has all\s+fields\s+of\s+\[(\w+)\]", part):
            same[name] = other[1]
    return {name: {**found.get(same.get(name), {}), **fields} for name, fields in found.items()}


SECTIONS = sections()
EVENTS = [name for name in re.findall(r"^### (.*)$", PAGE[PAGE.index("## Events"):PAGE.index("## Objects")], re.MULTILINE)
          if name != "every event"]
seen: set[tuple[str, str]] = set()
seen_events: set[str] = set()


def check_value(value: object, kind: str, where: str) -> None:
    scalars = {"string": str, "integer": int, "boolean": bool}
    if kind.endswith(" or null"):
        if value is not None:
            check_value(value, kind[:-len(" or null")], where)
    elif kind.startswith("["):
        assert isinstance(value, list), f"{where}: {value!r} is no {kind}"
        for item in value:
            check_value(item, kind[1:-1], where)
    elif kind in scalars:
        assert type(value) is scalars[kind], f"{where}: {value!r} is no {kind}"
    elif kind == "number":
        assert type(value) in (int, float) and value >= 0, f"{where}: {value!r} is no {kind}"
    elif kind == "time":
        assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", str(value)), f"{where}: {value!r} is no time"
    elif kind == "cause":
        check_object(value, f"cause {value['kind']}")
    else:
        check_object(value, kind)


def check_object(value: dict, section: str, common: dict | None = None) -> None:
    fields = {**(common or {}), **SECTIONS[section]}
    assert value.keys() <= fields.keys(), f"{section}: undocumented {sorted(value.keys() - fields.keys())}"
    for name, (kind, always) in fields.items():
        if name in value:
            seen.add((section, name))
            check_value(value[name], kind, f"{section}.{name}")
        else:
            assert not always, f"{section}: {name} is missing in {value}"
    if section in ("worker_ended", "worker", "cause worker_failed"):
        assert ("exit_code" in value) != ("signal" in value), value
        assert ("core_dumped" in value) == ("signal" in value), value
        assert ("secondary" in value) == ("error" in value), value


def check_event(event: dict) -> None:
    assert event["event"] in EVENTS, f"undocumented event {event['event']}"
    seen_events.add(event["event"])
    check_object(event, event["event"], SECTIONS["every event"])


def wait_until(condition: Callable[[], bool], failure: str) -> None:
    end = time.monotonic() + DEADLINE
    while not condition():
        assert time.monotonic() < end, failure
        time.sleep(0.005)


class Run:
    """Runs one job with an event log and a summary, and checks both."""

    def __init__(self, folder: pathlib.Path, *words: str, env: dict[str, str] | None = None, group: int | None = None):
        self.log, self.summary_file = folder / "events.jsonl", folder / "summary.json"
        self.process = subprocess.Popen(
            [DDPLAUNCH, f"--event-log={self.log}", f"--summary={self.summary_file}", *words], stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=folder,
            env={"PATH": "/usr/bin:/bin", "TMPDIR": str(folder), **(env or {})},
            process_group=group)

    def written(self) -> list[dict]:
        text = self.log.read_bytes().decode() if self.log.exists() else ""
        return [json.loads(line) for line in text[:text.rfind("\n") + 1].splitlines()]

    def wait_for(self, event: str) -> dict:
        wait_until(lambda: self.count(event) > 0, f"no {event}")
        return next(line for line in self.written() if line["event"] == event)

    def count(self, event: str) -> int:
        return sum(line["event"] == event for line in self.written())

    def finish(self, exit_code: int) -> "Run":
        self.out, self.err = (text.decode(errors="replace") for text in self.process.communicate(timeout=DEADLINE))
        assert self.process.returncode == exit_code, (self.process.returncode, self.err)
        return self.check(exit_code if exit_code >= 0 else 128 - exit_code)

    def check(self, exit_code: int) -> "Run":
        assert self.log.read_bytes().endswith(b"}\n")
        self.events = self.written()
        for event in self.events:
            check_event(event)
        assert [event["event"] for event in self.events].count("job_started") == 1
        assert self.events[0]["event"] == "job_started" and self.events[0]["schema"] == 1
        assert self.events[-1]["event"] == "job_ended" and self.events[-1]["exit_code"] == exit_code, self.events[-1]
        assert len({event["run_id"] for event in self.events}) == 1
        self.summary = json.loads(self.summary_file.read_text())
        check_object(self.summary, "summary")
        assert self.summary["schema"] == 1 and self.summary["exit_code"] == exit_code
        assert self.summary["run_id"] == self.events[0]["run_id"]
        assert self.summary["attempts"] == len(self.named("attempt_started")) == self.events[-1]["attempts"]
        return self

    def named(self, name: str) -> list[dict]:
        return [event for event in self.events if event["event"] == name]


def shell(script: str, workers: int = 2) -> list[str]:
    return ["-q", f"--nproc-per-node={workers}", "sh", "-c", script]


def same_cause(run: Run) -> None:
    assert run.named("attempt_ended")[-1]["cause"] == run.summary["cause"], run.events


def success(folder: pathlib.Path) -> None:
    run = Run(folder, f"--log-dir={folder}/logs", *shell("exit 0")).finish(0)
    kinds = [event["event"] for event in run.events]
    assert kinds[:2] == ["job_started", "attempt_started"] and kinds[-2:] == ["attempt_ended", "job_ended"], kinds
    # The message is about OMP_NUM_THREADS.
    assert sorted(kinds[2:-2]) == ["history", "message"] + ["worker_ended"] * 2 + ["worker_started"] * 2, kinds
    assert kinds[-3] == "history" and "OMP_NUM_THREADS" in run.named("message")[0]["text"], kinds
    assert {event["exit_code"] for event in run.named("worker_ended")} == {0}
    assert run.events[0]["arguments"] == ["sh", "-c", "exit 0"]
    assert pathlib.Path(run.events[0]["log_directory"]).is_dir()
    assert run.summary["cause"] is None and run.summary["text"] == [] and len(run.summary["workers_ended"]) == 2
    same_cause(run)


def a_failing_rank(folder: pathlib.Path) -> None:
    run = Run(folder, *shell(r"""
        [ $RANK = 1 ] || sleep 1000
        printf '{"message": {"message": "ValueError: caf\351", "extraInfo": {"ddp_kind": "peer_lost"}}}' |
          iconv -f latin1 -t utf-8 > $TORCHELASTIC_ERROR_FILE
        exit 3""")).finish(3)
    cause = run.summary["cause"]
    assert cause["kind"] == "worker_failed" and cause["rank"] == 1 and cause["exit_code"] == 3, cause
    assert cause["error"] == "ValueError: café" and cause["secondary"] is True, cause
    assert run.summary["ended_ranks"] == [0], run.summary
    started = {event["rank"]: event["pid"] for event in run.named("worker_started")}
    assert started[1] == cause["pid"]
    assert [worker["ended_by_launcher"] for worker in run.summary["workers_ended"]] == [False, True]
    same_cause(run)


def words_that_are_not_utf8(folder: pathlib.Path) -> None:
    words = [os.fsencode(word) for word in (DDPLAUNCH, "-q", "--event-log=e", "--summary=s", "sh", "-c", "exit 1")]
    subprocess.run([*words, b"bad\xff"], cwd=folder, stderr=subprocess.DEVNULL, env={"PATH": "/usr/bin:/bin"})
    first = json.loads((folder / "e").read_bytes().decode().splitlines()[0])
    assert first["arguments"][-1] == "bad\ufffd", first
    assert json.loads((folder / "s").read_bytes().decode())["arguments"][-1] == "bad\ufffd"


def a_crash(folder: pathlib.Path) -> None:
    run = Run(folder, "--core=off", f"--log-dir={folder}/logs",
              *shell("[ $RANK = 0 ] && echo last words && kill -SEGV $$; sleep 1000")).finish(139)
    (end,) = run.named("attempt_ended")
    assert end["last_lines"] == ["last words"] and end["text"] == run.summary["text"], end
    assert pathlib.Path(end["log_file"]).read_text() == "last words\n", end
    assert run.summary["cause"]["signal"] == "SIGSEGV", run.summary
    assert run.summary["core"].startswith(("none", "with ")), run.summary
    assert "killed by SIGSEGV" in run.summary["text"][0]
    same_cause(run)


def a_gpu_without_memory(folder: pathlib.Path) -> None:
    script = """[ $RANK = 1 ] || exec sleep 1000
        echo 'Traceback (most recent call last):' >&2
        echo '  File "train.py", line 7, in <module>' >&2
        echo 'torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of 79.00
             GiB of which 1.50 GiB is free. Process 4711 has 20.00 GiB memory in use. Including non-PyTorch memory,
             this process has 57.00 GiB memory in use. Of the allocated memory 50.00 GiB is allocated by PyTorch, and
             4.00 GiB is reserved by PyTorch but unallocated.' | tr -s '\\n ' ' ' >&2
        exit 1"""
    run = Run(folder, *shell(script)).finish(1)
    gib = 1 << 30
    numbers = {"source": "pytorch", "asked_bytes": 2 * gib, "free_bytes": 3 * gib // 2, "total_bytes": 79 * gib,
               "own_bytes": 57 * gib, "unused_bytes": 4 * gib}
    assert run.summary["cause"]["gpu_memory"] == numbers, run.summary
    assert run.summary["gpu_memory"] == {**numbers, "others": [{"pid": 4711, "bytes": 20 * gib}]}, run.summary
    assert any("2 GiB requested, 1.5 GiB of 79 GiB free" in line for line in run.summary["text"]), run.summary["text"]
    same_cause(run)


def a_restart(folder: pathlib.Path) -> None:
    run = Run(folder, "--max-restarts=1", *shell("exit $((TORCHELASTIC_RESTART_COUNT == 0 ? 5 : 0))")).finish(0)
    first, second = run.named("attempt_ended")
    assert first["exit_code"] == 5 and first["next"].startswith("restart 1 of 1"), first
    assert second["attempt"] == 1 and second["cause"] is None and "next" not in second, second
    assert run.summary["attempts"] == 2 and run.summary["cause"] is None and run.summary["text"] == []
    same_cause(run)


KEEPER = """
import json, os, struct, sys, time, zlib
if os.environ["DDP_ATTEMPT"] == "0":
    fd, rank = json.loads(os.environ["DDP_STATE_MEMORY"])["fd"], int(os.environ["RANK"])
    def keep(place, kind):
        fields = struct.pack("=qQQiiiiI", 7, 4, 1, kind, 0, rank, 2, 0)  # of step 7
        os.pwrite(fd, b"data", (rank << 42) + (place + 1 << 38))
        os.pwrite(fd, fields + struct.pack("=I", zlib.crc32(fields)), (rank << 42) + 256 + place * 64)
    keep(7, 2)  # what the rank has of its own
    if rank == 0:
        keep(10, 4)  # the whole state
        time.sleep(1000)
    while not any(os.pread(fd, 48, 256 + 10 * 64)):
        time.sleep(0.01)
    sys.exit(5)
"""


def a_kept_state(folder: pathlib.Path) -> None:
    run = Run(folder, "--max-restarts=1", "--nproc-per-node=2", sys.executable, "-c", KEEPER).finish(0)
    (kept,) = run.named("states_kept")
    assert kept["attempt"] == 0 and kept["states"] == [{"step": 7, "rank": 0, "bytes": 4}], kept
    first, second = run.named("attempt_started")
    assert "restored" not in first and "since_failure_seconds" not in first, first
    restored = second["restored"]
    assert (restored["step"], restored["lost_steps"], restored["source"]) == (7, 0, "memory"), second
    assert 0 <= second["since_failure_seconds"] < 60, second


def a_signal(folder: pathlib.Path) -> None:
    run = Run(folder, *shell("trap '' USR1; : > ready; while :; do sleep 0.1; done", 1))
    wait_until((folder / "ready").exists, "the worker is not ready")
    run.process.send_signal(signal.SIGUSR1)
    assert run.wait_for("signal")["signal"] == "SIGUSR1"
    run.process.send_signal(signal.SIGTERM)
    run.finish(-signal.SIGTERM)
    assert [event["signal"] for event in run.named("signal")] == ["SIGUSR1", "SIGTERM"], run.events
    assert run.summary["cause"] == {"kind": "signal", "signal": "SIGTERM"}
    same_cause(run)


def a_stop(folder: pathlib.Path) -> None:
    # The launcher gets a process group whose parent process is in the test's group, because only such a group can be
    # stopped. In any other group the kernel drops the stop, and SIGCONT takes back a pending SIGTSTP.
    run = Run(folder, *shell(": > ready; while :; do sleep 0.1; done", 1), group=0)
    wait_until((folder / "ready").exists, "the worker is not ready")
    run.process.send_signal(signal.SIGTSTP)
    wait_until(lambda: run.count("signal") >= 1, "the stop has no line")
    stat = pathlib.Path(f"/proc/{run.process.pid}/stat")
    wait_until(lambda: stat.read_text().rpartition(") ")[2].startswith("T"), "the launcher does not stop")
    run.process.send_signal(signal.SIGCONT)
    wait_until(lambda: run.count("signal") >= 2, "the continuation has no line")
    run.process.send_signal(signal.SIGTERM)
    run.finish(-signal.SIGTERM)
    assert [event["signal"] for event in run.named("signal")] == ["SIGTSTP", "SIGCONT", "SIGTERM"], run.events


def a_signal_between_attempts(folder: pathlib.Path) -> None:
    run = Run(folder, "--max-restarts=100", *shell("exit 5"))
    # The delays start at 0.1 s and grow; the fourth one is 2.7 s.
    wait_until(lambda: run.count("attempt_ended") >= 4, "no fourth attempt")
    run.process.send_signal(signal.SIGINT)
    run.finish(-signal.SIGINT)
    assert run.summary["cause"] == {"kind": "signal", "signal": "SIGINT"}
    assert run.summary["text"] == ["terminated by SIGINT, before the next attempt"], run.summary
    assert run.summary["text"][0] in run.err


def a_program_that_cannot_start(folder: pathlib.Path) -> None:
    program = folder / "broken"
    program.write_bytes(pathlib.Path("/bin/true").resolve().read_bytes()[:64])  # this header makes it look like a program
    program.chmod(0o755)
    run = Run(folder, "-q", "./broken").finish(126)
    (failed,) = run.named("worker_not_started")
    assert failed["exit_code"] == 126 and "broken" in failed["message"], failed
    assert run.summary["cause"] == {"kind": "cannot_start", "local_rank": 0, "message": failed["message"]}
    assert run.summary["text"] == [failed["message"]] and failed["message"] in run.err
    same_cause(run)


def a_rank_that_does_not_end(folder: pathlib.Path) -> None:
    run = Run(folder, "--exit-timeout=0.2", *shell("[ $RANK = 0 ] || sleep 1000")).finish(124)
    assert run.summary["cause"] == {"kind": "exit_timeout", "ended": [0], "waited_for": [1]}, run.summary
    same_cause(run)


def a_job_that_hangs(folder: pathlib.Path) -> None:
    run = Run(folder, "--hang-timeout=6", *shell("exec sleep 1000"), env={"NCCL_RAS_ADDR": "127.0.0.1:1"})
    wait_until(lambda: run.count("worker_started") == 2, "no workers")
    run.process.send_signal(signal.SIGQUIT)
    assert run.wait_for("hang")["state"] == "asked"
    run.finish(124)
    states = [event["state"] for event in run.named("hang")]
    assert states in (["asked", "stalled", "hung"], ["asked", "stalled", "warned", "hung"]), run.named("hang")
    cause = run.summary["cause"]
    assert cause["kind"] == "hang" and cause["stall"]["code"] == "DDP-H08", cause
    same_cause(run)


def another_node(folder: pathlib.Path) -> None:
    words = ["--nnodes=2", f"--rdzv-endpoint=127.0.0.1:{free_port()}"]
    program = shell("[ $RANK = 1 ] && exit 3; exec sleep 1000", 1)
    run = Run(folder, *words, "--node-rank=0", *program)
    run.wait_for("job_started")
    other = subprocess.run([DDPLAUNCH, *words, "--node-rank=1", *program], capture_output=True, text=True, timeout=60)
    assert other.returncode == 3 and "rank 1" in other.stderr, other
    run.finish(3)
    assert run.named("ended_elsewhere")[0]["message"] == "rank 1: exit code 3", run.written()
    assert run.summary["cause"]["kind"] == "elsewhere", run.summary
    same_cause(run)


def a_console_that_is_closed(folder: pathlib.Path) -> None:
    run = Run(folder, "--on-sigpipe=end", *shell("while echo line; do sleep 0.01; done", 1))
    run.process.stdout.readline()
    run.process.stdout.close()
    run.process.stderr.close()
    assert run.process.wait(timeout=DEADLINE) == -signal.SIGPIPE
    run.check(128 + signal.SIGPIPE)
    assert len(run.named("console_closed")) == 1, run.events
    assert run.summary["cause"] == {"kind": "signal", "signal": "SIGPIPE"}, run.summary
    same_cause(run)


def a_launcher_that_is_killed(folder: pathlib.Path) -> None:
    run = Run(folder, *shell("sleep 1000", 1))
    run.wait_for("worker_started")
    run.process.kill()
    run.process.communicate(timeout=DEADLINE)
    run.wait_for("launcher_killed")
    run.wait_for("job_ended")
    wait_until(run.summary_file.exists, "no summary")  # the file appears atomically
    run.check(125)
    assert run.summary["cause"] == {"kind": "launcher_killed"}
    same_cause(run)


def a_launcher_that_fails(folder: pathlib.Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        run = Run(folder, "--master-addr=127.0.0.1", f"--master-port={port}", *shell("exit 0"),
                  env={"TORCHELASTIC_ERROR_FILE": str(folder / "above.json")}).finish(125)
    assert [event["event"] for event in run.events] == ["job_started", "job_ended"], run.events
    assert str(port) in run.events[-1]["message"], run.events
    assert run.summary["cause"] == {"kind": "launcher_failed", "message": run.events[-1]["message"]}
    assert run.summary["attempts"] == 0
    assert json.loads((folder / "above.json").read_text())["message"]["message"] == run.events[-1]["message"]


def paths_that_cannot_be_written(folder: pathlib.Path) -> None:
    os.mkfifo(folder / "fifo")
    (folder / "train.py").write_text("import torch\n")
    (folder / "link.gz").symlink_to("train.py")
    marker = folder / "started"
    refused = {
        "--event-log=no/log": "cannot write --event-log=no/log: No such file or directory",
        "--event-log=.": "cannot write --event-log=.: Is a directory",
        "--event-log=fifo": "cannot write --event-log=fifo: no process reads it",
        "--event-log=/dev/full": "cannot write --event-log=/dev/full: No space left on device",
        "--event-log=train.py": "--event-log=train.py would append to a file that is not an event log of ddplaunch",
        "--event-log=link.gz": "--event-log=link.gz would append to a file that is not an event log of ddplaunch",
        "--summary=no/s": "cannot write --summary=no/s: No such file or directory",
        "--summary=.": "cannot write --summary=.: Is a directory",
        "--summary=train.py": "--summary=train.py would overwrite a file that is not a summary of ddplaunch",
        "--report=train.py": "--report=train.py would overwrite a file that is not a report of ddplaunch",
        "--trace=train.py": "--trace=train.py would overwrite a file that is not a trace of ddplaunch",
        "--trace=link.gz": "--trace=link.gz would overwrite a file that is not a trace of ddplaunch",
        "--event-log=x --summary=x": "--summary=x would overwrite the file of --event-log",
        "--event-log=x --report=./x": "--report=./x would overwrite the file of --event-log",
        "--report=y --trace=y": "--trace=y would overwrite the file of --report",
        "--launcher-log=x --trace=x": "--trace=x would overwrite the file of --launcher-log",
    }
    for words, message in refused.items():
        result = subprocess.run([DDPLAUNCH, *words.split(), "touch", marker], cwd=folder, capture_output=True, text=True)
        assert result.returncode == 125 and message in result.stderr, (words, result)
        assert result.stderr.count("\n") == 1, result.stderr
        assert not marker.exists(), words
    assert (folder / "train.py").read_text() == "import torch\n"
    # A job appends its events to those of other jobs, and to an empty file. Any text file takes the lines of --launcher-log.
    (folder / "empty").touch()
    (folder / "text").write_text("training begins\n")
    for words in ["--event-log=events", "--event-log=events", "--event-log=empty", "--event-log=/dev/null",
                  "--launcher-log=text", "--launcher-log=both --event-log=both"]:
        result = subprocess.run([DDPLAUNCH, "-q", *words.split(), "true"], cwd=folder, capture_output=True, text=True)
        assert result.returncode == 0 and not result.stderr, (words, result)
    assert (folder / "events").read_text().count('"job_started"') == 2
    assert (folder / "empty").read_text().count('"job_started"') == 1
    assert (folder / "text").read_text().startswith("training begins\n2")
    # A job replaces the documents of another one, but not a file that its own program has written meanwhile.
    documents = ["--summary=s.json", "--report=r.html", "--trace=t.json", "--trace=t.json.gz"]
    for _ in range(2):
        for words in documents:
            result = subprocess.run([DDPLAUNCH, "-q", words, "true"], cwd=folder, capture_output=True, text=True)
            assert result.returncode == 0 and not result.stderr, (words, result)
    result = subprocess.run([DDPLAUNCH, "-q", "--summary=new", "sh", "-c", "echo results > new"], cwd=folder,
                            capture_output=True, text=True)
    assert result.returncode == 0 and "is not a summary of ddplaunch" in result.stderr, result
    assert (folder / "new").read_text() == "results\n"
    # These errors show only at the end of the job, whose exit code must not change.
    for words, message in {"--summary=/dev/full": "No space left", "--summary=fifo": "no process reads it"}.items():
        result = subprocess.run([DDPLAUNCH, "-q", words, "sh", "-c", "exit 0"], cwd=folder, capture_output=True, text=True)
        assert result.returncode == 0 and f"cannot write {words}: {message}" in result.stderr, (words, result)


def standard_error_as_the_place(folder: pathlib.Path) -> None:
    with (folder / "err").open("w") as err:
        subprocess.run([DDPLAUNCH, "-q", "--event-log=/dev/stderr", "--summary=/dev/stderr", "sh", "-c", "echo worker >&2; exit 3"],
                       stdin=subprocess.DEVNULL, stderr=err, cwd=folder)
    text = (folder / "err").read_text()
    lines = [line for line in text.splitlines() if line.startswith('{"time"')]
    for line in lines:
        check_event(json.loads(line))
    assert json.loads(lines[-1])["event"] == "job_ended", text
    assert "worker\n" in text and "ddplaunch: error: rank 0" in text, text
    check_object(json.loads(text[text.index("{\n"):]), "summary")
    assert pathlib.Path("/dev/stderr").is_symlink()


def error_files_for_a_launcher_above(folder: pathlib.Path) -> None:
    above = folder / "above.json"
    record = '{"message": {"message": "ValueError: inner words", "extraInfo": {"py_callstack": "Traceback", "timestamp": "1"}}}'
    env = {"TORCHELASTIC_ERROR_FILE": str(above), "RECORD": record}
    with_record = 'echo "$RECORD" > $TORCHELASTIC_ERROR_FILE; exit 4'
    assert subprocess.run([DDPLAUNCH, *shell("exit 0")], env={**os.environ, **env}).returncode == 0
    assert not above.exists()
    subprocess.run([DDPLAUNCH, *shell(f"[ $RANK = 1 ] || sleep 1000; {with_record}")], env={**os.environ, **env},
                   stderr=subprocess.DEVNULL)
    assert json.loads(above.read_text()) == {**json.loads(record), "ddp_cause": "program", "ddp_repeat": "perhaps"}
    # If the worker has not written a file, the launcher writes a record.
    subprocess.run([DDPLAUNCH, *shell("kill -KILL $$", 1)], env={**os.environ, **env}, stderr=subprocess.DEVNULL)
    message = json.loads(above.read_text())["message"]
    assert re.match(r"rank 0 \(pid \d+\) failed: killed by SIGKILL", message["message"]), message
    assert message["errorCode"] == 137 and int(message["extraInfo"]["timestamp"]) <= time.time(), message
    assert isinstance(message["extraInfo"]["py_callstack"], str), message
    # The outer launcher may also be ddplaunch.
    for script, words in {with_record: "ValueError: inner words", "kill -KILL $$": "killed by SIGKILL"}.items():
        outer = subprocess.run([DDPLAUNCH, "-q", "--summary=s", DDPLAUNCH, "-q", "sh", "-c", script], cwd=folder,
                               env={**os.environ, "RECORD": record}, capture_output=True, text=True)
        cause = json.loads((folder / "s").read_text())["cause"]
        assert words in cause["error"], (cause, outer)
        assert re.search(rf"^ddplaunch:   its (error|last lines):\n(ddplaunch:   \| .*\n)*ddplaunch:   \| .*{words}", outer.stderr, re.MULTILINE), outer.stderr
    # An error that cannot be passed on is reported.
    result = subprocess.run([DDPLAUNCH, "sh", "-c", "exit 4"], capture_output=True, text=True,
                            env={**os.environ, "TORCHELASTIC_ERROR_FILE": "/no/such/file"})
    assert result.returncode == 4, result
    assert "cannot write TORCHELASTIC_ERROR_FILE=/no/such/file: No such file or directory" in result.stderr, result


def examples_follow_the_tables() -> None:
    examples = [json.loads(line) for block in re.findall(r"```json\n(.*?)```", PAGE, re.DOTALL)
                for line in block.splitlines()]
    assert {example["event"] for example in examples if "event" in example} == set(EVENTS)
    for example in examples:
        if "event" in example:
            check_event(example)
        else:
            check_object(example, "summary")


def all_that_is_documented_was_seen() -> None:
    fields = {(section, name) for section, rows in SECTIONS.items() if section != "every event" for name in rows}
    missing = fields - seen - UNSEEN.keys()
    assert UNSEEN.keys() <= fields, f"no longer documented: {sorted(UNSEEN.keys() - fields)}"
    assert not missing, f"documented and never written: {sorted(missing)}"
    assert set(EVENTS) == seen_events, f"never written: {set(EVENTS) - seen_events}"


JOBS = [success, a_failing_rank, words_that_are_not_utf8, a_crash, a_gpu_without_memory, a_restart, a_kept_state, a_signal, a_stop,
        a_signal_between_attempts,
        a_program_that_cannot_start, a_rank_that_does_not_end, a_job_that_hangs, another_node,
        a_console_that_is_closed, a_launcher_that_is_killed,
        a_launcher_that_fails, paths_that_cannot_be_written, standard_error_as_the_place,
        error_files_for_a_launcher_above]
assert len(EVENTS) == 15 and all(SECTIONS[name] for name in EVENTS if name not in ("launcher_killed", "console_closed"))
for job in JOBS:
    with tempfile.TemporaryDirectory() as name:
        job(pathlib.Path(name))
all_that_is_documented_was_seen()
examples_follow_the_tables()
print(f"{len(JOBS)} jobs as docs/reference/event-log.md says")
