#!/usr/bin/env python3
"""doctor_nodes_test.py BIN_DIR [WORD]: runs `ddplaunch doctor` on hosts between which packets are lost, refused or slow, and
checks that it names the two nodes and what is wrong. WORD chooses
tests whose names have it, and _ all of them."""
import contextlib
import json
import pathlib
import random
import re
import subprocess
import sys
import tempfile
import threading
import time

from node_rig import BIN, SKIPPED, sh, until
from packet_hosts import DROP, REFUSE, PacketHosts

PATIENCE = 100  # seconds; the doctor takes some twenty at most
PORT = 29511


def start(hosts: PacketHosts, number: int, *words: str, nodes: str, environment: dict | None = None) -> subprocess.Popen:
    command = [*hosts.inside(number), "env", *(f"{name}={value}" for name, value in (environment or {}).items()),
               BIN / "ddplaunch", "doctor", "--json", f"--nnodes={nodes}", f"--rdzv-endpoint={hosts.ip(1)}:{PORT}", *words]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


class Report:
    """What the doctor says on all hosts."""

    def __init__(self, hosts: PacketHosts, environments: dict[int, dict] | None = None, words: dict[int, list] | None = None):
        began = time.monotonic()
        runs = {}
        for number in hosts.numbers:  # in the order of the hosts, so that host 1 is node 0
            runs[number] = start(hosts, number, f"--node-rank={number - 1}", *(words or {}).get(number, []), nodes=str(len(hosts.numbers)),
                                 environment=(environments or {}).get(number))
        ends = {number: (*run.communicate(timeout=PATIENCE), run.returncode) for number, run in runs.items()}
        self.seconds = time.monotonic() - began
        assert all(not out for number, (out, _, _) in ends.items() if number != 1), ends
        self.errors = ends[1][1]
        assert ends[1][0], ends
        self.json = json.loads(ends[1][0])
        self.codes = {number: code for number, (_, _, code) in ends.items()}
        assert set(self.codes.values()) == {self.json["exit_code"]}, (self.codes, self.json["exit_code"])

    def found(self, check: str) -> list[tuple[str, str]]:
        return [(each["grade"], each["text"]) for each in self.json["between"] if each["check"] == check]

    def all_between(self) -> set[str]:
        return {each["check"] for each in self.json["between"] if each["grade"] in ("warn", "fail")}


@contextlib.contextmanager
def hosts_with(*rules, count: int = 3, mtu: int = 1500):
    with PacketHosts(count, mtu) as hosts:
        if not hosts.are_apart:
            sys.exit(SKIPPED)
        hosts.rules[:] = rules
        yield hosts


def expect(report: Report, check: str, grade: str, *words: str, others: set[str] = frozenset()) -> None:
    found = report.found(check)
    assert len(found) == 1 and found[0][0] == grade and all(word in found[0][1] for word in words), report.json["between"]
    assert report.all_between() == {check, *others}, report.json["between"]


def healthy_hosts_get_no_warning() -> None:
    with hosts_with() as hosts:
        report = Report(hosts)
    assert not report.all_between(), report.json["between"]
    assert {each["check"] for each in report.json["between"]} == {"reach", "packets", "clocks", "speed", "differences"}
    assert report.seconds < 30 and report.json["to_leave_out"] == [], report.json
    assert len(report.json["nodes"]) == 3 and len(report.json["speeds"]) == 2, report.json


def a_firewall_that_refuses_is_named() -> None:
    with hosts_with(lambda packet: REFUSE if packet.to == 3 and packet.opens and packet.to_port != PORT else None) as hosts:
        report = Report(hosts)
    expect(report, "reach", "fail", "all other nodes → node 2 (host3)", "refuses connections")
    assert report.json["to_leave_out"] == [2] and report.json["exit_code"] == 2, report.json


def a_firewall_that_drops_is_named() -> None:
    # Only host 2 cannot open connections to host 3, and answers pass.
    with hosts_with(lambda packet: DROP if (packet.sender, packet.to) == (2, 3) and packet.opens else None) as hosts:
        report = Report(hosts)
    expect(report, "reach", "fail", "node 1 (host2) → node 2 (host3)", "no answer from 10.77.0.3 within 4 s")


def a_firewall_that_opens_only_the_endpoint_is_named() -> None:
    def rule(packet):
        return DROP if packet.to == 2 and packet.opens and packet.to_port != PORT else None
    with hosts_with(rule) as hosts:
        report = Report(hosts)
    expect(report, "reach", "fail", "all other nodes → node 1 (host2)", "only the port at which the nodes meet is open")


def packets_lost_in_one_direction_are_named() -> None:
    with hosts_with(lambda packet: DROP if (packet.sender, packet.to) == (3, 2) else None) as hosts:
        report = Report(hosts)
    expect(report, "reach", "fail", "node 2 (host3) → node 1 (host2)", "In the other direction they do")


def nodes_that_are_cut_off_from_each_other_are_named() -> None:
    with hosts_with(lambda packet: DROP if {packet.sender, packet.to} == {2, 3} else None) as hosts:
        report = Report(hosts)
    expect(report, "reach", "fail", "node 1 (host2) ↔ node 2 (host3)", "nothing arrives")
    assert report.json["to_leave_out"] == [2], report.json


def a_missing_route_is_named() -> None:
    with hosts_with() as hosts:
        sh("ip", "-n", hosts.namespace(2), "route", "add", "unreachable", f"{hosts.ip(3)}/32")
        report = Report(hosts)
    # The answers of host 2 have no route, either.
    texts = " ".join(text for _, text in report.found("reach"))
    assert "node 1 (host2) → node 2 (host3)" in texts and "No route to host" in texts, report.json["between"]
    assert "node 0" not in texts, texts


def large_packets_that_vanish_are_named() -> None:
    with hosts_with(lambda packet: DROP if packet.to == 2 and packet.size > 1400 else None) as hosts:
        report = Report(hosts)
    expect(report, "packets", "fail", "all other nodes → node 1 (host2)", "large packets never arrive")


def many_bytes_that_vanish_are_named() -> None:
    # A connection is made, and answers pass, but hardly any data.
    with hosts_with(lambda packet: DROP if (packet.sender, packet.to) == (2, 3) and packet.content > 400 else None) as hosts:
        report = Report(hosts)
    found = report.found("packets")
    assert found and any("node 1 (host2)" in text and "256 KiB" in text for _, text in found), report.json["between"]


def a_connection_without_answers_is_named() -> None:
    with hosts_with(lambda packet: DROP if (packet.sender, packet.to) == (3, 1) and packet.is_tcp and packet.content in (24,) else None) as hosts:
        report = Report(hosts)
    texts = [text for _, text in report.found("reach")]
    assert any("node 0 (host1) → node 2 (host3)" in text and "no answer arrives" in text for text in texts), report.json["between"]


def a_lossy_way_is_named() -> None:
    chance = random.Random(7)
    def rule(packet):
        return DROP if (packet.sender, packet.to) == (1, 2) and packet.protocol == 17 and chance.random() < 0.4 else None
    with hosts_with(rule) as hosts:
        report = Report(hosts)
    expect(report, "packets", "warn", "node 0 (host1) → node 1 (host2)", "of 50 packets were lost")


def names_that_mean_different_addresses_are_named() -> None:
    with hosts_with() as hosts:
        hosts.name_hosts(2, "10.77.0.99 host3", known=False)
        report = Report(hosts)
    expect(report, "names", "warn", "host3 means", "10.77.0.99 on node 1 (host2)", "10.77.0.3 on node 0 (host1)")


def a_slow_node_is_named() -> None:
    with hosts_with(count=4) as hosts:
        sh("ip", "netns", "exec", hosts.namespace(4), "tc", "qdisc", "add", "dev", "eth0", "root", "tbf", "rate", "8mbit",
           "burst", "32kbit", "latency", "400ms")
        report = Report(hosts)
    expect(report, "speed", "warn", "node 3 (host4) is slow with two partners")


def checkpoints_that_are_not_shared_are_named() -> None:
    with hosts_with() as hosts, tempfile.TemporaryDirectory() as shared, tempfile.TemporaryDirectory() as other:
        report = Report(hosts, words={1: [f"--checkpoint-dir={shared}"], 2: [f"--checkpoint-dir={shared}"],
                                      3: [f"--checkpoint-dir={other}"]})
        left = [*pathlib.Path(shared).iterdir(), *pathlib.Path(other).iterdir()]
    expect(report, "checkpoints", "warn", "is another directory on node 2 (host3) than on the first node")
    assert not left, left


def differences_are_named() -> None:
    with hosts_with() as hosts:
        sh("ip", "-n", hosts.namespace(3), "link", "set", "eth0", "mtu", "1300")
        report = Report(hosts, {2: {"NCCL_IB_TIMEOUT": "22"}})
    found = report.found("differences")
    assert len(found) == 2 and all(grade == "warn" for grade, _ in found), report.json["between"]
    assert "MTU differs: 1500 on node 0 (host1), node 1 (host2), 1300 on node 2 (host3)" in found[0][1], found
    assert "NCCL_IB_TIMEOUT differs: nothing on node 0 (host1), node 2 (host3), 22 on node 1 (host2)" in found[1][1], found
    assert {each["name"] for each in report.json["differences"]} == {"MTU", "NCCL_IB_TIMEOUT"}, report.json


def check_and_run(hosts: PacketHosts, bad: set[int], nodes: str, *words: str, late: int | None = None,
                  begins: str = "running", variables: tuple = ()) -> dict[int, tuple]:
    """Runs a job with --check on all hosts. A check fails on the bad ones. Host `late` starts when the job runs, or when
    this file exists."""
    def launch(number: int) -> subprocess.Popen:
        failing = ["NCCL_SOCKET_IFNAME=none0"] if number in bad else []  # no host has it
        return subprocess.Popen(
            [*hosts.inside(number), "env", *failing, *variables, BIN / "ddplaunch", "--check=quick",
             f"--nnodes={nodes}", f"--rdzv-endpoint={hosts.ip(1)}:{PORT}", "--nproc-per-node=1", *words, "sh", "-c",
             "echo rank $RANK of $WORLD_SIZE on $(hostname); touch " + str(hosts.path("running")) + "; while [ -e " +
             str(hosts.path("wait")) + " ]; do sleep 0.1; done"],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    runs = {}
    for number in hosts.numbers:
        if number == late:
            until(lambda: hosts.path(begins).exists(), "the late node may start")
        runs[number] = launch(number)
        time.sleep(0.5)  # so that the hosts get their numbers in order
        if number == late:
            time.sleep(5)
            hosts.path("wait").unlink()
    return {number: (*run.communicate(timeout=PATIENCE), run.returncode) for number, run in runs.items()}


def a_bad_node_is_left_out_and_named() -> None:
    with hosts_with() as hosts:
        ends = check_and_run(hosts, {2}, "2:3")
    assert ends[2][2] == 0 and not ends[2][0] and "this node is left out of the job" in ends[2][1], ends
    assert ends[1][2] == ends[3][2] == 0, ends
    assert "check of node 1 (host2): " in ends[1][1] and "node 1 (host2) is left out of the job, which starts on 2 nodes" in ends[1][1], ends
    assert {ends[1][0].split("] ")[1], ends[3][0].split("] ")[1]} == {"rank 0 of 2 on host1\n", "rank 1 of 2 on host3\n"}, ends


def a_job_that_needs_its_bad_node_is_not_started_and_named() -> None:
    with hosts_with() as hosts:
        ends = check_and_run(hosts, {2}, "3")
    for number, (out, err, code) in ends.items():
        assert code == 2 and not out and "the job does not start: node 1 (host2) fails a check, and --nnodes=3 needs 3 nodes" in err, (number, ends)


def a_bad_first_node_is_named() -> None:
    with hosts_with() as hosts:
        ends = check_and_run(hosts, {1}, "2:3")
    for number, (out, err, code) in ends.items():
        assert code == 2 and not out and "a check fails on node 0, at which the others meet" in err, (number, ends)


def a_job_whose_nodes_are_well_gets_no_warning() -> None:
    with hosts_with() as hosts:
        ends = check_and_run(hosts, set(), "3")
    assert all(code == 0 and "rank" in out for out, _, code in ends.values()), ends
    assert ends[1][1].count("has no token") == 1 and ends[1][1].count("GLOO_SOCKET_IFNAME") == 1, ends


def a_node_that_comes_late_gets_its_place_without_a_warning() -> None:
    with hosts_with() as hosts:
        hosts.path("wait").touch()
        ends = check_and_run(hosts, set(), "2:3", "--max-restarts=1", "--rdzv-conf=last_call_timeout=1", late=3)
    assert all(code == 0 and "refused" not in err for _, err, code in ends.values()), ends
    assert "waits until it can join" in ends[3][1] and not ends[3][0], ends


def a_node_that_comes_during_the_check_takes_part_without_a_warning() -> None:
    with hosts_with() as hosts:
        hosts.path("wait").touch()

        def rule(packet):
            """The check of the first two takes until the third has come."""
            is_probe = packet.is_tcp and PORT not in (packet.from_port, packet.to_port)
            if packet.sender == 3 and packet.to_port == PORT:
                hosts.path("has_come").touch()
            if not is_probe or hosts.path("has_come").exists():
                return None
            hosts.path("checks").touch()
            return DROP
        hosts.rules[:] = [rule]
        ends = check_and_run(hosts, set(), "2:3", "--max-restarts=1", "--rdzv-conf=last_call_timeout=1", late=3, begins="checks")
    assert all(code == 0 and "refused" not in err for _, err, code in ends.values()), ends
    assert ends[1][0].endswith("rank 0 of 3 on host1\n") and ends[3][0], ends


def a_node_that_was_left_out_returns_when_it_is_well_without_a_warning() -> None:
    with hosts_with() as hosts:
        hosts.path("wait").touch()
        words = ("--max-restarts=1", "--rdzv-conf=last_call_timeout=1")
        runs = threading.Thread(target=lambda: ends.update(check_and_run(hosts, {3}, "2:3", *words)))
        ends: dict[int, tuple] = {}
        runs.start()
        until(lambda: hosts.path("running").exists(), "the job runs")
        time.sleep(1)  # host 3 has been left out
        again = subprocess.Popen(
            [*hosts.inside(3), BIN / "ddplaunch", "--check=quick", "--nnodes=2:3", f"--rdzv-endpoint={hosts.ip(1)}:{PORT}",
             "--nproc-per-node=1", *words, "sh", "-c", "true"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        err = ""
        while "waits until it can join" not in err:
            err += again.stderr.readline()
        hosts.path("wait").unlink()
        runs.join(PATIENCE)
        err += again.communicate(timeout=PATIENCE)[1]
    assert "is left out of the job, which starts on 2 nodes" in ends[1][1], ends
    assert again.returncode == 0 and all(code == 0 for _, _, code in ends.values()), (err, ends)


def a_check_of_an_allocation_is_kept_without_a_warning() -> None:
    with tempfile.TemporaryDirectory() as folder, hosts_with() as hosts:
        allocation = (f"TMPDIR={folder}", "PBS_JOBID=77.head")
        runs = [check_and_run(hosts, set(), "3", "--rdzv-id=run", variables=allocation)]
        hosts.rules[:] = [lambda packet: DROP if packet.to == 2 and packet.opens and packet.to_port != PORT else None]
        runs.append(check_and_run(hosts, set(), "3", "--rdzv-id=run", variables=allocation))
        # The second job is not checked again, so nothing finds what is wrong now.
        assert all(code == 0 for run in runs for _, _, code in run.values()), runs
        assert "check of " in runs[0][1][1] and "check of " not in runs[1][1][1], runs
        kept = sorted(pathlib.Path(folder).glob("ddplaunch-check-*"))
        assert [path.name.split("-")[-2:] for path in kept] == [[f"host{i}", "77.head"] for i in hosts.numbers], kept
        # Another variable makes another check, which finds what is wrong, and removes what was kept.
        again = check_and_run(hosts, {2}, "3", variables=allocation)
        assert all(code == 2 for _, _, code in again.values()) and "NCCL_SOCKET_IFNAME" in again[2][1], again
        assert "only the port at which the nodes meet is open" in again[1][1], again
        assert not list(pathlib.Path(folder).glob("ddplaunch-check-*")), again


def a_way_that_breaks_while_a_job_runs_is_named() -> None:
    with hosts_with(count=2) as hosts, tempfile.TemporaryDirectory() as folder:
        broken = hosts.path("broken")
        # The launchers use another network than the ranks.
        hosts.rules[:] = [lambda packet: DROP if (packet.sender, packet.to) == (1, 2) and broken.exists() and
                          PORT not in (packet.from_port, packet.to_port) else None]
        # A third node could come, and the check must not wait for it.
        runs = {number: subprocess.Popen(
            [*hosts.inside(number), BIN / "ddplaunch", "--nnodes=2:3", f"--rdzv-endpoint={hosts.ip(1)}:{PORT}",
             "--rdzv-conf=last_call_timeout=3", "--nproc-per-node=1", "--hang-timeout=8", "--backend=gloo", f"--event-log={folder}/events{number}",
             f"--report={folder}/report{number}.html", BIN / "train_charlm",
             "--steps", "400000", "--checkpoint", f"{folder}/model"],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) for number in hosts.numbers}
        events = pathlib.Path(folder, "events1")
        until(lambda: events.exists() and '"worker_started"' in events.read_text(), "the job runs")
        time.sleep(3)  # the ranks find each other, and take steps
        broken.touch()
        ends = {number: (*run.communicate(timeout=PATIENCE), run.returncode) for number, run in runs.items()}
        lines = [json.loads(line) for line in events.read_text().splitlines()]
        report = pathlib.Path(folder, "report1.html").read_text()
    err = ends[1][1]
    assert {code for _, _, code in ends.values()} == {124}, ends
    assert "[DDP-H07 " in err and "checking what is between the ranks" in err, err
    # The kernel shows which data are not acknowledged, which may be those whose acknowledgements are lost. The probes show
    # in which direction packets are lost.
    assert re.search(r"connections: 10.77.0.1 \(eth0\) → 10.77.0.2: |connections of node host2: 10.77.0.2 \(eth0\) → 10.77.0.1: ", err), err
    assert "are not acknowledged" in err, err
    finding = "check of the nodes: reach: node 0 (host1) → node 1 (host2): packets from node 0 (host1) never arrive"
    assert finding in err and finding in report, (err, report)
    assert [event["cause_code"] for event in lines if event["event"] == "attempt_ended"] == ["transport"], lines
    assert lines[-1]["event"] == "message" and lines[-1]["text"].startswith(finding), lines[-1]


TESTS = [value for name, value in list(globals().items())
         if callable(value) and getattr(value, "__module__", "") == __name__ and name.split("_")[-1] in ("named", "warning")]

# The others run at night: they resemble these.
BY_DAY = (healthy_hosts_get_no_warning, a_firewall_that_opens_only_the_endpoint_is_named, packets_lost_in_one_direction_are_named,
          large_packets_that_vanish_are_named, a_slow_node_is_named, differences_are_named, a_bad_node_is_left_out_and_named,
          a_job_that_needs_its_bad_node_is_not_started_and_named, a_check_of_an_allocation_is_kept_without_a_warning,
          a_way_that_breaks_while_a_job_runs_is_named)

if __name__ == "__main__":
    for test in TESTS:
        if sys.argv[2] not in test.__name__ if len(sys.argv) > 2 else test not in BY_DAY:
            continue
        began = time.monotonic()
        test()
        print(f"{test.__name__}: ok ({time.monotonic() - began:.1f} s)", flush=True)
