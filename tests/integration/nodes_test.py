#!/usr/bin/env python3
"""nodes_test.py BIN_DIR: jobs on several nodes. Hosts are network namespaces; without the right to make them (root), all
launchers share this machine's loopback interface, and what needs a cut cable is left out with a word."""
import itertools
import json
import os
import pathlib
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time

BIN = pathlib.Path(sys.argv[1])


def sh(*words: object) -> None:
    subprocess.run([str(word) for word in words], check=True, capture_output=True)


class Hosts:
    """Hosts 10.77.0.1, … on one switch, or this machine several times."""

    def __init__(self, count: int):
        self.name = f"ddpt{os.getpid() % 10000}"
        self.names = [f"{self.name}h{i}" for i in range(1, count + 1)]
        self.are_apart = False
        try:
            self.make()
            self.are_apart = True
        except (OSError, subprocess.CalledProcessError) as error:
            self.remove()
            print(f"no network namespaces ({error}): all nodes share the loopback interface")

    def make(self) -> None:
        switch = self.name + "s"
        sh("ip", "netns", "add", switch)
        sh("ip", "-n", switch, "link", "add", "br0", "type", "bridge")
        sh("ip", "-n", switch, "link", "set", "br0", "up")
        for number, name in enumerate(self.names, 1):
            sh("ip", "netns", "add", name)
            sh("ip", "-n", name, "link", "set", "lo", "up")
            sh("ip", "-n", name, "link", "add", "eth0", "type", "veth", "peer", "name", f"p{number}", "netns", switch)
            sh("ip", "-n", name, "addr", "add", f"10.77.0.{number}/24", "dev", "eth0")
            sh("ip", "-n", name, "link", "set", "eth0", "up")
            sh("ip", "-n", switch, "link", "set", f"p{number}", "master", "br0")
            sh("ip", "-n", switch, "link", "set", f"p{number}", "up")

    def cut(self, number: int) -> None:
        sh("ip", "-n", self.name + "s", "link", "set", f"p{number}", "down")

    def remove(self) -> None:
        if shutil.which("ip") is None:
            return
        for name in [*self.names, self.name + "s"]:
            subprocess.run(["ip", "netns", "del", name], capture_output=True)

    def address(self) -> str:
        return "10.77.0.1" if self.are_apart else "127.0.0.1"

    def inside(self, number: int) -> list[str]:
        return ["nsenter", f"--net=/run/netns/{self.names[number - 1]}"] if self.are_apart else []


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


ports = itertools.count(29500)


class Job:
    """Launchers of one job, started in this order."""

    def __init__(self, hosts: Hosts, *words: object, nodes: str = "2"):
        self.hosts = hosts
        # Hosts have all ports for themselves.
        self.endpoint = f"{hosts.address()}:{next(ports) if hosts.are_apart else free_port()}"
        self.words = [f"--nnodes={nodes}", f"--rdzv-endpoint={self.endpoint}", *map(str, words)]
        self.launchers: dict[int, subprocess.Popen] = {}
        self.logs: dict[int, pathlib.Path] = {}
        self.folder = tempfile.TemporaryDirectory()

    def start(self, number: int, *words: object) -> "Job":
        self.logs[number] = pathlib.Path(self.folder.name) / f"events{number}"
        options, program = ([word for word in words if str(word).startswith("--")],
                            [word for word in words if not str(word).startswith("--")])
        at = next((i for i, word in enumerate(self.words) if not word.startswith("--")), len(self.words))
        command = [*self.hosts.inside(number), BIN / "ddplaunch", f"--event-log={self.logs[number]}", *self.words[:at],
                   *options, *self.words[at:], *program]
        self.launchers[number] = subprocess.Popen(list(map(str, command)), stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                                  text=True)
        return self

    def events(self, number: int, name: str) -> list[dict]:
        lines = self.logs[number].read_text().splitlines() if self.logs[number].exists() else []
        return [event for event in map(json.loads, lines) if event["event"] == name]

    def until(self, number: int, name: str, count: int = 1) -> None:
        end = time.monotonic() + 60
        while len(self.events(number, name)) < count:
            assert time.monotonic() < end and self.launchers[number].poll() is None, (number, name, self.ends())
            time.sleep(0.02)

    def ends(self) -> dict[int, tuple[int, str, str]]:
        result = {}
        for number, launcher in self.launchers.items():
            try:
                out, err = launcher.communicate(timeout=60)
            except subprocess.TimeoutExpired:
                launcher.kill()
                out, err = launcher.communicate()
                err += "\n(had to be killed)"
            result[number] = (launcher.returncode, out, err)
        self.nothing_survives()
        return result

    def nothing_survives(self) -> None:
        for number in self.logs:
            for event in self.events(number, "worker_started"):
                end = time.monotonic() + 5
                while os.path.exists(f"/proc/{event['pid']}") and time.monotonic() < end:
                    time.sleep(0.02)
                assert not os.path.exists(f"/proc/{event['pid']}"), event


SHOW = "echo node=$GROUP_RANK of $GROUP_WORLD_SIZE rank=$RANK of $WORLD_SIZE at $MASTER_ADDR:$MASTER_PORT if=$GLOO_SOCKET_IFNAME"


def nodes_get_their_ranks(hosts: Hosts) -> None:
    job = Job(hosts, "--no-collapse", "--tag=", "sh", "-c", SHOW)
    ends = job.start(1, "--nproc-per-node=1").start(2, "--nproc-per-node=2").ends()
    assert all(code == 0 for code, _, _ in ends.values()), ends
    interface = "eth0" if hosts.are_apart else "lo"
    lines = sorted("".join(out for _, out, _ in ends.values()).splitlines())
    ranks = [re.match(r"node=(\d) of 2 rank=(\d) of 3 at (\S+) if=(\S+)$", line).groups() for line in lines]
    assert [rank[1] for rank in ranks] == ["0", "1", "2"], lines
    assert {rank[2:] for rank in ranks} == {(job.endpoint, interface)}, lines
    if hosts.are_apart:
        # Who can listen at the endpoint is node 0, whoever was first.
        assert [rank[0] for rank in ranks] == ["0", "1", "1"], lines


def numbers_that_are_given_are_kept(hosts: Hosts) -> None:
    job = Job(hosts, "--no-collapse", "--tag=", "--nproc-per-node=1", "sh", "-c", SHOW, nodes="3")
    ends = job.start(3, "--node-rank=1").start(2, "--node-rank=2").start(1, "--node-rank=0").ends()
    assert {number: out.split()[0] for number, (_, out, _) in ends.items()} == {1: "node=0", 2: "node=2", 3: "node=1"}, ends


def training_on_two_nodes_is_that_of_one(hosts: Hosts) -> None:
    losses = []
    with tempfile.TemporaryDirectory() as folder:
        alone = subprocess.run([BIN / "ddplaunch", "--nproc-per-node=4", BIN / "train_charlm", "--steps", "40", "--checkpoint",
                                f"{folder}/one"], capture_output=True, text=True, timeout=300)
        losses.append(re.findall(r"loss (\S+)", alone.stdout)[-1])
        job = Job(hosts, "--nproc-per-node=2", BIN / "train_charlm", "--steps", "40", "--checkpoint", f"{folder}/two")
        ends = job.start(1).start(2).ends()
        assert all(code == 0 for code, _, _ in ends.values()), ends
        losses.append(re.findall(r"loss (\S+)", "".join(out for _, out, _ in ends.values()))[-1])
    assert losses[0] == losses[1], losses


def same_end(ends: dict[int, tuple[int, str, str]], code: int, text: str) -> None:
    for number, (returned, _, err) in ends.items():
        assert returned == code and text in err, (number, code, text, ends)


def a_failure_ends_all_nodes(hosts: Hosts) -> None:
    job = Job(hosts, "--nproc-per-node=2", "sh", "-c", "[ $RANK != 3 ] && exec sleep 1000; sleep 1; exit 7")
    job.start(1).start(2)
    job.until(2, "worker_ended")
    began = time.monotonic()
    ends = job.ends()
    assert time.monotonic() - began < 2, time.monotonic() - began
    same_end(ends, 7, "exit code 7")
    assert any(re.search(r"node \S+: rank 3: exit code 7", err) for _, _, err in ends.values()), ends


def a_signal_ends_all_nodes(hosts: Hosts) -> None:
    for target in (1, 2):
        job = Job(hosts, "--nproc-per-node=1", "sleep", "1000").start(1).start(2)
        for number in (1, 2):
            job.until(number, "worker_started")
        job.launchers[target].send_signal(signal.SIGTERM)
        ends = job.ends()
        for number, (returned, _, err) in ends.items():
            assert returned == (-15 if number == target else 143) and "ended by SIGTERM" in err, (target, ends)


def a_launcher_that_is_killed_ends_all_nodes(hosts: Hosts) -> None:
    for target in (1, 2):
        job = Job(hosts, "--nproc-per-node=1", "sleep", "1000").start(1).start(2)
        for number in (1, 2):
            job.until(number, "worker_started")
        for pid in subprocess.run(["pgrep", "-P", str(job.launchers[target].pid)], capture_output=True, text=True).stdout.split():
            os.kill(int(pid), signal.SIGKILL)
        job.launchers[target].kill()
        ends = job.ends()
        code, _, err = ends[3 - target]
        assert code == 125 and "lost: " in err, (target, ends)


def a_hang_is_named_by_the_node_that_knows(hosts: Hosts) -> None:
    job = Job(hosts, "--nproc-per-node=2", "--hang-timeout=6", BIN / "hanging_worker", "pause").start(1).start(2)
    same_end(job.ends(), 124, "rank 1 has not called all_reduce sum f32[1024] ('bucket 0') (#21 of world)")


def a_cut_cable_ends_both_sides(hosts: Hosts) -> None:
    job = Job(hosts, "--nproc-per-node=1", "--node-timeout=3", "sleep", "1000").start(1).start(3)
    for number in (1, 3):
        job.until(number, "worker_started")
    began = time.monotonic()
    hosts.cut(3)
    ends = job.ends()
    assert time.monotonic() - began < 10, time.monotonic() - began
    same_end(ends, 125, "no word from it for 3.0 s")


def another_attempt_on_all_nodes(hosts: Hosts) -> None:
    program = "[ $TORCHELASTIC_RESTART_COUNT = 0 ] && [ $RANK = 1 ] && exit 3; sleep 0.5; echo done in attempt $DDP_ATTEMPT"
    job = Job(hosts, "--nproc-per-node=1", "--max-restarts=2", "sh", "-c", program)
    ends = job.start(1).start(2).ends()
    assert all(code == 0 and "done in attempt 1" in out for code, out, _ in ends.values()), ends


def a_spare_takes_the_place_of_a_node_that_is_lost(hosts: Hosts) -> None:
    program = "[ $TORCHELASTIC_RESTART_COUNT = 0 ] && exec sleep 1000; echo rank $RANK of $WORLD_SIZE"
    job = Job(hosts, "--nproc-per-node=1", "--max-restarts=2", "sh", "-c", program).start(1).start(2)
    for number in (1, 2):
        job.until(number, "worker_started")
    job.start(3)
    while b"waits for a place" not in os.read(job.launchers[3].stderr.fileno(), 4096):
        pass
    lost = job.launchers.pop(2)
    for pid in subprocess.run(["pgrep", "-P", str(lost.pid)], capture_output=True, text=True).stdout.split():
        os.kill(int(pid), signal.SIGKILL)
    lost.kill()
    lost.communicate()
    ends = job.ends()
    assert all(code == 0 for code, _, _ in ends.values()), ends
    assert sorted(out.split("rank ")[-1] for _, out, _ in ends.values()) == ["0 of 2\n", "1 of 2\n"], ends


def a_node_that_does_not_belong_is_sent_away(hosts: Hosts) -> None:
    job = Job(hosts, "--nproc-per-node=1", nodes="2").start(1, "sleep", "1000")
    job.start(2, "--rdzv-id=other", "sleep", "1000")
    code, _, err = (lambda launcher: (launcher.wait(60), *launcher.communicate()))(job.launchers.pop(2))
    assert code == 125 and "it belongs to job 'other', and this is job 'none' (--rdzv-id)" in err, err
    job.launchers[1].terminate()
    same_end(job.ends(), -15, "was sent away")


def a_node_looks_for_the_first_one_for_longer_than_a_silence_may_last(hosts: Hosts) -> None:
    job = Job(hosts, "--nproc-per-node=1", "--node-timeout=3", "true").start(2, "--node-rank=1")
    time.sleep(5)
    ends = job.start(1, "--node-rank=0").ends()
    assert all(code == 0 for code, _, _ in ends.values()) and "looking for the first node" in ends[2][2], ends


def who_does_not_come_is_told(hosts: Hosts) -> None:
    job = Job(hosts, "--nproc-per-node=1", "--rdzv-conf=join_timeout=5", "sleep", "1000").start(1)
    same_end(job.ends(), 125, "only 1 node of 2 came within 5.0 s")
    nobody = Job(hosts, "--nproc-per-node=1", "--rdzv-conf=join_timeout=5", "sleep", "1000").start(2, "--node-rank=1")
    same_end(nobody.ends(), 125, "not found within 5.0 s")


if __name__ == "__main__":
    rig = Hosts(3)
    try:
        for check in [nodes_get_their_ranks, numbers_that_are_given_are_kept, training_on_two_nodes_is_that_of_one,
                      a_failure_ends_all_nodes, a_hang_is_named_by_the_node_that_knows, a_signal_ends_all_nodes, a_launcher_that_is_killed_ends_all_nodes,
                      another_attempt_on_all_nodes, a_spare_takes_the_place_of_a_node_that_is_lost,
                      a_node_that_does_not_belong_is_sent_away,
                      a_node_looks_for_the_first_one_for_longer_than_a_silence_may_last, who_does_not_come_is_told,
                      *([a_cut_cable_ends_both_sides] if rig.are_apart else [])]:
            began = time.monotonic()
            check(rig)
            print(f"ok: {check.__name__.replace('_', ' ')} ({time.monotonic() - began:.1f} s)", flush=True)
    finally:
        rig.remove()
