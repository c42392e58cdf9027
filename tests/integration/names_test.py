#!/usr/bin/env python3
"""Tests programs and nodes whose names contain sequences that act on a terminal. In every message the launcher shows
them escaped. launched_job.py describes argv."""
import functools
import json
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
from launched_job import LAUNCHER, Job, Skip, run_job, run_tests, test  # noqa: E402
from ports import free_port  # noqa: E402

# The names contain ESC and a colour, CSI in one character (C1), and the mark that reverses the text.
PROGRAM = "e\x1b[31mvil\u009b32m\u202eprogram"
PROGRAM_SHOWN = "e\\x1b[31mvil\\xc2\\x9b32m\\xe2\\x80\\xaeprogram"
HOST = "h\x1b[2J\u009b1m\u202ehost"
HOST_SHOWN = "h\\x1b[2J\\xc2\\x9b1m\\xe2\\x80\\xaehost"
AS_HOST = "import os, socket, sys; socket.sethostname(sys.argv[1].encode()); os.execvp(sys.argv[2], sys.argv[2:])"
BIN = pathlib.Path(LAUNCHER).parent


@functools.cache
def on_host() -> tuple[str, ...]:
    """Returns a command prefix that runs a command on a host with the name HOST."""
    words = ("unshare", "--uts", sys.executable, "-c", AS_HOST, HOST)
    if not shutil.which("unshare") or subprocess.run([*words, "true"], capture_output=True).returncode != 0:
        raise Skip("unshare --uts is not permitted, so no host can have another name")
    return words


def is_clean(said: str) -> None:
    for line in said.splitlines():
        assert line.isprintable(), f"the console shows {line!r}"


def script(folder: str, text: str) -> str:
    path = pathlib.Path(folder, PROGRAM)
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return str(path)


def hanging_worker(folder: str) -> tuple[str, dict[str, str]]:
    """Copies hanging_worker to a file with the name PROGRAM. Returns its path, and the variables that it needs to
    find the runtime."""
    program = f"{folder}/{PROGRAM}"
    shutil.copy(BIN / "hanging_worker", program)
    needed = subprocess.run(["ldd", BIN / "hanging_worker"], capture_output=True, text=True, check=True).stdout
    runtime = re.search(r"libddp_runtime\S* => (\S+)", needed)
    return program, {"LD_LIBRARY_PATH": str(pathlib.Path(runtime[1]).parent)} if runtime else {}


@test("names", "the start line and the report on a failure show both names escaped")
def failure() -> None:
    with tempfile.TemporaryDirectory() as folder:
        program = script(folder, 'echo "it is $0"; [ "$RANK" = 0 ] && exec sleep 1000; exit 3')
        code, _, err = run_job("--nproc-per-node=2", f"--summary={folder}/summary", f"--event-log={folder}/events", program,
                               via=on_host())
        assert code == 3, (code, err)
        is_clean(err)
        assert f"2 workers on node {HOST_SHOWN} (no GPU), store " in err, err
        assert f"  node {HOST_SHOWN}, program {folder}/{PROGRAM_SHOWN}" in err, err
        # The launcher removes colours from quoted output of workers.
        assert f"  | it is {folder}/{PROGRAM_SHOWN}".replace("\\x1b[31m", "") in err, err
        # These files are read by programs, so they hold the names unchanged.
        summary = json.loads(pathlib.Path(folder, "summary").read_text(encoding="utf-8"))
        assert (summary["node"], summary["program"]) == (HOST, program), summary
        for line in pathlib.Path(folder, "events").read_text(encoding="utf-8").splitlines():
            assert json.loads(line)["node"] == HOST and "\x1b" not in line, line


@test("names", "a program that cannot be started and one that is killed are shown with escaped names")
def no_start() -> None:
    with tempfile.TemporaryDirectory() as folder:
        code, _, err = run_job(f"{folder}/{PROGRAM}", via=on_host())
        assert code == 127 and f"cannot start {folder}/{PROGRAM_SHOWN}: no such file" in err, (code, err)
        is_clean(err)
        pathlib.Path(folder, PROGRAM).write_text("#!/no/such/interpreter\x1b[2J\n")
        pathlib.Path(folder, PROGRAM).chmod(0o755)
        code, _, err = run_job(f"{folder}/{PROGRAM}", via=on_host())
        assert code == 127 and "/no/such/interpreter\\x1b[2J" in err, (code, err)
        is_clean(err)
        code, _, err = run_job("--core=unlimited", script(folder, "kill -SEGV $$"), via=on_host())
        assert code == 139 and f"  node {HOST_SHOWN}, program {folder}/{PROGRAM_SHOWN}" in err, (code, err)
        is_clean(err)


@functools.cache
def hang() -> str:
    """Returns what the launcher prints about a job that hangs."""
    with tempfile.TemporaryDirectory() as folder:
        program, environment = hanging_worker(folder)
        code, _, err = run_job("--nproc-per-node=3", "--hang-timeout=6", f"--log-dir={folder}", program, "pause",
                               environment=environment, via=on_host())
        assert code == 124, (code, err)
        dump, = pathlib.Path(folder).glob("*/attempt_0/dump_1.json")
        text = dump.read_text(encoding="utf-8")
        assert json.loads(text)["node"] == HOST and "\x1b" not in text, text
        assert f"misbehave ({PROGRAM_SHOWN}+0x" in text.replace("\\\\", "\\"), text
        return err


@test("names", "the report on a hang shows both names escaped")
def hang_is_clean() -> None:
    err = hang()
    is_clean(err)
    assert f"3 workers on node {HOST_SHOWN} (no GPU)" in err, err
    assert re.search(r"rank 1 has not called all_reduce .*\[DDP-H03 not called\]", err), err


@test("names", "a stack shows the functions of a file with an unprintable name")
def hang_names_functions() -> None:
    err = hang()
    assert re.search(r"rank 1: .*misbehave ← main$", err, re.MULTILINE), err


@test("names", "the launchers of two nodes show one another's names escaped")
def two_nodes() -> None:
    with tempfile.TemporaryDirectory() as folder:
        program = script(folder, '[ "$RANK" = 0 ] && exec sleep 1000; echo hello; exit 3')
        meet = ("--nnodes=2", "--nproc-per-node=1", "--tag=${node}: ", f"--rdzv-endpoint=127.0.0.1:{free_port()}")
        with Job(*meet, program, via=on_host()) as first, Job(*meet, program, via=on_host()) as second:
            assert (first.wait(), second.wait()) == (3, 3), (first.err(), second.err())
            names = f"2 nodes, 2 workers: {HOST_SHOWN} (rank 0), {HOST_SHOWN}#2 (rank 1, 127.0.0.1)"
            for job in (first, second):
                is_clean(job.err())
                assert names in job.err(), job.err()
            culprits = re.compile(re.escape(f"node {HOST_SHOWN}#2: rank 1: exit code 3"))
            assert any(culprits.search(job.err()) for job in (first, second)), (first.err(), second.err())
            own, = [job for job in (first, second) if f"1 worker on node {HOST_SHOWN}#2 (" in job.err()]
            assert f"  node {HOST_SHOWN}#2, program {folder}/{PROGRAM_SHOWN}" in own.err(), own.err()
            assert f"{HOST_SHOWN}#2: hello\n" in own.out(), own.out()


@test("names", "the plan of --dry-run shows both names escaped")
def dry_run() -> None:
    with tempfile.TemporaryDirectory() as folder:
        code, out, err = run_job("--dry-run", script(folder, "true"), via=on_host())
        assert code == 0 and re.search(r"^node +" + re.escape(HOST_SHOWN) + "$", out, re.MULTILINE), (code, out, err)
        assert re.search(r"^program +" + re.escape(f"{folder}/{PROGRAM_SHOWN}") + "$", out, re.MULTILINE), out
        is_clean(out + err)


@test("names", "the mark before a worker's line shows the host's name escaped")
def tag() -> None:
    code, out, err = run_job("--nproc-per-node=2", "--tag=${node} ", "echo", "hello", via=on_host())
    assert code == 0 and out.count(f"{HOST_SHOWN} hello") == 2, (code, out, err)


if __name__ == "__main__":
    sys.exit(run_tests())
