#!/usr/bin/env python3
"""Tests a job at a terminal: Ctrl-C, Ctrl-Z and fg, progress bars. launched_job.py describes argv."""
import os
import pathlib
import pty
import re
import select
import shutil
import signal
import sys
import termios
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
from launched_job import LAUNCHER, PATIENCE, Cgroup, Job, Skip, eventually, python, run_tests, state_of, test

CTRL_C, CTRL_Z = "\x03", "\x1a"


class Terminal:
    """Opens a terminal and runs a program in its foreground, in a new session. The terminal's output is read on
    demand."""

    def __init__(self):
        self.ours, self.theirs = pty.openpty()
        self.shown = ""

    def __enter__(self):
        return self

    def __exit__(self, *_):
        os.close(self.ours)

    def start(self, *words: str, **options) -> Job:
        """Starts a job whose input and output are this terminal. It takes the options of Job."""
        def take_terminal() -> None:
            os.setsid()
            os.close(os.open(os.ttyname(self.theirs), os.O_RDWR))  # the first terminal that a session opens becomes its controlling terminal
        job = Job(*words, stdin=self.theirs, stdout=self.theirs, stderr=self.theirs, preexec_fn=take_terminal, **options)
        os.close(self.theirs)
        return job

    def type(self, text: str) -> None:
        os.write(self.ours, text.encode())

    def read(self, seconds: float) -> bool:
        """Adds to what is shown. Returns False if the last program has ended and nothing more can come."""
        if not select.select([self.ours], [], [], seconds)[0]:
            return True
        try:
            self.shown += os.read(self.ours, 65536).decode(errors="replace")
            return True
        except OSError:  # a closed terminal ends with this error
            return False

    def wait_for(self, text: str, count: int = 1) -> None:
        deadline = time.monotonic() + PATIENCE
        while self.shown.count(text) < count:
            assert self.read(0.1) and time.monotonic() < deadline, f"no {text!r} on the terminal:\n{self.shown}"

    def wait(self, job: Job) -> int:
        """Reads the terminal until the job ends."""
        def ended() -> bool:
            self.read(0)
            return job.process.poll() is not None
        eventually("the job has ended", ended)
        while select.select([self.ours], [], [], 0)[0] and self.read(0):
            pass
        return job.process.returncode


STUBBORN = "trap 'echo INT!' INT; trap 'echo TERM!' TERM; echo pid $$.; while :; do sleep 0.05; done"


@test("23", "the first Ctrl-C interrupts each worker once and the second one kills")
def two_ctrl_c() -> None:
    with Terminal() as terminal, terminal.start("--grace=1000", "--nproc-per-node=2", "sh", "-c", STUBBORN) as job:
        terminal.wait_for("pid", 2)
        terminal.type(CTRL_C)
        terminal.wait_for("INT!", 2)
        terminal.wait_for("SIGINT: waiting for ranks 0, 1 to exit")
        terminal.type(CTRL_C)
        assert terminal.wait(job) == -signal.SIGINT, terminal.shown
        assert "TERM!" not in terminal.shown and terminal.shown.count("INT!") == 2, terminal.shown
        assert "on a second request" in terminal.shown, terminal.shown
        job.expect_nothing_left()


@test("23", "the third Ctrl-C returns the terminal whatever the workers do")
def three_ctrl_c() -> None:
    with Cgroup("freezer") as group, Terminal() as terminal, \
            terminal.start("--grace=1000", "sh", "-c", "echo pid $$.; exec sleep 1000") as job:
        terminal.wait_for(".\r\n", 1)
        worker = re.search(r"pid (\d+)\.", terminal.shown)[1]
        freezer = group.folder / "freezer.state"
        (group.folder / "cgroup.procs").write_text(worker)
        freezer.write_text("FROZEN")
        try:
            eventually("it is frozen", lambda: freezer.read_text() == "FROZEN\n")
            terminal.type(CTRL_C)
            terminal.wait_for("SIGINT: waiting for rank 0 to exit")
            # Requests close together count as one, and nothing shows that one has been counted. On a busy computer it
            # takes more of them.
            deadline = time.monotonic() + PATIENCE
            while job.process.poll() is None:
                assert time.monotonic() < deadline, terminal.shown
                asked = time.monotonic()
                terminal.type(CTRL_C)
                while time.monotonic() < asked + 0.7 and job.process.poll() is None:
                    terminal.read(0.05)
            terminal.wait(job)
            assert "survives SIGKILL" not in terminal.shown, "it waited for the worker's end"
        finally:
            freezer.write_text("THAWED")
        job.expect_nothing_left()


@test("24", "Ctrl-Z stops the job and its clocks, and fg continues both")
def suspend() -> None:
    if not shutil.which("bash"):
        raise Skip("no bash, whose job control is needed")
    # The program is not a shell: a shell whose child is stopped between vfork and exec waits in state D and never shows
    # T.
    script = ("import os, time\nif os.environ['RANK'] == '0': \n    while not os.path.exists('leave'): time.sleep(0.01)\n    open('left', 'w')\n    os._exit(0)\n"
              "print(f'worker {os.getpid()}.', flush=True)\n"
              "while not os.path.exists('go'): time.sleep(0.01)\nprint('went')")
    with Terminal() as terminal:
        # Job() executes bash, in which the command line is typed.
        line = f"PS1='$ '; {LAUNCHER} --exit-timeout=4 --nproc-per-node=2 --no-python {sys.executable} -c \"$SCRIPT\""
        with terminal.start(via=["bash", "--norc", "--noprofile", "--noediting", "-i"], environment={"SCRIPT": script},
                            launcher=()) as job:
            terminal.type(line + "\n")
            terminal.wait_for("worker ")
            terminal.wait_for(".\r\n")
            worker = int(re.search(r"worker (\d+)\.\r", terminal.shown)[1])
            pathlib.Path(job.path("leave")).touch()
            eventually("rank 0 leaves", lambda: os.path.exists(job.path("left")))
            terminal.type(CTRL_Z)
            terminal.wait_for("Stopped")
            eventually("the worker has stopped", lambda: state_of(worker) == "T")
            stopped = time.monotonic()
            eventually("more than the exit timeout has passed", lambda: time.monotonic() > stopped + 5)
            terminal.type("fg\n")
            eventually("the worker goes on", lambda: state_of(worker) != "T")
            pathlib.Path(job.path("go")).touch()
            terminal.wait_for("went")
            terminal.type("echo code $?.\n")
            terminal.wait_for("code 0.")
            terminal.type("exit\n")
            assert terminal.wait(job) == 0, terminal.shown


def screen(text: str) -> list[str]:
    """Returns the lines that a terminal of unlimited width shows."""
    lines = [""]
    column = 0
    for part in re.split(r"(\r|\n|\x1b\[[0-9;]*[A-Za-z])", text):
        if part == "\r":
            column = 0
        elif part == "\n":
            lines.append("")
        elif part == "\x1b[K":
            lines[-1] = lines[-1][:column]
        elif not part.startswith("\x1b"):
            lines[-1] = lines[-1][:column] + part + lines[-1][column + len(part):]
            column += len(part)
    return lines


PROGRESS = """
assert os.isatty(1)
for i in range(101):
    print(f"\\r{i:3d} %", end="", flush=True)
    time.sleep(0.002)
print(flush=True)
"""


@test("16", "a progress bar stays on its line, and the worker sees a terminal")
def progress_bar() -> None:
    with Terminal() as terminal, terminal.start("-q", *python(PROGRESS)) as job:
        assert terminal.wait(job) == 0, terminal.shown
        assert [line for line in screen(terminal.shown) if line] == ["100 %"], terminal.shown
        assert terminal.shown.count("\r") > 5, terminal.shown


@test("16", "the last state of every rank's progress bar is shown")
def progress_bars() -> None:
    with Terminal() as terminal, terminal.start("-q", "--color=never", "--nproc-per-node=2", *python(PROGRESS)) as job:
        assert terminal.wait(job) == 0, terminal.shown
        lines = screen(terminal.shown)
        for rank in range(2):
            assert any(re.fullmatch(rf"\[{rank}\] +100 %", line) for line in lines), lines


@test("15", "a debugger of a worker that is alone has the terminal")
def debugger() -> None:
    with Terminal() as terminal, terminal.start("-q", *python("x = 6 * 7; breakpoint(); print('after', x)")) as job:
        terminal.wait_for("(Pdb) ")
        terminal.type("p x\n")
        terminal.wait_for("42")
        terminal.type("c\n")
        assert terminal.wait(job) == 0 and "after 42" in terminal.shown, terminal.shown


@test("15", "the echo that a worker has switched off is restored after the failure of another worker")
def echo_after_failure() -> None:
    program = """
if os.environ["RANK"] == "0":
    import termios
    mode = termios.tcgetattr(0)
    mode[3] &= ~(termios.ECHO | termios.ICANON)
    termios.tcsetattr(0, termios.TCSANOW, mode)
    open("changed", "w")
    time.sleep(1000)
while not os.path.exists("changed"): time.sleep(0.01)
sys.exit(7)
"""
    with Terminal() as terminal:
        before = termios.tcgetattr(terminal.theirs)
        with terminal.start("-q", "--stdin=0", "--nproc-per-node=2", *python(program)) as job:
            assert terminal.wait(job) == 7, terminal.shown
            assert os.path.exists(job.path("changed"))
            assert termios.tcgetattr(terminal.ours)[3] == before[3], "the mode is not restored"
            assert before[3] & termios.ECHO


@test("15", "a worker of a job in the background does not read the terminal")
def background() -> None:
    if not shutil.which("bash"):
        raise Skip("no bash, whose job control is needed")
    with Terminal() as terminal:
        with terminal.start(via=["bash", "--norc", "--noprofile", "--noediting", "-i"], launcher=(),
                            environment={"SCRIPT": "import sys; print('got', repr(sys.stdin.readline()), '.')"}) as job:
            terminal.type(f"PS1='$ '; {LAUNCHER} --stdin=0 --no-python {sys.executable} -c \"$SCRIPT\" & wait\n")
            terminal.wait_for("got '' .")
            assert "in the background of its terminal" in terminal.shown, terminal.shown
            terminal.type("echo code $?.\n")
            terminal.wait_for("code 0.")
            terminal.type("exit\n")
            assert terminal.wait(job) == 0, terminal.shown


@test("15", "a job that waits for input does not continue in the background or take input from the shell")
def input_in_the_background() -> None:
    if not shutil.which("bash"):
        raise Skip("no bash, whose job control is needed")
    begin = "import os, sys; print(f'worker {os.getpid()}.', flush=True); "
    scripts = {"a reader": begin + "print('got', repr(sys.stdin.readline()))",
               "a debugger": begin + "breakpoint(); print('got it')"}
    for name, script in scripts.items():
        with Terminal() as terminal:
            with terminal.start(via=["bash", "--norc", "--noprofile", "--noediting", "-i"], launcher=(),
                                environment={"SCRIPT": script}) as job:
                terminal.type(f"PS1='$ '; {LAUNCHER} --no-python {sys.executable} -c \"$SCRIPT\"\n")
                terminal.wait_for("(Pdb) " if name == "a debugger" else ".\r\n")
                worker = int(re.search(r"worker (\d+)\.\r", terminal.shown)[1])
                call = pathlib.Path(f"/proc/{worker}/syscall")
                eventually("the worker waits", lambda: name == "a debugger" or call.read_text().startswith("0 0x0 "))
                terminal.type(CTRL_Z)
                terminal.wait_for("Stopped")
                eventually("the worker has stopped", lambda: state_of(worker) == "T")
                terminal.type("bg\n")
                terminal.wait_for("&\r\n")
                for i in range(6):
                    terminal.type(f"echo letter $((i + {i})).\n")
                    terminal.wait_for(f"letter {i}.")
                assert state_of(worker) == "T", name
                terminal.type("fg\n")
                eventually("the worker continues", lambda: state_of(worker) != "T")
                terminal.type("c\n")
                terminal.wait_for("got ")
                terminal.type("exit\n")
                assert terminal.wait(job) == 0, terminal.shown


if __name__ == "__main__":
    sys.exit(run_tests())
