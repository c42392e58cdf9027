#!/usr/bin/env python3
"""slow_network_test.py BIN_DIR [WORD]: tests jobs on two nodes whose link is slow, loses frames, is interrupted, or
passes frames in one direction only. Skipped without network namespaces and ethtool. If the end of the job did not
reach a node, the node would report a loss and exit with code 125. So the test needs no clock to tell the cases
apart."""
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "zoo"))
from expected import launched  # noqa: E402
from node_rig import BIN, Hosts, Job, SlowLink, all_well, run_tests, same_end, sh, skip, until

DELAY = 0.2  # in each direction


def training(hosts: Hosts, steps: int) -> Job:
    job = Job(hosts, "--nproc-per-node=1", BIN / "train_charlm", "--steps", steps, "--checkpoint", hosts.path("checkpoint"))
    return job.start(1).start(2)


def trains(hosts: Hosts) -> None:
    ends = training(hosts, 3).ends(240)
    all_well(ends)
    assert re.search(r"loss \d", "".join(out for _, out, _ in ends.values())), ends


def a_failure_reaches_the_other(hosts: Hosts, failing: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        program = f"[ $RANK != {failing - 1} ] && exec sleep 1000; until [ -e {folder}/fail ]; do sleep 0.02; done; exit 7"
        job = Job(hosts, "--nproc-per-node=1", "sh", "-c", program).start(1).start(2).until_all_run()
        pathlib.Path(folder, "fail").touch()
        same_end(job.ends(), 7, "exit code 7")
        assert job.events(3 - failing, "worker_ended"), "the worker of the other node is ended"


def no_node_is_lost(hosts: Hosts, seconds: int, *options: str) -> None:
    job = Job(hosts, "--nproc-per-node=1", *options, "sleep", seconds).start(1).start(2).until_all_run()
    all_well(job.ends())


def a_slow_link_does_not_keep_a_job_from_running(hosts: Hosts) -> None:
    with SlowLink(hosts, delay=DELAY):
        trains(hosts)


def a_failure_is_reported_over_a_slow_link(hosts: Hosts) -> None:
    with SlowLink(hosts, delay=DELAY):
        for failing in (1, 2):
            a_failure_reaches_the_other(hosts, failing)


def the_killed_rank_of_a_training_is_reported(hosts: Hosts) -> None:
    """The report must not name the rank that misses it. That rank detects the loss as early as its launcher."""
    with SlowLink(hosts) as link:
        for failing in (1, 2):
            link.change(delay=0)
            job = training(hosts, 100000).until_all_run()
            while "step" not in (line := job.launchers[1].stdout.readline()):
                assert line, job.ends()
            link.change(delay=DELAY)
            time.sleep(2 * DELAY)  # then no earlier frame is still in transit
            os.kill(job.events(failing, "worker_started")[0]["pid"], signal.SIGKILL)
            ends = job.ends()
            same_end(ends, 137, f"rank {failing - 1}")
            assert f"node host{failing}: rank {failing - 1}: killed by SIGKILL" in ends[3 - failing][2], ends


def a_slow_link_does_not_lose_a_node(hosts: Hosts) -> None:
    with SlowLink(hosts, delay=DELAY):
        no_node_is_lost(hosts, 9, "--node-timeout=6")


def lost_and_reordered_frames_are_sent_again(hosts: Hosts) -> None:
    with SlowLink(hosts, delay=0.002, jitter=0.005, loss=0.1):
        trains(hosts)
        for failing in (1, 2):
            a_failure_reaches_the_other(hosts, failing)


def an_unstable_link_does_not_lose_a_node(hosts: Hosts) -> None:
    with SlowLink(hosts, up=2, down=1):
        no_node_is_lost(hosts, 9, "--node-timeout=5")


def an_interruption_shorter_than_the_node_timeout_does_not_lose_a_node(hosts: Hosts) -> None:
    """TCP repeats a heartbeat 0.2, 0.6, 1.4, 3, 6.2 and 12.6 s later if nothing bounds its pauses. The last one is late."""
    if tuple(map(int, re.findall(r"\d+", os.uname().release)[:2])) < (6, 15):
        return print("Linux before 6.15 cannot bound the pauses of TCP")
    with SlowLink(hosts) as link:
        job = Job(hosts, "--nproc-per-node=1", "--node-timeout=10", "sleep", 13).start(1).start(2).until_all_run()
        link.change(cut="both")
        time.sleep(7.3)
        link.change(cut="")
        all_well(job.ends())


def the_end_of_a_job_is_received_when_the_link_is_back(hosts: Hosts) -> None:
    """The message about the end is lost, and sent again. What the other node sends meanwhile arrives."""
    for outcome in ("exit 0", "exit 7"):
        with SlowLink(hosts) as link, tempfile.TemporaryDirectory() as folder:
            # The first node's worker ends last.
            program = f"[ $RANK = 1 ] && exit 0; until [ -e {folder}/end ]; do sleep 0.02; done; {outcome}"
            job = Job(hosts, "--nproc-per-node=1", "sh", "-c", program).start(1).start(2).until_all_run()
            until(lambda: job.events(2, "worker_ended"), "the second node's worker ends")
            time.sleep(0.5)  # then the first node has received it
            link.change(cut="ab")
            pathlib.Path(folder, "end").touch()
            time.sleep(3)
            link.change(cut="")
            ends = job.ends()
            same_end(ends, 7, "exit code 7") if outcome == "exit 7" else all_well(ends)


def a_link_that_passes_one_way_only_ends_both(hosts: Hosts) -> None:
    # The first node receives messages from the second one for as long as that node sends without an answer.
    with SlowLink(hosts) as link:
        ends = ends_upon_cut(hosts, link, "ab")
        assert "first node" in ends[2][2] and "it has sent nothing for 3.0 s" in ends[2][2], ends
    with SlowLink(hosts) as link:
        ends = ends_upon_cut(hosts, link, "ba")
        assert "node host2: lost: it has sent nothing for 3.0 s" in ends[1][2], ends


def upon_one_way_loss_no_node_blames_its_own_ranks(hosts: Hosts) -> None:
    """The ranks notice the loss at the same time as the launchers."""
    job = Job(hosts, "--nproc-per-node=2", BIN / "train_charlm", "--batch=120", "--steps=1000000", "--checkpoint",
              hosts.path("checkpoint"), nodes="3")
    for number in (1, 2, 3):
        job.start(number)
    job.until_all_run(1, 2, 3)
    time.sleep(1)
    # A queue without a place drops each frame.
    sh("ip", "netns", "exec", hosts.switch, "tc", "qdisc", "replace", "dev", "p3", "root", "pfifo", "limit", 0)
    ends = job.ends()
    for number in (1, 2):
        errors = [line for line in ends[number][2].splitlines() if line.startswith("ddplaunch: error:")]
        assert len(errors) == 1 and "node host3: lost: " in errors[0], ends
    assert "the first node (" in ends[3][2], ends


def ends_upon_cut(hosts: Hosts, link: SlowLink, way: str) -> dict:
    job = Job(hosts, "--nproc-per-node=1", "--node-timeout=3", "sleep", "1000").start(1).start(2).until_all_run()
    link.change(cut=way)
    ends = job.ends()
    same_end(ends, 125, "lost: ")
    return ends


def a_connection_that_the_kernel_gives_up_is_not_an_exited_rank(hosts: Hosts) -> None:
    name = "loses_the_network"
    with tempfile.TemporaryDirectory() as folder:
        command = launched(name, BIN / "ddplaunch", ["--nproc-per-node=3"], [BIN / "zoo", name], retries=3)
        end = subprocess.run(command, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True, cwd=folder, timeout=120, check=False)
    assert end.returncode == 1, end
    assert "the network between the two ranks does not respond" in end.stderr, end.stderr
    assert re.search(r"it lost (another rank|rank \d+), but no rank failed|it lost rank \d+, which was still running",
                     end.stderr), end.stderr


if __name__ == "__main__":
    if shutil.which("ethtool") is None:
        skip("ethtool is not installed")
    with Hosts(2) as rig:
        if not rig.are_apart:
            skip("needs network namespaces")
        run_tests(rig, [a_slow_link_does_not_keep_a_job_from_running, a_failure_is_reported_over_a_slow_link,
                        the_killed_rank_of_a_training_is_reported, a_slow_link_does_not_lose_a_node,
                        lost_and_reordered_frames_are_sent_again, an_unstable_link_does_not_lose_a_node,
                        an_interruption_shorter_than_the_node_timeout_does_not_lose_a_node,
                        the_end_of_a_job_is_received_when_the_link_is_back, a_link_that_passes_one_way_only_ends_both,
                        a_connection_that_the_kernel_gives_up_is_not_an_exited_rank])
    with Hosts(3) as rig:
        run_tests(rig, [upon_one_way_loss_no_node_blames_its_own_ranks])
