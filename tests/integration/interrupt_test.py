"""interrupt_test.py BIN: tests that Ctrl-C works as Python programs expect. The test sends SIGINT to ddplaunch
instead of the key."""
import os
import pathlib
import signal
import socket
import subprocess
import sys
import tempfile
import time

BIN = pathlib.Path(sys.argv[1]).resolve()
SAVES = """
import atexit, os, pathlib, sys, time
done = pathlib.Path(sys.argv[1])
atexit.register(lambda: (done / ("atexit" + os.environ["RANK"])).touch())
try:
    (done / ("ready" + os.environ["RANK"])).touch()
    time.sleep(60)
except KeyboardInterrupt:
    time.sleep(1)
    (done / ("saved" + os.environ["RANK"])).touch()
    raise
"""


def wait_for_line(process, text):
    """Reads the process's lines up to one with this text."""
    lines = []
    while not lines or text not in lines[-1]:
        line = process.stdout.readline()
        assert line, f"it ended without {text!r}: {lines}"
        lines.append(line)


class Job:
    """Runs the command `words`. In it, FOLDER is replaced by a folder for the workers' files, and SAVES by a script
    that saves."""

    def __init__(self, name, words, *options, program="ddplaunch"):
        self.name = name
        self.folder = tempfile.TemporaryDirectory()
        self.path = pathlib.Path(self.folder.name)
        (self.path / "saves.py").write_text(SAVES)
        words = [word.replace("FOLDER", str(self.path)).replace("SAVES", str(self.path / "saves.py")) for word in words]
        launcher = self.path / program
        launcher.symlink_to(BIN / "ddplaunch")
        self.process = subprocess.Popen([str(launcher), "--nproc-per-node=2", *options, *words], text=True,
                                        stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        deadline = time.monotonic() + 30
        while not all((self.path / f"ready{rank}").exists() for rank in range(2)):
            assert time.monotonic() < deadline and self.process.poll() is None, self.output()
            time.sleep(0.02)
        time.sleep(0.2)  # the worker sleeps by then

    def output(self):
        self.process.kill()
        return self.process.communicate()[0]

    def says(self, text):
        """Waits until the launcher prints a line with this text. The output of ends() begins after it."""
        wait_for_line(self.process, text)
        return self

    def interrupt(self):
        self.begun = time.monotonic()
        self.process.send_signal(signal.SIGINT)
        return self

    def ends(self, saved, least, most=20):  # the grace is 30 s if none is given
        output = self.process.communicate(timeout=60)[0]
        took = time.monotonic() - self.begun
        assert self.process.returncode == -signal.SIGINT, (self.name, self.process.returncode, output)
        for what in ("saved", "atexit"):
            left = sum((self.path / f"{what}{rank}").exists() for rank in range(2))
            assert left == (2 if saved else 0), f"{self.name}: {left} have {what}\n{output}"
        assert least <= took <= most, f"{self.name}: it took {took:.1f} s\n{output}"
        print(f"{self.name}: ok", flush=True)
        return output


assert "(SIGINT, gone in" in Job("a script saves", ["SAVES", "FOLDER"]).interrupt().ends(True, 0.9)
Job("under torchrun's name", ["SAVES", "FOLDER"], program="torchrun").interrupt().ends(True, 0.9)
Job("behind a shell", ["bash", "-c", "python3 SAVES FOLDER; exit $?"]).interrupt().ends(True, 0.9)
# The wrapper dies immediately, and the program that it has started saves for a second.
WRAPPER = "import subprocess, signal, sys; signal.signal(signal.SIGINT, signal.SIG_DFL); subprocess.run([sys.executable, 'SAVES', 'FOLDER'])"
Job("behind a wrapper that ends first", ["python3", "-c", WRAPPER]).interrupt().ends(True, 0.9)
output = Job("one that ignores SIGINT gets SIGTERM after the grace",
             ["sh", "-c", "trap '' INT; touch FOLDER/ready$RANK; exec sleep 60"], "--grace=1").interrupt().ends(False, 0.9)
assert "(SIGINT, then SIGTERM, gone in" in output, output
output = Job("one that ignores both is killed after two graces",
             ["sh", "-c", "trap '' INT TERM; touch FOLDER/ready$RANK; while :; do sleep 60; done"],
             "--grace=1").interrupt().ends(False, 1.9)
assert "(SIGINT, then SIGTERM, then SIGKILL after the grace period of 1.0 s, gone in" in output, output
job = Job("a second Ctrl-C ends at once", ["sh", "-c", "trap '' INT TERM; touch FOLDER/ready$RANK; while :; do sleep 60; done"])
# Signals within half a second are one request. The launcher prints this line later than that.
job.interrupt().says("a second request sends SIGKILL at once")
job.process.send_signal(signal.SIGINT)
assert "SIGKILL on a second request" in job.ends(False, 0.4)


STUBBORN = "trap '' INT TERM; touch FOLDER/ready$RANK; while :; do sleep 60; done"
POLITE = "touch FOLDER/ready$RANK; sleep 60"


def second_on_two_nodes(name, *commands):
    """The first node's launcher gets two requests. The workers of the other node get no further grace either."""
    with tempfile.TemporaryDirectory() as folder, socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port = taken.getsockname()[1]
        taken.close()
        launchers = [subprocess.Popen([BIN / "ddplaunch", "--nnodes=2", f"--node-rank={node}", "--nproc-per-node=1", "--rdzv-id=a",
                                       f"--rdzv-endpoint=127.0.0.1:{port}", "sh", "-c", command.replace("FOLDER", folder)],
                                      text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
                     for node, command in enumerate(commands)]
        deadline = time.monotonic() + 30
        while not all((pathlib.Path(folder) / f"ready{rank}").exists() for rank in range(2)):
            assert time.monotonic() < deadline, "they do not start"
            time.sleep(0.02)
        begun = time.monotonic()
        launchers[0].send_signal(signal.SIGINT)
        wait_for_line(launchers[1], "waiting for rank 1 to exit")
        launchers[0].send_signal(signal.SIGINT)
        for launcher in launchers:
            output = launcher.communicate(timeout=60)[0]
            assert launcher.returncode in (-signal.SIGINT, 128 + signal.SIGINT), (name, launcher.returncode, output)
        took = time.monotonic() - begun
        assert "SIGKILL on a second request" in output, f"{name}: {output}"
        assert took < 20, f"{name}: it took {took:.1f} s\n{output}"
        print(f"{name}: ok", flush=True)


second_on_two_nodes("a second Ctrl-C ends at once on all nodes", STUBBORN, STUBBORN)
second_on_two_nodes("a second Ctrl-C on a node whose workers have ended", POLITE, STUBBORN)
