#!/usr/bin/env python3
"""Tests what a user sees of the lines below the output. footer_terminal.cpp obeys; argv[1] is that program."""
import fcntl
import os
import pathlib
import pty
import select
import struct
import subprocess
import sys
import termios
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
from launched_job import PATIENCE, run_tests, test
from terminal_screen import Screen

ERASED = b"\x1b[J"
PROGRAM = os.path.abspath(sys.argv[1])


class Console:
    """Runs the program with its output on a terminal, and interprets what the terminal gets."""

    def __init__(self, columns: int = 40, rows: int = 8, stdout=None):
        self.ours, theirs = pty.openpty()
        self.screen = Screen(columns, rows)
        self.bytes = b""
        self.set_size(columns, rows)
        self.process = subprocess.Popen([PROGRAM], stdin=subprocess.PIPE, stdout=stdout or theirs, stderr=theirs)
        os.close(theirs)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        os.close(self.ours)

    def set_size(self, columns: int, rows: int) -> None:
        fcntl.ioctl(self.ours, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def does(self, *commands: str) -> None:
        self.process.stdin.write("".join(command + "\n" for command in commands).encode())
        self.process.stdin.flush()

    def read(self, seconds: float) -> bool:
        """Returns False if nothing more can come."""
        if not select.select([self.ours], [], [], seconds)[0]:
            return True
        try:
            data = os.read(self.ours, 65536)
        except OSError:  # a closed terminal ends with this error
            return False
        self.bytes += data
        self.screen.feed(data.decode())
        return True

    def shows(self, *lines: str) -> None:
        """Waits until the terminal shows exactly these lines."""
        deadline = time.monotonic() + PATIENCE
        while self.screen.lines() != list(lines):
            is_open = self.read(0.1)
            assert is_open and time.monotonic() < deadline, f"expected {list(lines)}, not {self.screen.lines()}\n{self.bytes!r}"

    def cursor_is_at(self, row: int, column: int) -> None:
        assert (self.screen.row, self.screen.column) == (row, column), (self.screen.row, self.screen.column)

    def ends_with(self, *lines: str) -> None:
        self.process.stdin.close()
        while self.read(PATIENCE):
            pass
        assert self.process.wait() == 0
        assert self.screen.lines() == list(lines), self.screen.lines()


@test("16", "the footer stays below the output, and is gone at the end")
def below() -> None:
    with Console() as console:
        console.does("footer step 1|eta 7 min")
        console.shows("step 1", "eta 7 min")
        console.cursor_is_at(0, 0)
        console.does(r"out a\n", r"err b\n")
        console.shows("a", "b", "step 1", "eta 7 min")
        console.cursor_is_at(2, 0)
        console.does("footer step 2")
        console.shows("a", "b", "step 2")
        console.does("footer")
        console.shows("a", "b")
        console.does("footer step 3")
        console.shows("a", "b", "step 3")
        console.ends_with("a", "b")


@test("16", "output that scrolls loses no line and keeps nothing of the footer")
def scrolls() -> None:
    with Console(rows=5) as console:
        console.does("footer one|two")
        lines = [f"line {i}" for i in range(50)]
        for line in lines:
            console.does(rf"out {line}\n")
        console.shows(*lines, "one", "two")
        console.ends_with(*lines)


@test("16", "an unfinished line and a progress bar keep their place above the footer")
def unfinished() -> None:
    with Console() as console:
        console.does("footer below", "out name? ")
        console.shows("name?", "below")
        console.cursor_is_at(0, 6)
        console.does(r"out Ann\n")
        console.shows("name? Ann", "below")
        for percent in range(0, 101, 10):
            console.does(rf"out {percent:3d} %\r")
        console.shows("name? Ann", "100 %", "below")
        console.does(r"out 1 \e[32m%\e[0m ", "footer other")
        console.shows("name? Ann", "1 % %", "other")
        console.does(r"out \n")
        console.shows("name? Ann", "1 % %", "other")
        console.ends_with("name? Ann", "1 % %")


@test("16", "lines of the launcher stand above the footer")
def own_lines() -> None:
    with Console() as console:
        console.does("footer below", r"out a\n", "own ddplaunch: b", "own ddplaunch: c", r"out d\n")
        console.shows("a", "ddplaunch: b", "ddplaunch: c", "d", "below")
        console.does("out half")
        console.shows("a", "ddplaunch: b", "ddplaunch: c", "d", "half", "below")
        console.does("own ddplaunch: e")
        console.shows("a", "ddplaunch: b", "ddplaunch: c", "d", "half", "ddplaunch: e", "below")


@test("16", "the footer is cut to the terminal, and follows its size")
def resize() -> None:
    with Console(columns=20, rows=4) as console:
        console.does(r"out a\n", "footer 0123456789abcdefghijXYZ|日本語日本語日本語日本|3|4|5")
        console.shows("a", "0123456789abcdefghij", "日本語日本語日本語日", "3")
        console.screen.resize(10, 4)
        console.set_size(10, 4)
        console.does("resize")
        console.shows("a", "0123456789", "日本語日本", "3")
        console.screen.resize(30, 6)
        console.set_size(30, 6)
        console.does("resize")
        console.shows("a", "0123456789abcdefghijXYZ", "日本語日本語日本語日本", "3", "4", "5")


@test("16", "a program that moves the cursor itself gets the terminal without a footer")
def full_screen() -> None:
    with Console() as console:
        console.does("footer below", r"out bar 1\nbar 2\n")
        console.shows("bar 1", "bar 2", "below")
        console.does(r"out \e[1A\e[KBAR 2\n")
        console.shows("bar 1", "BAR 2")
        console.does("footer other", r"out c\n")
        console.shows("bar 1", "BAR 2", "c")
        console.ends_with("bar 1", "BAR 2", "c")
        assert b"other" not in console.bytes


@test("24", "the footer is gone while the job is stopped, and comes back with it")
def pause() -> None:
    with Console() as console:
        console.does(r"out a\n", "footer below")
        console.shows("a", "below")
        console.does("pause")
        console.shows("a")
        console.does("footer below", r"out b\n")
        console.shows("a", "b")
        console.does("resume", "footer below")
        console.shows("a", "b", "below")


@test("16", "output that tee shows on the same terminal is not mixed with the footer")
def tee() -> None:
    reads, writes = os.pipe()
    with Console(stdout=writes) as console:
        os.close(writes)
        console.does("footer below")
        console.shows("below")
        shown = []
        for line in ("a", "b", "c"):
            console.does(rf"out {line}\n")
            data = b""
            while ERASED not in data:
                data += os.read(console.ours, 65536)
            erased, rest = data.split(ERASED, 1)
            # tee gets the line after the footer was erased, and long before it is drawn again.
            text = erased + ERASED + os.read(reads, 100).replace(b"\n", b"\r\n") + rest
            console.screen.feed(text.decode())
            shown.append(line)
            console.shows(*shown, "below")
        os.close(reads)


@test("16", "no byte of the footer is written to a pipe")
def pipe() -> None:
    script = "footer below\nout a\\n\nout half\nerr b\\n\n"
    done = subprocess.run([PROGRAM], input=script.encode(), capture_output=True, check=True)
    assert (done.stdout, done.stderr) == (b"a\nhalf", b"b\n"), done


@test("16", "while much is printed, the footer is drawn ten times per second at most")
def rate() -> None:
    with Console(rows=24) as console:
        console.does("footer below")
        console.shows("below")
        begin = time.monotonic()
        for i in range(3000):
            console.does(rf"out {i}\n")
            console.read(0)
        console.shows(*map(str, range(3000)), "below")
        allowed = 10 * (time.monotonic() - begin) + 2
        drawn = console.bytes.count(b"below")
        assert 2 <= drawn <= allowed, (drawn, allowed)


if __name__ == "__main__":
    sys.exit(run_tests())
