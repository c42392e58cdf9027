#!/usr/bin/env python3
"""Tests workers that have become another user. The launcher may not signal them, and reports it. launched_job.py
describes argv."""
import contextlib
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
from launched_job import LAUNCHER, Job, Skip, eventually, run_tests, state_of, status_of, test  # noqa: E402

NOBODY = 65534
AS_NOBODY = ("setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups")
# Rank 0 becomes root and writes its pid; rank 1 fails when the test creates the file `go`.
WORKER = """#!/bin/sh
cd "${0%/*}" || exit 1
[ "$RANK" = 1 ] && { while [ ! -e go ]; do sleep 0.05; done; exit 3; }
echo $$ > pid
"""
SLEEP = "./become_root --reuid=0 sleep 1000"


@contextlib.contextmanager
def folder_for_nobody():
    """Creates a folder with a program that gives root rights to the user that starts it."""
    if os.geteuid() != 0:
        raise Skip("only root can start a launcher as one user and its worker as another one")
    if not shutil.which("setpriv"):
        raise Skip("setpriv is missing")
    with tempfile.TemporaryDirectory(dir="/tmp") as name:
        folder = pathlib.Path(name)
        folder.chmod(0o777)
        become_root = folder / "become_root"
        shutil.copy(shutil.which("setpriv"), become_root)
        become_root.chmod(0o4755)
        became = subprocess.run([*AS_NOBODY, become_root, "--reuid=0", "id", "-ru"], capture_output=True, text=True)
        if became.stdout.strip() != "0":
            raise Skip(f"set-user-ID programs have no effect in {name}: {became.stdout}{became.stderr}")
        if subprocess.run([*AS_NOBODY, LAUNCHER, "--version"], capture_output=True).returncode != 0:
            raise Skip(f"user {NOBODY} may not execute {LAUNCHER}")
        yield folder


@contextlib.contextmanager
def job_that_fails(ending: str, grace: str = "0.2"):
    """Yields the job, its folder, and the pid of the process that is root's. Rank 0 of the job, or its child, has
    become root."""
    with folder_for_nobody() as folder:
        worker = folder / "worker"
        worker.write_text(WORKER + ending)
        worker.chmod(0o755)
        # The end of `with` kills all processes of the job, because a mark in their environment identifies them.
        with Job("--nproc-per-node=2", f"--grace={grace}", f"--summary={folder}/summary", str(worker), via=AS_NOBODY,
                 environment={"TMPDIR": str(folder)}) as job:
            def roots_process() -> list[int]:
                found = subprocess.run(["pgrep", "-x", "sleep"], capture_output=True, text=True).stdout.split()
                return [int(pid) for pid in found if is_roots(int(pid), job.mark)]
            pid = eventually("a process of the job is root's", roots_process)[0]
            try:
                (folder / "go").touch()
                yield job, folder, pid
            finally:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)


def is_roots(pid: int, mark: str) -> bool:
    try:
        marked = mark.encode() in pathlib.Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
        return marked and status_of(pid)["Uid"].split() == ["0"] * 4
    except OSError:  # the process has just ended
        return False


@test("other user", "a worker that has become another user: the report says that it cannot be terminated, and why")
def worker() -> None:
    with job_that_fails(f"exec {SLEEP}\n") as (job, folder, pid):
        assert job.wait() == 3, job.err()
        err = job.err()
        assert int((folder / "pid").read_text()) == pid and state_of(pid) == "S", (pid, state_of(pid), err)
        assert (f"rank 0 (pid {pid}) cannot be terminated: it now runs as another user (ps -o user= -p {pid}), whose "
                "processes the launcher may not signal. Terminate it as that user") in err, err
        assert "survives SIGKILL" not in err and "stuck in the kernel" not in err, err
        assert re.search(r"rank 1 \(pid \d+\) failed: exit code 3", err) and "rank 0 was terminated because of it" not in err, err
        assert f"cannot be terminated: it now runs as another user (ps -o user= -p {pid})" in (folder / "summary").read_text()


@test("other user", "no line says that a signal was sent which the launcher may not send")
def no_false_word() -> None:
    with job_that_fails(f"exec {SLEEP}\n", grace="2") as (job, _, pid):
        assert job.wait() == 3, job.err()
        assert f"rank 0 (pid {pid}) cannot be terminated" in job.err(), job.err()
        assert "SIGTERM sent" not in job.err() and "SIGKILL sent" not in job.err(), job.err()


@test("other user", "a worker's child that has become another user is named, and why it cannot be killed")
def child() -> None:
    with job_that_fails(f"{SLEEP}\necho after\n") as (job, _, pid):
        assert job.wait() == 3, job.err()
        err = job.err()
        assert state_of(pid) == "S" and "survives SIGKILL" not in err, err
        assert f"1 other process of the job cannot be killed, the first with pid {pid}" in err, err
        assert "another user" in err, f"the report does not say why: {err}"


if __name__ == "__main__":
    sys.exit(run_tests())
