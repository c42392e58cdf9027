#!/usr/bin/env python3
"""first_node_test.py BIN_DIR: tests how an elastic job goes on when its first node is lost."""
import collections.abc
import re
import signal
import subprocess
import tempfile
import time

from node_rig import Hosts, Job, kill_all, run_tests, sh, until

# Attempts before the last one run until they are ended.
PROGRAM = "[ $DDP_ATTEMPT -lt {last} ] && exec sleep 1000; echo attempt $DDP_ATTEMPT: rank $RANK of $WORLD_SIZE"
OPTIONS = ("--nproc-per-node=1", "--no-collapse", "--tag=")


def starts(hosts: Hosts, count: int, nodes: str, last: int = 1, last_call: int = 1, max_restarts: int = 1,
           node_timeout: int = 10, options: collections.abc.Sequence[str] = ()) -> Job:
    """Starts node 1 last, so that attempt 0 begins with all nodes."""
    job = Job(hosts, *OPTIONS, f"--rdzv-conf=last_call_timeout={last_call}", f"--max-restarts={max_restarts}",
              f"--node-timeout={node_timeout}", *options, "sh", "-c", PROGRAM.format(last=last), nodes=nodes)
    # On one computer, the launcher that comes first listens.
    for number in (range(count, 0, -1) if hosts.are_apart else range(1, count + 1)):
        job.start(number)
        job.until(number, "job_started")
    return job.until_all_run()


def printed(ends: dict) -> list[str]:
    assert all(code == 0 for code, _, _ in ends.values()), ends
    return sorted(line for _, out, _ in ends.values() for line in out.splitlines())


def the_job_goes_on_when_the_first_node_is_killed(hosts: Hosts) -> None:
    for count in (2, 3):
        job = starts(hosts, count, "1:3" if count == 3 else "1:2")
        job.kill(1)
        ends = job.ends()
        if count == 2 and "reset by peer" in ends[2][2]:
            continue  # which proves nothing to one of two nodes
        assert printed(ends) == [f"attempt 1: rank {rank} of {count - 1}" for rank in range(count - 1)], ends
        for _, _, err in ends.values():
            assert "the first node (" in err and ") is lost: " in err, err
        assert sum("this node leads the job now" in err for _, _, err in ends.values()) == 1, ends


def children_of(process: subprocess.Popen) -> list[int]:
    return list(map(int, subprocess.run(["pgrep", "-P", str(process.pid)], capture_output=True, text=True).stdout.split()))


def its_guardian_may_outlive_it(hosts: Hosts) -> None:
    job = starts(hosts, 3, "2:3")
    guardian = job.launchers.pop(1)
    kill_all(children_of(guardian), signal.SIGKILL)
    guardian.communicate()
    assert printed(job.ends()) == ["attempt 1: rank 0 of 2", "attempt 1: rank 1 of 2"]


def the_successor_may_be_killed_too(hosts: Hosts) -> None:
    job = starts(hosts, 3, "1:3", last=2)
    job.kill(1)
    numbers = list(job.launchers)
    for number in numbers:
        job.until(number, "worker_started", count=2)
    job.kill(leading(job, numbers))
    assert printed(job.ends()) == ["attempt 2: rank 0 of 1"]


def leading(job: Job, numbers: list[int]) -> int:
    """Returns the node on which rank 0 runs."""
    return next(number for number in numbers if job.events(number, "worker_started")[-1]["rank"] == 0)


def a_first_node_that_is_started_again_joins_the_job(hosts: Hosts) -> None:
    job = starts(hosts, 3, "1:3", last_call=20)
    job.kill(1)
    job.start(1)
    assert printed(job.ends()) == [f"attempt 1: rank {rank} of 3" for rank in range(3)]


def nodes_that_come_to_the_endpoint_join_the_job(hosts: Hosts) -> None:
    if not hosts.are_apart:
        return
    job = starts(hosts, 3, "1:4", last_call=3)
    job.kill(1)
    time.sleep(0.2)
    job.start(4).start(1)
    # Node 4 finds node 1, which sends it on, at once or after it has joined.
    assert printed(job.ends()) == [f"attempt 1: rank {rank} of 4" for rank in range(4)]


def nodes_that_come_later_find_the_job_at_the_endpoint(hosts: Hosts) -> None:
    if not hosts.are_apart:
        return
    job = starts(hosts, 3, "1:4", last_call=1, last=2)
    job.kill(1)
    job.start(1)
    job.until_said(1, "store 10.77.0.")  # it takes part again
    job.start(4, "--rdzv-id=other")
    code, _, err = job.end_of(4)
    assert code == 125 and "it belongs to job 'other', and this is job 'none' (--rdzv-id)" in err, (code, err)
    job.start(4)
    job.until_said(4, "waits until it can join")
    job.kill(1)
    assert printed(job.ends()) == [f"attempt 2: rank {rank} of 3" for rank in range(3)]


def a_spare_node_takes_the_place_of_the_first_one(hosts: Hosts) -> None:
    job = starts(hosts, 2, "2:2")
    job.start(3)
    job.until_said(3, "waits until it can join")
    job.kill(1)
    assert printed(job.ends()) == ["attempt 1: rank 0 of 2", "attempt 1: rank 1 of 2"]


def a_user_who_ends_the_first_node_ends_the_job(hosts: Hosts) -> None:
    for times in (1, 2):
        job = starts(hosts, 3, "1:3")
        for _ in range(times):
            job.launchers[1].send_signal(signal.SIGINT)
            time.sleep(0.7)
        ends = job.ends()
        assert all(code in (-2, 130) and not out for code, out, _ in ends.values()), (times, ends)


def a_first_node_may_die_between_two_attempts(hosts: Hosts) -> None:
    job = starts(hosts, 3, "1:3", last_call=2)
    job.kill(3)
    until(lambda: job.events(2, "attempt_ended"), "the attempt ends")
    job.kill(1)
    assert printed(job.ends()) == ["attempt 1: rank 0 of 1"]


def a_first_node_that_is_cut_off_is_replaced_by_the_majority(hosts: Hosts) -> None:
    if not hosts.are_apart:
        return
    job = starts(hosts, 3, "1:3", node_timeout=3)
    hosts.cut(1)
    ends = {number: job.end_of(number) for number in (2, 3)}
    assert printed(ends) == ["attempt 1: rank 0 of 2", "attempt 1: rank 1 of 2"], ends
    code, out, err = job.end_of(1)
    hosts.mend(1)
    assert code == 125 and not out and "they may go on without it" in err, (code, out, err)


def a_first_node_that_freezes_is_replaced_by_the_majority(hosts: Hosts) -> None:
    job = starts(hosts, 3, "1:3", node_timeout=3)
    frozen = [job.launchers[1].pid, *children_of(job.launchers[1])]
    kill_all(frozen, signal.SIGSTOP)
    ends = {number: job.end_of(number) for number in (2, 3)}
    assert printed(ends) == ["attempt 1: rank 0 of 2", "attempt 1: rank 1 of 2"], ends
    kill_all(frozen, signal.SIGCONT)
    code, out, err = job.end_of(1)
    assert code == 125 and not out and "they may go on without it" in err, (code, out, err)


def a_witness_decides_between_two_nodes(hosts: Hosts) -> None:
    with tempfile.TemporaryDirectory() as folder:
        def with_witness() -> Job:
            return starts(hosts, 2, "1:2", node_timeout=3, options=[f"--witness={folder}"])

        def goes_on(job: Job, number: int) -> None:
            assert printed({number: job.end_of(number)}) == ["attempt 1: rank 0 of 1"]

        def has_ended(job: Job, number: int, why: str) -> None:
            code, out, err = job.end_of(number)
            assert code == 125 and not out and why in err, (code, out, err)

        with_frozen = with_witness()
        frozen = [with_frozen.launchers[1].pid, *children_of(with_frozen.launchers[1])]
        if hosts.are_apart:
            both_reach_it, one_reaches_it = with_witness(), with_witness()
            for words in (["--bind", folder], ["-o", "remount,ro,bind"]):
                sh("nsenter", "-t", one_reaches_it.launchers[1].pid, "-m", "mount", *words, folder)
            hosts.cut(1)
        kill_all(frozen, signal.SIGSTOP)
        goes_on(with_frozen, 2)
        kill_all(frozen, signal.SIGCONT)
        has_ended(with_frozen, 1, "it was too late to claim the job in the witness")
        if not hosts.are_apart:
            return
        goes_on(both_reach_it, 1)
        has_ended(both_reach_it, 2, "host1 (pid ")
        goes_on(one_reaches_it, 2)
        has_ended(one_reaches_it, 1, "Read-only file system")
        hosts.mend(1)


def a_job_that_cannot_go_on_ends(hosts: Hosts) -> None:
    # The launcher of another node is stopped meanwhile: one of two others is no majority.
    job = starts(hosts, 3, "1:3", node_timeout=3)
    stopped = children_of(job.launchers[2])
    kill_all(stopped, signal.SIGSTOP)
    job.kill(1)
    code, _, err = job.end_of(3)
    assert code == 125 and "too few to go on" in err, err
    kill_all(stopped, signal.SIGKILL)
    # Without restarts, nothing follows.
    job = starts(hosts, 2, "1:2", max_restarts=0)
    job.kill(1)
    code, _, err = job.ends()[2]
    # The connection is reset if the killed launcher had not read all of it.
    assert code == 125 and re.search("is lost: (it has closed the connection|Connection reset by peer)", err), err


if __name__ == "__main__":
    with Hosts(4) as rig:
        run_tests(rig, [test for name, test in list(globals().items())
                        if callable(test) and getattr(test, "__module__", "") == "__main__"
                        and name not in ("starts", "printed", "leading", "children_of")])
