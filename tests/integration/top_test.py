#!/usr/bin/env python3
"""Tests `ddplaunch top` at a terminal, with a launcher that this test replaces. argv[1] is ddplaunch."""
import contextlib
import errno
import fcntl
import json
import os
import pathlib
import pty
import re
import select
import shutil
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import termios
import threading
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
from launched_job import LAUNCHER, PATIENCE, Skip, eventually, run_tests, state_of, test  # noqa: E402
from screen import Screen  # noqa: E402


def rank(number: int, **more) -> dict:
    return {"rank": number, "node": f"node{number // 4}", "pid": 5000 + number, "gpu": str(number % 4),
            "state": "computing", "phase": "", "steps": 1200, "steps_per_second": 12.5, "computing": 0.6,
            "collective": 0.25, "waiting": 0.1, "in_phase": 0.05, "waited_for": 0,
            "collective_name": "all_reduce sum f32[72]", "collective_number": 2400, "collective_age_seconds": 0.02,
            "cpus": 1.04, "rss_bytes": 3 << 30, "gpu_use": None, "gpu_memory_bytes": None, "output_age_seconds": 4, **more}


def snapshot(**more) -> dict:
    return {"schema": 1, "version": "1.2.3", "run_id": "night-run", "program": "python 训练.py --epochs 3",
            "node": "node0", "launcher_pid": os.getpid(), "preloader_pid": 0, "attempt": 0, "max_restarts": 3, "restored_step": None,
            "uptime_seconds": 3725,
            "attempt_uptime_seconds": 3725, "world_size": 8, "has_all_ranks": True, "step": 1200,
            "total_steps": 10000, "steps_per_second": 12.5, "eta_seconds": 704, "values": [{"name": "loss", "value": 1.8421}],
            "curves": [{"name": "loss", "mean": [2.5, None, 1.5], "least": [2, None, 1], "most": [3, None, 2]}],
            "bytes_per_second": 1.5e9, "stalls": 0, "stall": "", "stall_seconds": 0, "culprits": [],
            "nodes": [{"name": "node0", "first_rank": 0, "workers": 4}, {"name": "node1", "first_rank": 4, "workers": 4}],
            "ranks": [rank(i) for i in range(8)], **more}


class FakeLauncher:
    """Serves a job at a socket, as docs/development/protocol.md describes it."""

    def __init__(self, folder: str, pid: int, **more):
        self.job = snapshot(**more)
        self.path = f"{folder}/ddplaunch-{pid}.sock"
        self.requests: list[dict] = []
        self.garbage = b""  # sent before each answer
        self.followers: list[socket.socket] = []
        self.clients: list[socket.socket] = []
        self.listener = socket.socket(socket.AF_UNIX)
        self.listener.bind(self.path)
        self.listener.listen()
        self.threads = [threading.Thread(target=self.accept, daemon=True)]
        self.threads[0].start()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.end()

    def end(self) -> None:
        with contextlib.suppress(OSError):
            self.listener.shutdown(socket.SHUT_RDWR)
        self.listener.close()
        for client in self.clients:
            with contextlib.suppress(OSError):
                client.shutdown(socket.SHUT_RDWR)
        pathlib.Path(self.path).unlink(missing_ok=True)

    def accept(self) -> None:
        while True:
            try:
                client, _ = self.listener.accept()
            except OSError:
                return
            self.clients.append(client)
            threading.Thread(target=self.serve, args=[client], daemon=True).start()

    def serve(self, client: socket.socket) -> None:
        with contextlib.suppress(OSError):
            for line in client.makefile("r"):
                self.requests.append(json.loads(line))
                for answer in self.answers(self.requests[-1], client):
                    client.sendall(answer if isinstance(answer, bytes) else json.dumps(answer).encode() + b"\n")

    def answers(self, request: dict, client: socket.socket):
        if self.garbage:
            yield self.garbage
        if request["want"] == "snapshot":
            yield {"snapshot": self.job}
        elif request["want"] == "stacks":
            number = request["rank"]
            yield {"stacks": {"rank": number, "lines": [f"thread 1 of rank {number}", "  load_batch (data.py:41)"]}}
        elif request["want"] == "output":
            self.followers.append(client)
            yield {"output": {"rank": request["rank"], "lines": ["epoch 1", "\x1b[31mred\x1b[0m \x07"]}}

    def print(self, number: int, line: str) -> None:
        for client in self.followers:
            client.sendall(json.dumps({"output": {"rank": number, "lines": [line]}}).encode() + b"\n")

    def stall(self, culprit: int) -> None:
        ranks = [rank(i, state="computing" if i == culprit else "waiting", waited_for=float(i == culprit)) for i in range(8)]
        self.job = snapshot(stalls=1, culprits=[culprit], stall=f"ranks wait for rank {culprit}", stall_seconds=45, ranks=ranks)


@contextlib.contextmanager
def folders(mode: int = 0o700):
    """Yields a runtime directory for the sockets."""
    with tempfile.TemporaryDirectory(prefix="top", dir="/tmp") as folder:
        os.chmod(folder, mode)
        yield folder


def variables(folder: str, **more: str) -> dict[str, str]:
    clean = {name: value for name, value in os.environ.items() if name not in ("NO_COLOR", "COLUMNS", "LC_ALL", "LC_CTYPE")}
    return {**clean, "DDP_SOCKET_DIR": folder, "TERM": "xterm-256color", "LANG": "C.UTF-8", **more}


def ls(folder: str, *words: str) -> subprocess.CompletedProcess:
    return subprocess.run([LAUNCHER, "ls", *words], capture_output=True, text=True, timeout=PATIENCE, env=variables(folder))


def top(folder: str, *words: str, via=(), **more: str) -> subprocess.CompletedProcess:
    return subprocess.run([*via, LAUNCHER, "top", *words], capture_output=True, text=True, timeout=PATIENCE,
                          env=variables(folder, **more))


class Top:
    """Runs `ddplaunch top` in the foreground of a terminal, and interprets what it writes."""

    def __init__(self, folder: str, *words: str, columns: int = 80, rows: int = 24, **more: str):
        self.ours, theirs = pty.openpty()
        self.path = os.ttyname(theirs)
        self.set_size(columns, rows)
        self.before = termios.tcgetattr(theirs)
        self.screen = Screen(columns, rows)
        self.raw = b""

        def take_terminal() -> None:
            os.setsid()
            os.close(os.open(self.path, os.O_RDWR))
        self.process = subprocess.Popen([LAUNCHER, "top", *words], stdin=theirs, stdout=theirs, stderr=theirs,
                                        env=variables(folder, **more), preexec_fn=take_terminal)
        self.theirs = theirs  # keeps the terminal's attributes after the end of the program

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        os.close(self.ours)
        os.close(self.theirs)

    def set_size(self, columns: int, rows: int) -> None:
        fcntl.ioctl(self.ours, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def type(self, text: str) -> None:
        os.write(self.ours, text.encode())

    def read(self, seconds: float = 0.05) -> None:
        if not select.select([self.ours], [], [], seconds)[0]:
            return
        try:
            self.raw += os.read(self.ours, 65536)
        except OSError as error:
            if error.errno != errno.EIO:
                raise
        text = self.raw.decode(errors="ignore") if self.raw[-1:] < b"\x80" else ""
        if text:
            self.screen.show(text)
            self.raw = b""

    def wait_for(self, text: str, gone: bool = False) -> None:
        deadline = time.monotonic() + PATIENCE
        while (text in self.screen.text()) == gone:
            assert self.process.poll() is None, f"it has ended: {self.screen.main}"
            assert time.monotonic() < deadline, f"{text!r} {'stays' if gone else 'is not'} on:\n{self.screen.text()}"
            self.read()

    def wait(self) -> int:
        deadline = time.monotonic() + PATIENCE
        while self.process.poll() is None:
            self.read()
            assert time.monotonic() < deadline, self.screen.text()
        while select.select([self.ours], [], [], 0)[0]:
            before = len(self.raw), len(self.screen.main)
            self.read(0)
            if (len(self.raw), len(self.screen.main)) == before:
                break
        return self.process.returncode

    def is_restored(self) -> None:
        assert not self.screen.is_alternate and self.screen.has_cursor and self.screen.wraps, vars(self.screen)
        assert termios.tcgetattr(self.theirs) == self.before


@test("top", "the screen shows the job and its ranks, and q restores the terminal")
def screen_and_quit() -> None:
    with folders() as folder, FakeLauncher(folder, 7) as launcher, Top(folder) as view:
        view.wait_for("night-run  python 训练.py --epochs 3")
        view.wait_for("q quit")
        text = view.screen.text()
        for expected in ("step 1200/10000 (12%)", "loss 1.842", "8 ranks on 2 nodes", "    0 node0 computing", "    7 node1"):
            assert expected in text, text
        assert view.screen.is_alternate and not view.screen.has_cursor
        assert "32" in view.screen.styles, view.screen.styles
        launcher.job["step"] = 1300
        view.wait_for("step 1300/10000")
        view.type("q")
        assert view.wait() == 0
        view.is_restored()


@test("top", "the culprit of a stall comes first, and has a mark without colours")
def culprit() -> None:
    with folders() as folder, FakeLauncher(folder, 7) as launcher:
        launcher.stall(5)
        with Top(folder, "--no-color") as view:
            view.wait_for("STALL for 45.0 s: ranks wait for rank 5")
            lines = view.screen.lines()
            title = next(i for i, line in enumerate(lines) if "RANK NODE" in line)
            assert lines[title + 1].startswith(" !    5 node1 computing"), view.screen.text()
            assert view.screen.styles <= {"0"}, view.screen.styles


@test("top", "keys sort, filter, pause, select, and show stacks, output and help")
def keys() -> None:
    with folders() as folder, FakeLauncher(folder, 7) as launcher, Top(folder) as view:
        view.wait_for("sort: auto")
        view.type("s")
        view.wait_for("sort: rank")
        view.type("/node1\r")
        view.wait_for("filter: node1")
        view.wait_for(" 0 node0", gone=True)
        view.type("\x1b[B\x1b[B")
        view.wait_for(">     5 computing")
        view.type("t")
        view.wait_for("stacks of rank 5")
        view.wait_for("load_batch (data.py:41)")
        view.type("\x1b")
        view.wait_for("RANK STATE")
        view.type("f")
        view.wait_for("output of rank 5")
        view.wait_for("epoch 1")
        launcher.print(5, "epoch 2")
        view.wait_for("epoch 2")
        view.type("\x1b")
        eventually("the output is not followed any more", lambda: {"want": "no_output"} in launcher.requests)
        view.wait_for("RANK STATE")
        view.type("h")
        view.wait_for("select a rank")
        view.type("h")
        view.wait_for("RANK STATE")
        view.type("p")
        view.wait_for("PAUSED")
        count = len(launcher.requests)
        launcher.job["step"] = 1999
        view.type("s")
        view.wait_for("sort: state")
        assert len(launcher.requests) <= count + 1 and "step 1999" not in view.screen.text()
        view.type("p")
        view.wait_for("step 1999")
        assert {"want": "stacks", "rank": 5} in launcher.requests, launcher.requests


@test("top", "the frame follows the size of the terminal, down to one column")
def resize() -> None:
    with folders() as folder, FakeLauncher(folder, 7), Top(folder) as view:
        view.wait_for("q quit")
        view.screen.is_strict = False  # a frame that was written before the change comes after it
        for columns, rows, expected in ((200, 60, "LAST COLLECTIVE"), (40, 10, "RANK"), (1, 1, ""), (13, 4, "night"), (80, 24, "q quit")):
            view.set_size(columns, rows)
            view.screen.resize(columns, rows)
            view.process.send_signal(signal.SIGWINCH)
            view.type("\f")
            view.wait_for(expected)


@test("top", "each exit that can be caught restores the terminal")
def ends() -> None:
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT, signal.SIGSEGV, signal.SIGABRT):
        with folders() as folder, FakeLauncher(folder, 7), Top(folder) as view:
            view.wait_for("q quit")
            view.process.send_signal(number)
            code = view.wait()
            assert code == (-number if number in (signal.SIGSEGV, signal.SIGABRT) else 0), (number, code)
            view.is_restored()
    with folders() as folder, FakeLauncher(folder, 7) as launcher, Top(folder) as view:
        view.wait_for("q quit")
        launcher.end()
        assert view.wait() == 0
        view.is_restored()
        assert "the job has ended" in view.screen.main, view.screen.main
    with folders() as folder, FakeLauncher(folder, 7), Top(folder) as view:
        view.wait_for("q quit")
        view.type("\x03")
        assert view.wait() == 0
        view.is_restored()


@test("top", "Ctrl-Z restores the terminal, and SIGCONT draws the screen again")
def stop_and_continue() -> None:
    with folders() as folder, FakeLauncher(folder, 7), Top(folder) as view:
        view.wait_for("q quit")
        view.type("\x1a")
        eventually("the view is stopped", lambda: state_of(view.process.pid) == "T")
        while view.screen.is_alternate:
            view.read()
        view.is_restored()
        view.process.send_signal(signal.SIGCONT)
        view.wait_for("q quit")
        assert view.screen.is_alternate and not view.screen.has_cursor
        view.type("q")
        assert view.wait() == 0
        view.is_restored()


@test("top", "a blocked terminal loses frames and shows the latest one later")
def slow_terminal() -> None:
    with folders() as folder, FakeLauncher(folder, 7) as launcher, Top(folder, "--interval=0.1", columns=200, rows=60) as view:
        view.wait_for("q quit")
        for step in range(2000, 2030):  # the terminal is not read, and holds about 4 KiB
            launcher.job["step"] = step
            launcher.job["ranks"] = [rank(i, steps=step, node=f"node{step}") for i in range(8)]
            view.process.send_signal(signal.SIGWINCH)  # every frame is complete
            count = len(launcher.requests)
            eventually("the next request", lambda: len(launcher.requests) > count)
        view.wait_for("step 2029")
        view.type("q")
        assert view.wait() == 0
        view.is_restored()


@test("top", "garbage from the launcher does no harm")
def garbage() -> None:
    with folders() as folder, FakeLauncher(folder, 7) as launcher, Top(folder, "--interval=0.1") as view:
        view.wait_for("q quit")
        evil = "\\u001b[2J\\u001b]0;x\\u0007\\n"
        for bad in ("", "\xff", "{}", "[1]", "null", "[" * 100_000, '{"snapshot":{"schema":9}}', f'{{"error":"{evil}"}}',
                    '{"stacks":{"rank":77,"lines":["x"]}}', f'{{"output":{{"rank":0,"lines":["{evil}"]}}}}',
                    f'{{"snapshot":{{"schema":1,"run_id":"{evil}","ranks":[{{"node":"{evil}"}},{{"rank":-5,"steps":1e99}}]}}}}'):
            launcher.garbage = bad.encode("latin1") + b"\n"
            count = len(launcher.requests)
            while len(launcher.requests) < count + 3:
                view.read()
            launcher.garbage = b""
            view.wait_for("python 训练.py")
            assert view.process.poll() is None
        view.type("q")
        assert view.wait() == 0
        view.is_restored()


@test("top", "a launcher that refuses the view is quoted")
def refusal() -> None:
    for answer in (b'{"error":"no place for another view"}\n', b""):
        with folders() as folder, FakeLauncher(folder, 7) as launcher, Top(folder, launcher.path) as view:
            def refuse(_: dict, client: socket.socket):
                client.sendall(answer)
                client.shutdown(socket.SHUT_RDWR)
                return []
            launcher.answers = refuse
            code = view.wait()
            view.is_restored()
            if code == 125:  # otherwise the view was faster than this test, and has seen the job
                assert "no place for another view" in view.screen.main or not answer, view.screen.main


@test("top", "the option --once prints lines, and --json prints the document")
def once() -> None:
    with folders() as folder, FakeLauncher(folder, 7) as launcher:
        result = top(folder, "--once")
        assert result.returncode == 0 and not result.stderr, result
        assert "\x1b" not in result.stdout and "    0 node0 computing" in result.stdout, result.stdout
        assert max(map(len, result.stdout.splitlines())) <= 100
        narrow = top(folder, "--once", "--filter=3,5", COLUMNS="40").stdout
        assert max(map(len, narrow.splitlines())) <= 40 and "   3 computing" in narrow and "   4 " not in narrow, narrow
        document = json.loads(top(folder, "--once", "--json").stdout)
        assert document == json.loads(json.dumps(launcher.job)), document
        with subprocess.Popen([LAUNCHER, "top", "--json", "--interval=0.1"], stdout=subprocess.PIPE, text=True,
                              env=variables(folder)) as stream:
            for _ in range(3):
                assert json.loads(stream.stdout.readline())["run_id"] == "night-run"
            launcher.end()
            stream.stdout.read()
            assert stream.wait() == 0
    with folders() as folder, FakeLauncher(folder, 7):
        reader = subprocess.run(f"{LAUNCHER} top --json --interval=0.1 | head -n 2", shell=True, capture_output=True,
                                text=True, env=variables(folder), timeout=PATIENCE)
        assert len(reader.stdout.splitlines()) == 2 and not reader.stderr, reader


@test("top", "the members of the JSON document are those of the manual")
def documented() -> None:
    page = (pathlib.Path(__file__).resolve().parents[2] / "docs/reference/top.md").read_text()
    table = page[page.index("## JSON"):]
    listed = {word for line in table.splitlines() if line.startswith("| `") for word in line.split("|")[1].replace("`", "").replace(",", " ").split()}
    with folders() as folder, FakeLauncher(folder, 7):
        document = json.loads(top(folder, "--once", "--json").stdout)
    members = {*document, *document["values"][0], *document["curves"][0], *document["nodes"][0], *document["ranks"][0]}
    assert members == listed, sorted(members ^ listed)


@test("ls", "the running jobs are listed, and the members of the JSON document are those of the manual")
def listed() -> None:
    page = (pathlib.Path(__file__).resolve().parents[2] / "docs/reference/top.md").read_text()
    table = page[page.index("## The list of jobs"):page.index("## The screen")]
    documented = {line.split("`")[1] for line in table.splitlines() if line.startswith("| `")}
    with folders() as folder:
        assert ls(folder).stdout == "No job of this user is running on this node.\n"
        assert json.loads(ls(folder, "--json").stdout) == {"schema": 1, "jobs": []}
        with FakeLauncher(folder, 7), FakeLauncher(folder, 8, run_id="other", stall="ranks wait for rank 1") as stalled:
            lines = ls(folder).stdout.splitlines()
            assert [line.split()[:2] for line in lines] == [["PID", "RUN"], ["7", "night-run"], ["8", "other"]], lines
            assert lines[1].split()[2:6] == ["8", "2", "1h02m", "running"] and "stalled" in lines[2], lines
            document = json.loads(ls(folder, "--json").stdout)
            assert {*document, *document["jobs"][0]} == documented, (document, documented)
            assert [(job["pid"], job["run_id"], job["state"]) for job in document["jobs"]] == [
                (7, "night-run", "running"), (8, "other", "stalled")], document
            stalled.answers = lambda *_: []
            assert "does not answer" in ls(folder).stdout
        with subprocess.Popen([LAUNCHER, "-q", "--rdzv-id=real", "sleep", "100"], env=variables(folder)) as job:
            eventually("the job in the list", lambda: re.search(" real .* running ", ls(folder).stdout))
            row = next(line for line in ls(folder).stdout.splitlines() if " real " in line).split()
            assert row[0] == str(job.pid) and row[2:4] == ["1", "1"] and row[5:] == ["running", "sleep", "100"], row
            job.kill()  # the guardian cannot remove the socket
        eventually("the end of the job", lambda: " real " not in ls(folder).stdout)


@test("ls", "a directory of other users is not used, and an unknown argument is refused")
def refused() -> None:
    with folders(0o777) as folder:
        result = ls(folder)
        assert result.returncode == 125 and "Forbid it with chmod 700" in result.stderr, result
        result = ls(folder, "x")
        assert result.returncode == 2 and "ddplaunch ls lists all jobs. Remove 'x'." in result.stderr, result


@test("top", "a job is found by pid or run id, and several jobs are listed")
def search() -> None:
    with folders() as folder:
        none = top(folder, "--once")
        assert none.returncode == 125 and "no job of this user is running on this node" in none.stderr, none
        with FakeLauncher(folder, 7), FakeLauncher(folder, 8, run_id="other"):
            several = top(folder, "--once")
            assert several.returncode == 125 and "several jobs are running. Name one of them: ddplaunch top PID" in several.stderr, several
            assert "  7    night-run  8      2" in several.stderr and "  8    other " in several.stderr, several
            assert "\n other  python" in "\n" + top(folder, "--once", "other").stdout
            assert "\n night-run  python" in "\n" + top(folder, "7", "--once").stdout
            assert "\n other  python" in "\n" + top(folder, "--once", f"{folder}/ddplaunch-8.sock").stdout
            wrong = top(folder, "--once", "third")
            assert wrong.returncode == 125 and "no running job is named 'third'" in wrong.stderr, wrong


@test("top", "the socket of a killed launcher is removed, and a directory of other users is not used")
def stale() -> None:
    with folders() as folder:
        job = subprocess.Popen([LAUNCHER, "-q", "sleep", "100"], env=variables(folder))
        left = eventually("a socket", lambda: next(pathlib.Path(folder).glob("ddplaunch-*.sock"), None))
        job.terminate()
        job.wait(PATIENCE)
        with socket.socket(socket.AF_UNIX) as listener:
            listener.bind(str(left))
        with FakeLauncher(folder, os.getpid()):
            assert top(folder, "--once").returncode == 0
        assert not left.exists()
    with folders(0o777) as folder, FakeLauncher(folder, 7):
        result = top(folder, "--once")
        assert result.returncode == 125 and "Forbid it with chmod 700" in result.stderr, result


@test("top", "another user cannot connect")
def other_user() -> None:
    if os.geteuid() != 0 or not shutil.which("setpriv"):
        raise Skip("only root can become another user, with setpriv")
    nobody = ("setpriv", "--reuid=65534", "--regid=65534", "--clear-groups")
    with folders() as folder, FakeLauncher(folder, 7) as launcher:
        result = top(folder, "--once", via=nobody)
        assert result.returncode == 125 and "belongs to another user" in result.stderr, result
        os.chmod(folder, 0o755)
        os.chmod(launcher.path, 0o777)
        result = top(folder, "--once", launcher.path, via=nobody)
        # The launcher here is root's, which a view accepts. A launcher refuses other users: see view_server_test.cpp.
        assert result.returncode == 0, result


@test("top", "without a terminal, the message says what to do")
def no_terminal() -> None:
    with folders() as folder, FakeLauncher(folder, 7):
        result = top(folder)
        assert result.returncode == 125 and "the standard output is no terminal. Add --once." in result.stderr, result
        assert "\x1b" not in result.stdout


@test("top", "a launcher that does not answer is reported")
def silent_launcher() -> None:
    with folders() as folder, FakeLauncher(folder, 7) as launcher:
        launcher.answers = lambda *_: []
        with FakeLauncher(folder, 8):
            several = top(folder, "--once")
            assert re.search("  7 .* does not answer", several.stderr), several
        with Top(folder, "7") as view:
            view.wait_for("waiting for the launcher")
            view.wait_for("no news for")
            view.type("q")
            assert view.wait() == 0
            view.is_restored()


if __name__ == "__main__":
    sys.exit(run_tests())
