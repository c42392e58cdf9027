"""Provides hosts and jobs on them, for tests on several nodes.

A host is a network namespace with a host name and a hosts file, and all hosts are on one switch. host1 is 10.77.0.1 and
fd00::1. Without the right to make namespaces (root), all launchers share this computer's loopback interface. Tests that
need a network are then skipped with a message. A test is a function of hosts. A file of tests is a program:

    some_test.py BIN_DIR [WORD]     # only tests whose sentence has WORD
"""
import collections.abc
import contextlib
import itertools
import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
from event_lines import eventually_event, read_events  # noqa: E402
from ports import free_port  # noqa: E402  (it is in another folder)

BIN = pathlib.Path(sys.argv[1]).resolve()
PATIENCE = 60.0  # seconds for operations that take milliseconds on an idle computer
SKIPPED = 77

# All mounts except the hosts file are shared with the computer.
ENTER = """#!/bin/bash
# enter.sh NUMBER COMMAND…: as if on host NUMBER
number=$1; shift
exec nsenter --net=/run/netns/{name}h$number unshare --uts --mount \\
  bash -c 'hostname host'$number' && mount --bind {folder}/hosts'$number' /etc/hosts && exec "$@"' _ "$@"
"""
# An ssh to a host gets options, the host, and words for a shell there.
REMOTE_SHELL = """#!/bin/bash
while [[ $1 == -* ]]; do shift; done
host=$1; shift
exec {folder}/enter.sh ${{host#host}} bash -c "$*"
"""


def sh(*words: object) -> str:
    return subprocess.run([str(word) for word in words], check=True, capture_output=True, text=True).stdout


def until(is_so: collections.abc.Callable[[], object], what: object, seconds: float = PATIENCE) -> None:
    """Waits until `is_so` returns true. `what` names what was waited for."""
    end = time.monotonic() + seconds
    while not is_so():
        assert time.monotonic() < end, f"not within {seconds} s: {what}"
        time.sleep(0.02)


def is_alive(pid: int) -> bool:
    """Returns false for a process that has ended, even if its parent has not reaped it yet."""
    try:
        return pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] not in "ZX"
    except OSError:
        return False


def kill_all(pids: collections.abc.Iterable[int], what: signal.Signals) -> None:
    """Sends a signal to processes, of which some may end meanwhile."""
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, what)


class Hosts:
    """Manages hosts 1, 2, … on one switch, or this computer several times."""

    def __init__(self, count: int):
        self.name = f"ddpt{os.getpid()}"
        self.switch = self.name + "s"
        self.numbers = range(1, count + 1)
        self.folder = tempfile.TemporaryDirectory(prefix=self.name)
        self.are_apart = False
        try:
            self.make()
            self.are_apart = True
        except (OSError, subprocess.CalledProcessError) as error:
            self.remove_network()
            print(f"no network namespaces ({error}): all nodes share the loopback interface")

    def __enter__(self) -> "Hosts":
        return self

    def __exit__(self, *_: object) -> None:
        self.remove()

    def make(self) -> None:
        sh("ip", "netns", "add", self.switch)
        sh("ip", "-n", self.switch, "link", "add", "br0", "type", "bridge")
        sh("ip", "-n", self.switch, "link", "set", "br0", "up")
        for number in self.numbers:
            host = self.namespace(number)
            sh("ip", "netns", "add", host)
            sh("ip", "-n", host, "link", "set", "lo", "up")
            sh("ip", "-n", host, "link", "add", "eth0", "type", "veth", "peer", "name", f"p{number}", "netns", self.switch)
            sh("ip", "-n", host, "addr", "add", f"{self.ip(number)}/24", "dev", "eth0")
            # If the computer has no IPv6, this does not fail, but the address does not exist.
            subprocess.run(["ip", "-n", host, "addr", "add", f"fd00::{number}/64", "dev", "eth0", "nodad"], capture_output=True)
            sh("ip", "-n", host, "link", "set", "eth0", "up")
            sh("ip", "-n", self.switch, "link", "set", f"p{number}", "master", "br0")
            sh("ip", "-n", self.switch, "link", "set", f"p{number}", "up")
            self.name_hosts(number)
        for name, text in (("enter.sh", ENTER), ("remote_shell.sh", REMOTE_SHELL)):
            self.path(name).write_text(text.format(name=self.name, folder=self.folder.name))
            self.path(name).chmod(0o755)
        sh(*map(str, [self.path("enter.sh"), 1, "true"]))

    def name_hosts(self, number: int, *lines: str, known: bool = True) -> None:
        """Writes the hosts file of a host: first `lines`, then all hosts if `known`."""
        all_hosts = [f"{self.ip(each)} host{each}" for each in self.numbers] if known else []
        # Overwrites the existing file, because it is mounted.
        self.path(f"hosts{number}").write_text("\n".join(["127.0.0.1 localhost", *lines, *all_hosts, ""]))

    def remove_network(self) -> None:
        if shutil.which("ip") is None:
            return
        for name in [*map(self.namespace, self.numbers), self.switch]:
            subprocess.run(["ip", "netns", "del", name], capture_output=True)

    def remove(self) -> None:
        for number in self.numbers if self.are_apart else []:
            self.kill(number, signal.SIGKILL)
        self.remove_network()
        self.folder.cleanup()

    def cut(self, number: int) -> None:
        sh("ip", "-n", self.switch, "link", "set", f"p{number}", "down")

    def mend(self, number: int) -> None:
        """Returns when others reach the host again. Otherwise a first packet could be lost, which is sent again after 1 s."""
        sh("ip", "-n", self.switch, "link", "set", f"p{number}", "up")
        until(lambda: self._reaches(2 if number == 1 else 1, number), f"host {number} is back")

    def _reaches(self, number: int, other: int) -> bool:
        """Returns whether a host refuses a connection from another one."""
        call = ["timeout", "0.2", "bash", "-c", f"exec 3<>/dev/tcp/{self.ip(other)}/9"]
        found = subprocess.run(["ip", "netns", "exec", self.namespace(number), *call], capture_output=True, text=True)
        return "refused" in found.stderr

    def path(self, name: str) -> pathlib.Path:
        return pathlib.Path(self.folder.name) / name

    def namespace(self, number: int) -> str:
        return f"{self.name}h{number}"

    def ip(self, number: int) -> str:
        return f"10.77.0.{number}"

    def has_ipv6(self) -> bool:
        return self.are_apart and "fd00::1" in sh("ip", "-n", self.namespace(1), "-6", "addr")

    def address(self) -> str:
        return self.ip(1) if self.are_apart else "127.0.0.1"

    def inside(self, number: int) -> list[str]:
        return [str(self.path("enter.sh")), str(number)] if self.are_apart else []

    def pids(self, number: int) -> list[int]:
        """Returns the pids of all processes on a host."""
        return [int(pid) for pid in sh("ip", "netns", "pids", self.namespace(number)).split()]

    def kill(self, number: int, what: signal.Signals) -> None:
        kill_all(self.pids(number), what)

    def free_port(self) -> int:
        # Each host has all ports for itself.
        return next(ports) if self.are_apart else free_port()


ports = itertools.count(29500)
End = tuple[int, str, str]  # a launcher's exit code, stdout and stderr


class Job:
    """Runs the launchers of one job, started in the order of the calls. They meet by the options `meet`. By default
    these are the number of nodes and the endpoint."""

    def __init__(self, hosts: Hosts, *words: object, nodes: str = "2", meet: list[str] | None = None):
        self.hosts = hosts
        self.endpoint = f"{hosts.address()}:{hosts.free_port()}"
        if meet is None:
            meet = [f"--nnodes={nodes}", f"--rdzv-endpoint={self.endpoint}"]
        self.words = [*meet, *map(str, words)]
        self.launchers: dict[int, subprocess.Popen] = {}
        self.logs: dict[int, pathlib.Path] = {}
        self.folder = tempfile.TemporaryDirectory()

    def start(self, number: int, *words: object, environment: dict[str, str] | None = None) -> "Job":
        self.logs[number] = pathlib.Path(self.folder.name) / f"events{number}"
        options, program = ([word for word in words if str(word).startswith("--")],
                            [word for word in words if not str(word).startswith("--")])
        at = next((i for i, word in enumerate(self.words) if not word.startswith("--")), len(self.words))
        command = [*self.hosts.inside(number), BIN / "ddplaunch", f"--event-log={self.logs[number]}", *self.words[:at],
                   *options, *self.words[at:], *program]
        self.launchers[number] = subprocess.Popen(list(map(str, command)), stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                                  text=True, env={**os.environ, **(environment or {})})
        return self

    def events(self, number: int, name: str) -> list[dict]:
        return [event for event in read_events(self.logs[number]) if event["event"] == name]

    def until(self, number: int, name: str, count: int = 1) -> None:
        eventually_event(lambda: len(self.events(number, name)) >= count, self.launchers[number], f"node {number}: {name}")

    def until_all_run(self, *numbers: int) -> "Job":
        for number in numbers or self.launchers:
            self.until(number, "worker_started")
        return self

    def until_said(self, number: int, text: str) -> None:
        """Waits until the launcher prints `text`. Its output up to then is lost."""
        said = b""
        while text.encode() not in said:
            more = os.read(self.launchers[number].stderr.fileno(), 4096)
            assert more, (number, text, said)
            said += more

    def kill(self, number: int) -> None:
        """Kills launcher and guardian together. They take no further part in the job."""
        launcher = self.launchers.pop(number)
        children = subprocess.run(["pgrep", "-P", str(launcher.pid)], capture_output=True, text=True).stdout.split()
        kill_all(map(int, children), signal.SIGKILL)
        launcher.kill()
        launcher.communicate()

    def end_of(self, number: int, seconds: float = PATIENCE) -> End:
        launcher = self.launchers[number]
        try:
            out, err = launcher.communicate(timeout=seconds)
        except subprocess.TimeoutExpired:
            launcher.kill()
            out, err = launcher.communicate()
            err += f"\n(had to be killed after {seconds} s)"
        return launcher.returncode, out, err

    def ends(self, seconds: float = PATIENCE) -> dict[int, End]:
        result = {number: self.end_of(number, seconds) for number in self.launchers}
        self.nothing_survives()
        return result

    def nothing_survives(self) -> None:
        for number in self.logs:
            for event in self.events(number, "worker_started"):
                until(lambda: not is_alive(event["pid"]), event)
            if self.hosts.are_apart:
                until(lambda: not self.hosts.pids(number), f"nothing runs on host {number}")


def same_end(ends: dict[int, End], code: int, text: str) -> None:
    for number, (returned, _, err) in ends.items():
        assert returned == code and text in err, (number, code, text, ends)


def all_well(ends: dict[int, End]) -> None:
    assert all(code == 0 for code, _, _ in ends.values()), ends


def run_tests(hosts: Hosts, tests: list[collections.abc.Callable[[Hosts], None]]) -> None:
    word = sys.argv[2] if len(sys.argv) > 2 else ""
    for test in tests:
        sentence = test.__name__.replace("_", " ")
        if word not in sentence:
            continue
        began = time.monotonic()
        test(hosts)
        print(f"ok: {sentence} ({time.monotonic() - began:.1f} s)", flush=True)


def skip(reason: str) -> None:
    print(reason)
    sys.exit(SKIPPED)


class SlowLink:
    """Connects hosts 1 and 2 in place of the switch, until the `with` block ends. Passes all frames immediately
    until its rules are changed; see tests/support/slow_link.py."""

    def __init__(self, hosts: Hosts, **rules: object):
        self.hosts = hosts
        offloads = "tso off gso off gro off tx off rx off".split()
        for number in (1, 2):
            sh("ip", "netns", "exec", hosts.namespace(number), "ethtool", "-K", "eth0", *offloads)
            sh("ip", "netns", "exec", hosts.switch, "ethtool", "-K", f"p{number}", *offloads)
            sh("ip", "-n", hosts.switch, "link", "set", f"p{number}", "nomaster")
        program = pathlib.Path(__file__).resolve().parent.parent / "support" / "slow_link.py"
        self.process = subprocess.Popen(["ip", "netns", "exec", hosts.switch, sys.executable, program, "p1", "p2"],
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        assert self.process.stdout.readline() == "ready\n"
        self.change(**rules)

    def change(self, **rules: object) -> None:
        self.process.stdin.write(json.dumps(rules) + "\n")
        self.process.stdin.flush()

    def __enter__(self) -> "SlowLink":
        return self

    def __exit__(self, *_: object) -> None:
        self.process.stdin.close()
        self.process.wait(10)
        for number in (1, 2):
            sh("ip", "-n", self.hosts.switch, "link", "set", f"p{number}", "master", "br0")
