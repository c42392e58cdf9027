"""Provides jobs under ddplaunch, their processes, and functions that run tests of whole jobs.

A test is a function with a row of docs/development/supervision.md and a sentence. A file of tests is a program:

    some_test.py DDPLAUNCH [WORD]     # only tests whose row or sentence has WORD

It exits with 1 if a test fails, and with 77 if none could run.
"""
import collections.abc
import contextlib
import itertools
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import traceback

LAUNCHER = os.path.abspath(sys.argv[1])
HELPER = str(pathlib.Path(LAUNCHER).with_name("spawn_path"))
# Limits operations that take milliseconds on an idle computer. Tests detect that something takes too long by messages
# or by their order, never by a clock. tests/bench measures times.
PATIENCE = 60.0
MARK = "DDP_TEST_JOB"

numbers = itertools.count()
tests: list[tuple[str, str, collections.abc.Callable[[], None]]] = []


class Skip(Exception):
    """Reports that the computer lacks what the test needs. The text names it."""


def test(row: str, sentence: str):
    def note(function):
        tests.append((row, sentence, function))
        return function
    return note


def run_tests() -> int:
    word = sys.argv[2] if len(sys.argv) > 2 else ""
    failed, skipped, passed = 0, 0, 0
    for row, sentence, function in tests:
        if word not in row + " " + sentence:
            continue
        begin = time.monotonic()
        try:
            function()
            verdict, passed = "ok", passed + 1
        except Skip as reason:
            verdict, skipped = f"skipped: {reason}", skipped + 1
        except Exception:  # whatever fails, the other tests still run
            traceback.print_exc(file=sys.stdout)
            verdict, failed = "FAILED", failed + 1
        print(f"{time.monotonic() - begin:6.2f} s  row {row}: {sentence}: {verdict}", flush=True)
    print(f"{passed} passed, {skipped} skipped, {failed} failed")
    return 1 if failed else 77 if not passed else 0


def eventually(what: str, condition: collections.abc.Callable[[], object], seconds: float = PATIENCE):
    """Returns the condition's first true value. Fails, with `what`, if there is none in time."""
    deadline = time.monotonic() + seconds
    while True:
        value = condition()
        if value:
            return value
        assert time.monotonic() < deadline, f"not within {seconds} s: {what}"
        time.sleep(0.002)


def processes(mark: str) -> dict[int, tuple[str, int]]:
    """Returns state and parent of each process that has the mark in its environment."""
    found = {}
    for entry in pathlib.Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            if mark.encode() not in (entry / "environ").read_bytes().split(b"\0"):
                continue
            fields = (entry / "stat").read_text().rpartition(")")[2].split()
            found[int(entry.name)] = (fields[0], int(fields[1]))
        except OSError:  # the process has just ended
            continue
    return found


def command_of(pid: int) -> str:
    try:
        return pathlib.Path(f"/proc/{pid}/cmdline").read_text(errors="replace").replace("\0", " ")
    except OSError:
        return ""


def state_of(pid: int) -> str:
    """Returns the letter of the state in /proc/PID/stat, or "" if the process has ended."""
    try:
        return pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return ""


def status_of(pid: int) -> dict[str, str]:
    lines = pathlib.Path(f"/proc/{pid}/status").read_text().splitlines()
    return {name: value.strip() for name, _, value in (line.partition(":") for line in lines)}


class Job:
    """Runs ddplaunch. Its output goes to files, so that it never waits for a reader. At the end of the `with` block
    all its processes and files are removed. It runs in a new folder, and prints repeated lines each time."""

    def __init__(self, *words: str, via: collections.abc.Sequence[str] = (), environment: dict[str, str] | None = None,
                 launcher: collections.abc.Sequence[str] = (LAUNCHER, "--no-collapse"), **popen):
        self.folder = tempfile.mkdtemp(prefix="job")
        self.mark = f"{MARK}={os.getpid()}.{next(numbers)}"
        name, _, value = self.mark.partition("=")
        variables = {"TMPDIR": self.folder, **(environment or {}), name: value}
        self.files = [open(f"{self.folder}/{name}", "w+b") for name in ("out", "err")]
        popen.setdefault("stdin", subprocess.DEVNULL)
        popen.setdefault("cwd", self.folder)
        popen.setdefault("stdout", self.files[0])
        popen.setdefault("stderr", self.files[1])
        self.process = subprocess.Popen([*via, *launcher, *words], env=dict(os.environ, **variables), **popen)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        while left := processes(self.mark):
            for pid in left:
                try:
                    os.kill(pid, signal.SIGKILL)
                except ProcessLookupError:
                    pass
            self.process.poll()
            time.sleep(0.002)
        self.process.wait()
        for file in self.files:
            file.close()
        shutil.rmtree(self.folder, ignore_errors=True)

    @property
    def pid(self) -> int:
        """Returns the guardian's pid, unless the job was started through another program that stays."""
        return self.process.pid

    def path(self, name: str) -> str:
        return f"{self.folder}/{name}"

    def out(self) -> str:
        return pathlib.Path(self.path("out")).read_text(errors="replace")

    def err(self) -> str:
        return pathlib.Path(self.path("err")).read_text(errors="replace")

    def wait_for(self, text: str, count: int = 1) -> None:
        def seen() -> bool:
            assert self.process.poll() is None or self.out().count(text) >= count, (text, self.out(), self.err())
            return self.out().count(text) >= count
        eventually(f"{count} x {text!r} in the output", seen)

    def supervisor(self) -> int:
        def find() -> list[int]:
            assert self.process.poll() is None, (self.out(), self.err())
            children = pathlib.Path(f"/proc/{self.pid}/task/{self.pid}/children").read_text().split()
            return [pid for pid in map(int, children) if LAUNCHER in command_of(pid)]
        return eventually("the supervisor", find)[0]

    def signal(self, number: int) -> None:
        if self.process.poll() is None:
            os.kill(self.pid, number)

    def wait(self, seconds: float = PATIENCE) -> int:
        """Returns the exit code, or minus the signal, as subprocess does."""
        try:
            return self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            left = {pid: (state, command_of(pid)) for pid, (state, _) in processes(self.mark).items()}
            raise AssertionError(f"the job does not end within {seconds} s: {left}\n{self.err()}") from None

    def expect_nothing_left(self, seconds: float = PATIENCE) -> None:
        def nothing() -> bool:
            self.process.poll()
            return not processes(self.mark)
        try:
            eventually("all processes of the job are gone", nothing, seconds)
        except AssertionError:
            left = {pid: (state, command_of(pid)) for pid, (state, _) in processes(self.mark).items()}
            raise AssertionError(f"{seconds} s later there are {left}") from None


def run_job(*words: str, **options) -> tuple[int, str, str]:
    """Runs a job to its end. Returns exit code, stdout and stderr. Fails if anything of the job is left."""
    with Job(*words, **options) as job:
        code = job.wait()
        job.expect_nothing_left()
        return code, job.out(), job.err()


def python(script: str) -> tuple[str, str, str, str]:
    """Returns the command of a worker that runs the script, with the usual modules imported."""
    modules = "import ctypes, os, resource, signal, subprocess, sys, time\nrank = int(os.environ['RANK'])\n"
    return "--no-python", sys.executable, "-c", modules + script


def as_pid_1() -> list[str]:
    words = ["unshare", "--pid", "--fork", "--mount-proc"]
    if subprocess.run([*words, "true"], capture_output=True).returncode != 0:
        raise Skip("unshare --pid is not permitted")
    return words


def with_mounts(script: str) -> list[str]:
    """Returns a command prefix that runs a command in a new mount namespace, after the script."""
    words = ["unshare", "--mount", "sh", "-ec", script + '\nexec "$@"', "sh"]
    if not shutil.which("unshare") or subprocess.run([*words, "true"], capture_output=True).returncode != 0:
        raise Skip(f"unshare --mount is not permitted, or this in it: {script}")
    return words


@contextlib.contextmanager
def machines(count: int):
    """Yields, for each of one or two machines, a command prefix that runs a command there. A machine is a set of
    namespaces with its own network and /dev/shm. Two machines are 10.98.76.1 and 10.98.76.2, joined by the
    interfaces cable0 and cable1."""
    if not shutil.which("ip") or not shutil.which("nsenter"):
        raise Skip("ip or nsenter is missing")
    machines = []
    try:
        for _ in range(count):
            machine = subprocess.Popen(["unshare", "--net", "--mount", "sh", "-c",
                                        "mount -t tmpfs none /dev/shm && echo && exec sleep 3600"], stdout=subprocess.PIPE,
                                       stderr=subprocess.DEVNULL)
            machines.append(machine)
            if not machine.stdout.readline():
                raise Skip("unshare --net --mount is not permitted")
        words = [["nsenter", "-t", str(machine.pid), "-n", "-m", "--wd=."] for machine in machines]
        steps = [[*own, "ip", "link", "set", "lo", "up"] for own in words]
        if count == 2:
            steps.append([*words[0], "ip", "link", "add", "cable0", "type", "veth", "peer", "name", "cable1", "netns",
                          str(machines[1].pid)])
            for i, own in enumerate(words):
                steps += [[*own, "ip", "addr", "add", f"10.98.76.{i + 1}/24", "dev", f"cable{i}"],
                          [*own, "ip", "link", "set", f"cable{i}", "up"]]
        for step in steps:
            result = subprocess.run(step, capture_output=True, text=True)
            if result.returncode != 0:
                raise Skip(f"{' '.join(step[4:])}: {result.stderr.strip()}")
        yield words
    finally:
        for machine in machines:
            machine.kill()
            machine.wait()
            machine.stdout.close()


def cgroup_mount(kind: str) -> pathlib.Path | None:
    """Returns where the hierarchy "cgroup2" is mounted, or the one of version 1 with the controller `kind`."""
    for line in pathlib.Path("/proc/self/mounts").read_text().splitlines():
        _, path, system, options, *_ = line.split()
        if system == kind == "cgroup2" or system == "cgroup" and kind in options.split(","):
            return pathlib.Path(path)
    return None


class Cgroup:
    """Makes a cgroup of version 1 with a controller for a test, and removes it at the end."""

    def __init__(self, controller: str, settings: dict[str, str] | None = None):
        mount = cgroup_mount(controller)
        if mount is None:
            raise Skip(f"there is no hierarchy of version 1 with the controller {controller}")
        self.folder = mount / f"ddptest-{os.getpid()}-{next(numbers)}"
        try:
            self.folder.mkdir()
            for name, value in (settings or {}).items():
                (self.folder / name).write_text(value)
        except OSError as error:
            self.__exit__()
            raise Skip(f"the hierarchy of {controller} cannot be written: {error}") from None

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.folder.exists():
            eventually(f"{self.folder} is empty", lambda: not (self.folder / "cgroup.procs").read_text())
            self.folder.rmdir()

    def entered(self) -> list[str]:
        """Returns a command prefix that runs a command in the cgroup."""
        return ["sh", "-ec", f'echo 0 > {self.folder}/cgroup.procs; exec "$@"', "sh"]
