#!/usr/bin/env python3
"""views_test.py BIN_DIR [WORD]: the views of running jobs: ddplaunch top, the progress line and --live."""
import contextlib
import fcntl
import json
import os
import pathlib
import pty
import select
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import termios
import time

from node_rig import BIN, PATIENCE, Hosts, Job, run_tests, until

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests/support"))
from terminal_screen import Screen  # noqa: E402  (it is in another folder)

TRAIN = [BIN / "train_charlm", "--steps=100000", "--checkpoint="]
REPORTS = """
import sys, time
sys.path.insert(0, {bindings!r})
import ddp_page
for step in range(1, 1 << 30):
    ddp_page.progress(step, 10_000_000, loss=1.8421)
    time.sleep(0.01)
"""


@contextlib.contextmanager
def sockets():
    """A directory for the sockets of the jobs of one test."""
    with tempfile.TemporaryDirectory() as folder:
        os.chmod(folder, 0o700)
        yield folder


def top(folder: str, *words: str) -> subprocess.CompletedProcess:
    return subprocess.run([BIN / "ddplaunch", "top", *words], capture_output=True, text=True, timeout=PATIENCE,
                          env={**os.environ, "DDP_SOCKET_DIR": folder, "HOME": folder})


def snapshot(folder: str, *words: str) -> dict:
    done = top(folder, "--once", "--json", *words)
    return json.loads(done.stdout) if done.returncode == 0 else {}


class View:
    """A connection to a running launcher (docs/development/protocol.md, section 9)."""

    def __init__(self, folder: str) -> None:
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.settimeout(PATIENCE)
        self.socket.connect(str(next(pathlib.Path(folder).glob("ddplaunch-*.sock"))))
        self.lines = self.socket.makefile("r", encoding="utf-8")

    def ask(self, want: str, **more: object) -> None:
        self.socket.sendall(json.dumps({"want": want, **more}).encode() + b"\n")

    def answer(self) -> dict:
        return json.loads(self.lines.readline())

    def answer_to(self, want: str, **more: object) -> dict:
        self.ask(want, **more)
        return self.answer()


class Terminal:
    """A job that is started at a terminal, and what its user sees."""

    def __init__(self, *words: object, columns: int = 100, rows: int = 30, **environment: str) -> None:
        self.screen = Screen(columns, rows)
        own, its = pty.openpty()
        fcntl.ioctl(own, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
        self.terminal = own
        self.process = subprocess.Popen(list(map(str, words)), stdin=its, stdout=its, stderr=its, start_new_session=True,
                                        preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),
                                        env={**os.environ, "TERM": "xterm-256color", **environment})
        os.close(its)

    def read(self) -> bool:
        """Returns false at the end."""
        if not select.select([self.terminal], [], [], 0.05)[0]:
            return True
        try:
            data = os.read(self.terminal, 1 << 16)
        except OSError:
            return False
        self.screen.feed(data.decode(errors="replace"))
        return bool(data)

    def text(self) -> str:
        return "\n".join(self.screen.lines())

    def wait_for(self, *texts: str) -> None:
        end = time.monotonic() + PATIENCE
        while not all(text in self.text() for text in texts):
            assert self.read() and time.monotonic() < end, (texts, self.text())

    def end(self) -> int:
        self.process.send_signal(signal.SIGINT)
        while self.read():
            pass
        os.close(self.terminal)
        return self.process.wait(PATIENCE)


def top_shows_all_ranks_of_two_nodes_and_each_node_its_own(hosts: Hosts) -> None:
    with sockets() as first, sockets() as second:
        job = Job(hosts, "--nproc-per-node=2", *TRAIN)
        job.start(1, environment={"DDP_SOCKET_DIR": first})
        job.start(2, environment={"DDP_SOCKET_DIR": second})
        views = {}

        def is_complete() -> bool:
            views.update(all=snapshot(first), own=snapshot(second))
            ranks = views["all"].get("ranks", [])
            return len(ranks) == 4 and all(rank["rss_bytes"] and rank["steps"] > 5 for rank in ranks)

        until(is_complete, views)
        ranks = views["all"]["ranks"]
        if not views["all"]["has_all_ranks"]:  # the second host has become the coordinator
            views = {"all": snapshot(second), "own": snapshot(first)}
            first, second = second, first
            until(is_complete, views)
            ranks = views["all"]["ranks"]
        assert [node["workers"] for node in views["all"]["nodes"]] == [2, 2], views["all"]["nodes"]
        assert len({rank["node"] for rank in ranks}) == 2, ranks
        assert all(rank["collective_name"].startswith("all_reduce") for rank in ranks), ranks
        assert views["all"]["world_size"] == 4 and views["all"]["bytes_per_second"] > 0, views["all"]
        assert not views["own"]["has_all_ranks"] and len(views["own"]["ranks"]) == 2, views["own"]
        view = View(first)
        for rank in range(4):  # also ranks of the other node
            stacks = view.answer_to("stacks", rank=rank)
            assert any("thread" in line for line in stacks["stacks"]["lines"]), stacks
        assert "error" in view.answer_to("output", rank=7), "a rank that does not exist"
        job.launchers[1].terminate()
        job.ends()
        assert not list(pathlib.Path(first).glob("*.sock")), "the socket is left"
        assert "no job" in top(first, "--once").stderr


def eight_views_are_served_and_the_next_one_is_refused_with_a_reason(hosts: Hosts) -> None:
    with sockets() as folder:
        jobs = [subprocess.Popen([BIN / "ddplaunch", f"--rdzv-id=job{i}", "sleep", "100"], stderr=subprocess.DEVNULL,
                                 env={**os.environ, "DDP_SOCKET_DIR": folder}) for i in range(2)]
        until(lambda: len(list(pathlib.Path(folder).glob("*.sock"))) == 2, "no sockets")
        lines = top(folder, "--once").stderr.splitlines()
        assert len(lines) == 4 and "job0" in lines[2] and "job1" in lines[3], lines  # a title, and one line per job
        jobs[1].terminate()
        jobs[1].wait(PATIENCE)
        views = [View(folder) for _ in range(7)]
        assert all("snapshot" in view.answer_to("snapshot") for view in views)
        for _ in range(5):
            # The view before may still have its place for a moment.
            until(lambda: snapshot(folder, "job0"), "no place for the eighth view")
            time.sleep(0.2)
            assert snapshot(folder, "job0"), "a view has taken two places"
            time.sleep(0.2)
        views.append(View(folder))
        assert "snapshot" in views[-1].answer_to("snapshot")
        for words in ([], ["job0"], [str(jobs[0].pid)]):
            done = top(folder, "--once", *words)
            assert done.returncode == 125 and "no place for another view" in done.stderr, done
        jobs[0].terminate()
        jobs[0].wait(PATIENCE)


def a_view_follows_the_output_of_a_rank(hosts: Hosts) -> None:
    with sockets() as folder:
        job = subprocess.Popen([BIN / "ddplaunch", "--nproc-per-node=2", "--redirects=1:3", f"--log-dir={folder}/logs", "sh", "-c",
                                "i=0; while :; do i=$((i+1)); echo rank $RANK line $i; sleep 0.05; done"],
                               stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, env={**os.environ, "DDP_SOCKET_DIR": folder})
        until(lambda: list(pathlib.Path(folder).glob("*.sock")), "no socket")
        for rank in (0, 1):  # the output of rank 1 goes to a file
            view, seen = View(folder), []
            view.ask("output", rank=rank)
            while len(seen) < 20:
                seen += view.answer()["output"]["lines"]
            assert all(line.startswith(f"rank {rank} line ") for line in seen), seen
            numbers = [int(line.split()[-1]) for line in seen]
            assert numbers == list(range(numbers[0], numbers[0] + len(numbers))), seen
        job.terminate()
        assert job.wait(PATIENCE) == -signal.SIGTERM, job.stderr.read()


def other_users_see_nothing(hosts: Hosts) -> None:
    if os.getuid() != 0:
        print("skipped: only root can be another user")
        return
    with sockets() as folder:
        os.chmod(folder, 0o755)  # so that only the launcher's own check is in the way
        job = subprocess.Popen([BIN / "ddplaunch", "sleep", "100"], env={**os.environ, "XDG_RUNTIME_DIR": folder},
                               stderr=subprocess.DEVNULL)
        # A directory of a user that others can enter is refused, and the other one has mode 0700.
        private = pathlib.Path(f"/tmp/ddplaunch-{os.getuid()}")
        until(lambda: list(private.glob(f"ddplaunch-{job.pid}-*.sock")), "no socket")
        assert not list(pathlib.Path(folder).glob("*.sock"))
        path = str(next(private.glob(f"ddplaunch-{job.pid}-*.sock")))
        script = f"import socket; socket.socket(socket.AF_UNIX).connect({path!r})"
        done = subprocess.run(["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", sys.executable, "-c", script],
                              capture_output=True, text=True)
        assert "Permission denied" in done.stderr, done
        job.terminate()
        job.wait(PATIENCE)
        assert not pathlib.Path(path).exists()


def the_progress_of_a_program_is_a_line_below_its_output(hosts: Hosts) -> None:
    with sockets() as folder:
        script = pathlib.Path(folder) / "train.py"
        script.write_text(REPORTS.format(bindings=str(ROOT / "bindings/python")))
        job = Terminal(BIN / "ddplaunch", "--nproc-per-node=2", script, DDP_SOCKET_DIR=folder)
        job.wait_for("/10000000", "loss 1.842", "eta")
        assert snapshot(folder).get("values") == [{"name": "loss", "value": 1.8421}], top(folder, "--once")
        assert job.end() == -signal.SIGINT
        # The traceback of a program that was interrupted in progress() has the word "loss", too.
        assert "loss 1.842" not in job.text() and "rank" in job.text(), job.text()
        quiet = Terminal(BIN / "ddplaunch", "-q", "--nproc-per-node=2", script, DDP_SOCKET_DIR=folder)
        until(lambda: snapshot(folder).get("values"), "no values")
        begin = time.monotonic()
        while time.monotonic() < begin + 2:
            quiet.read()
        assert "loss" not in quiet.text(), quiet.text()
        quiet.end()
        piped = subprocess.Popen([BIN / "ddplaunch", script], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                                 env={**os.environ, "DDP_SOCKET_DIR": folder})
        until(lambda: snapshot(folder).get("values"), "no values")
        piped.terminate()
        out = piped.communicate(timeout=PATIENCE)[0]
        assert "loss" not in out and "\x1b" not in out, out


def live_shows_the_ranks_below_the_output(hosts: Hosts) -> None:
    with sockets() as folder:
        job = Terminal(BIN / "ddplaunch", "--live", "--nproc-per-node=4", *TRAIN, DDP_SOCKET_DIR=folder, NO_COLOR="1")
        job.wait_for("RANK", "STATE", "steps/s")
        rows = [line for line in job.screen.lines() if line.split()[:1] in (["0"], ["1"], ["2"], ["3"], ["*"])]
        assert len(rows) == 4, job.text()
        assert job.end() == -signal.SIGINT
        assert "STATE" not in job.text(), job.text()


def views_use_what_the_terminal_can_show(hosts: Hosts) -> None:
    with sockets() as folder:
        script = pathlib.Path(folder) / "train.py"
        script.write_text(REPORTS.format(bindings=str(ROOT / "bindings/python")))
        ascii = Terminal(BIN / "ddplaunch", "--live", script, DDP_SOCKET_DIR=folder, LC_ALL="C")
        ascii.wait_for("RANK", "computing", ".... step")
        assert ascii.text().isascii(), ascii.text()
        dumb = Terminal(BIN / "ddplaunch", "top", DDP_SOCKET_DIR=folder, TERM="dumb")
        dumb.wait_for("TERM=dumb", "Add --once")
        assert ascii.end() == -signal.SIGINT and dumb.process.wait(PATIENCE) == 125
        dumb = Terminal(BIN / "ddplaunch", "--live", script, DDP_SOCKET_DIR=folder, TERM="dumb")
        dumb.wait_for("Use ddplaunch top")
        until(lambda: snapshot(folder).get("values"), "no values")
        end = time.monotonic() + 2
        while time.monotonic() < end:
            dumb.read()
        assert "RANK" not in dumb.text(), dumb.text()
        dumb.end()


def an_unusable_socket_directory_is_reported(hosts: Hosts) -> None:
    with sockets() as folder:
        os.chmod(folder, 0o755)
        for unusable, why in ((folder, "other users may use"), (f"{folder}/no/such", "No such file or directory")):
            done = top(unusable, "--once")
            assert done.returncode == 125 and "DDP_SOCKET_DIR: " in done.stderr and why in done.stderr, done
            job = subprocess.run([BIN / "ddplaunch", "true"], capture_output=True, text=True, timeout=PATIENCE,
                                 env={**os.environ, "DDP_SOCKET_DIR": unusable})
            assert job.returncode == 0 and "cannot see this job" in job.stderr and why in job.stderr, job


def main() -> None:
    with Hosts(2) as hosts:
        run_tests(hosts, [top_shows_all_ranks_of_two_nodes_and_each_node_its_own,
                          eight_views_are_served_and_the_next_one_is_refused_with_a_reason,
                          a_view_follows_the_output_of_a_rank, other_users_see_nothing,
                          the_progress_of_a_program_is_a_line_below_its_output, live_shows_the_ranks_below_the_output,
                          views_use_what_the_terminal_can_show, an_unusable_socket_directory_is_reported])


if __name__ == "__main__":
    main()
