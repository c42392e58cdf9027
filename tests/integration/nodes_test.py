#!/usr/bin/env python3
"""nodes_test.py BIN_DIR [WORD]: tests jobs on several nodes. Without network namespaces, tests that need a cut cable
are skipped."""
import os
import re
import signal
import subprocess
import tempfile
import time

from node_rig import BIN, Hosts, Job, all_well, run_tests, same_end

SHOW = "echo node=$GROUP_RANK of $GROUP_WORLD_SIZE rank=$RANK of $WORLD_SIZE at $MASTER_ADDR:$MASTER_PORT if=$GLOO_SOCKET_IFNAME"


def nodes_get_their_ranks(hosts: Hosts) -> None:
    job = Job(hosts, "--no-collapse", "--tag=", "sh", "-c", SHOW)
    ends = job.start(1, "--nproc-per-node=1").start(2, "--nproc-per-node=2").ends()
    all_well(ends)
    interface = "eth0" if hosts.are_apart else "lo"
    lines = sorted("".join(out for _, out, _ in ends.values()).splitlines())
    ranks = [re.match(r"node=(\d) of 2 rank=(\d) of 3 at (\S+) if=(\S+)$", line).groups() for line in lines]
    assert [rank[1] for rank in ranks] == ["0", "1", "2"], lines
    assert {rank[2:] for rank in ranks} == {(job.endpoint, interface)}, lines
    if hosts.are_apart:
        # The node that can listen at the endpoint is node 0, even if it starts last.
        assert [rank[0] for rank in ranks] == ["0", "1", "1"], lines


def numbers_that_are_given_are_kept(hosts: Hosts) -> None:
    job = Job(hosts, "--no-collapse", "--tag=", "--nproc-per-node=1", "sh", "-c", SHOW, nodes="3")
    ends = job.start(3, "--node-rank=1").start(2, "--node-rank=2").start(1, "--node-rank=0").ends()
    assert {number: out.split()[0] for number, (_, out, _) in ends.items()} == {1: "node=0", 2: "node=2", 3: "node=1"}, ends


def notes_about_the_job_are_shown_by_the_first_node_only(hosts: Hosts) -> None:
    about_job = ["--save-file=/none has no effect"] + (["using OMP_NUM_THREADS="] if "OMP_NUM_THREADS" not in os.environ else [])
    about_node = re.compile(r"note: node (\S+): VIRTUAL_ENV=/nowhere has no bin/python")
    for verbose in ((), ("--verbose",)):
        job = Job(hosts, "--nproc-per-node=2", "--save-file=/none", "--module", "platform")
        job.start(1, environment={"VIRTUAL_ENV": ""}).start(2, *verbose, environment={"VIRTUAL_ENV": "/nowhere"})
        ends = job.ends()
        all_well(ends)
        errors = {number: err for number, (_, _, err) in ends.items()}
        for text in about_job:
            assert sum(err.count(f"note: {text}") for err in errors.values()) == 1, (text, errors)
            if hosts.are_apart:  # the first node is host 1
                assert f"note: {text}" in errors[1] and (text in errors[2]) == bool(verbose), (text, errors)
        assert not about_node.search(errors[1]) and about_node.search(errors[2]), errors
        assert not hosts.are_apart or about_node.search(errors[2])[1] == "host2", errors


def a_node_that_does_not_find_the_first_one_shows_its_notes(hosts: Hosts) -> None:
    if not hosts.are_apart:
        return  # the only launcher would be the first node
    job = Job(hosts, "--rdzv-conf=join_timeout=500ms", "--save-file=/none", "true").start(2)
    code, _, err = job.ends()[2]
    assert code == 125 and err.count("note: --save-file=/none has no effect") == 1, (code, err)


def training_on_two_nodes_is_that_of_one(hosts: Hosts) -> None:
    losses = []
    with tempfile.TemporaryDirectory() as folder:
        alone = subprocess.run([BIN / "ddplaunch", "--nproc-per-node=4", BIN / "train_charlm", "--steps", "40", "--checkpoint",
                                f"{folder}/one"], capture_output=True, text=True, timeout=300)
        losses.append(re.findall(r"loss (\S+)", alone.stdout)[-1])
        job = Job(hosts, "--nproc-per-node=2", BIN / "train_charlm", "--steps", "40", "--checkpoint", f"{folder}/two")
        ends = job.start(1).start(2).ends()
        all_well(ends)
        losses.append(re.findall(r"loss (\S+)", "".join(out for _, out, _ in ends.values()))[-1])
    assert losses[0] == losses[1], losses


def a_failure_ends_all_nodes(hosts: Hosts) -> None:
    job = Job(hosts, "--nproc-per-node=2", "sh", "-c", "[ $RANK != 3 ] && exec sleep 1000; sleep 1; exit 7")
    job.start(1).start(2)
    job.until(2, "worker_ended")
    ends = job.ends()
    same_end(ends, 7, "exit code 7")
    assert any(re.search(r"node \S+: rank 3: exit code 7", err) for _, _, err in ends.values()), ends


def a_signal_ends_all_nodes(hosts: Hosts) -> None:
    for target in (1, 2):
        job = Job(hosts, "--nproc-per-node=1", "sleep", "1000").start(1).start(2)
        job.until_all_run()
        job.launchers[target].send_signal(signal.SIGTERM)
        ends = job.ends()
        for number, (returned, _, err) in ends.items():
            assert returned == (-15 if number == target else 143) and "terminated by SIGTERM" in err, (target, ends)


def a_launcher_that_is_killed_ends_all_nodes(hosts: Hosts) -> None:
    for target in (1, 2):
        job = Job(hosts, "--nproc-per-node=1", "sleep", "1000").start(1).start(2)
        job.until_all_run()
        job.kill(target)
        ends = job.ends()
        code, _, err = ends[3 - target]
        assert code == 125 and "lost: " in err, (target, ends)


def a_hang_is_named_by_the_node_that_knows(hosts: Hosts) -> None:
    job = Job(hosts, "--nproc-per-node=2", "--hang-timeout=6", BIN / "hanging_worker", "pause").start(1).start(2)
    same_end(job.ends(), 124, "rank 1 has not called all_reduce sum f32[1024] ('bucket 0') (#21 of world)")


def a_cut_cable_ends_both_sides(hosts: Hosts) -> None:
    job = Job(hosts, "--nproc-per-node=1", "--node-timeout=3", "sleep", "1000").start(1).start(3)
    job.until_all_run()
    hosts.cut(3)
    ends = job.ends()
    same_end(ends, 125, "it has sent nothing for 3.0 s")
    hosts.mend(3)


def another_attempt_begins_on_all_nodes(hosts: Hosts) -> None:
    program = "[ $TORCHELASTIC_RESTART_COUNT = 0 ] && [ $RANK = 1 ] && exit 3; sleep 0.5; echo done in attempt $DDP_ATTEMPT"
    job = Job(hosts, "--nproc-per-node=1", "--max-restarts=2", "sh", "-c", program)
    ends = job.start(1).start(2).ends()
    assert all(code == 0 and "done in attempt 1" in out for code, out, _ in ends.values()), ends


def a_spare_takes_the_place_of_a_node_that_is_lost(hosts: Hosts) -> None:
    program = "[ $TORCHELASTIC_RESTART_COUNT = 0 ] && exec sleep 1000; echo rank $RANK of $WORLD_SIZE"
    job = Job(hosts, "--nproc-per-node=1", "--max-restarts=2", "sh", "-c", program).start(1).start(2)
    job.until_all_run()
    job.start(3)
    job.until_said(3, "waits until it can join")
    job.kill(2)
    ends = job.ends()
    all_well(ends)
    assert sorted(out.split("rank ")[-1] for _, out, _ in ends.values()) == ["0 of 2\n", "1 of 2\n"], ends


def a_node_that_does_not_belong_is_sent_away(hosts: Hosts) -> None:
    job = Job(hosts, "--nproc-per-node=1", nodes="2").start(1, "--node-rank=0", "sleep", "1000")
    job.start(2, "--node-rank=1", "--rdzv-id=other", "sleep", "1000")
    code, _, err = job.end_of(2)
    job.launchers.pop(2)
    assert code == 125 and "it belongs to job 'other', and this is job 'none' (--rdzv-id)" in err, err
    job.launchers[1].terminate()
    same_end(job.ends(), -15, "was refused")


def a_node_searches_for_the_first_one_longer_than_the_node_timeout(hosts: Hosts) -> None:
    job = Job(hosts, "--nproc-per-node=1", "--node-timeout=3", "true").start(2, "--node-rank=1")
    time.sleep(5)
    ends = job.start(1, "--node-rank=0").ends()
    assert all(code == 0 for code, _, _ in ends.values()) and "looking for the first node" in ends[2][2], ends


def a_node_that_never_joins_is_named_in_the_error(hosts: Hosts) -> None:
    job = Job(hosts, "--nproc-per-node=1", "--rdzv-conf=join_timeout=5", "sleep", "1000").start(1)
    same_end(job.ends(), 125, "only 1 node of 2 joined within 5.0 s")
    nobody = Job(hosts, "--nproc-per-node=1", "--rdzv-conf=join_timeout=5", "sleep", "1000").start(2, "--node-rank=1")
    same_end(nobody.ends(), 125, "not found within 5.0 s")


def a_node_that_was_lost_returns(hosts: Hosts) -> None:
    program = """[ $DDP_ATTEMPT = 0 ] && exec sleep 1000
        while [ $DDP_ATTEMPT = 1 ] && [ ! -e $0 ]; do sleep 0.05; done
        echo attempt $DDP_ATTEMPT: rank $RANK of $WORLD_SIZE; [ $DDP_ATTEMPT = 2 ] || exit 3"""
    with tempfile.TemporaryDirectory() as folder:
        job = Job(hosts, "--nproc-per-node=1", "--max-restarts=3", "--rdzv-conf=last_call_timeout=2", "--no-collapse", "--tag=",
                  "sh", "-c", program, f"{folder}/fail", nodes="1:2")
        job.start(2).until(2, "job_started")
        job.start(1).until_all_run()
        job.kill(2)
        job.until(1, "worker_started", 2)
        job.start(2).until_said(2, "waits until it can join")
        open(f"{folder}/fail", "x").close()
        ends = job.ends()
    all_well(ends)
    assert ends[1][1].splitlines() == ["attempt 1: rank 0 of 1", "attempt 2: rank 0 of 2"], ends
    assert ends[2][1].splitlines() == ["attempt 2: rank 1 of 2"], ends


def a_frozen_host_is_lost_and_ends_its_workers_when_it_continues(hosts: Hosts) -> None:
    for frozen in (1, 2):
        job = Job(hosts, "--nproc-per-node=2", "--node-timeout=3", "sleep", "1000").start(1).start(2)
        for number in (1, 2):
            job.until(number, "worker_started", 2)
        hosts.kill(frozen, signal.SIGSTOP)
        code, _, err = job.end_of(3 - frozen)
        assert code == 125 and "it has sent nothing for 3.0 s" in err, (frozen, code, err)
        assert len(hosts.pids(frozen)) == 4, (frozen, hosts.pids(frozen))
        hosts.kill(frozen, signal.SIGCONT)
        code, _, err = job.end_of(frozen)
        assert code == 125 and "lost: " in err, (frozen, code, err)
        job.nothing_survives()


def eight_nodes_of_unequal_sizes_form_a_job(hosts: Hosts) -> None:
    job = Job(hosts, "--no-collapse", "--tag=", "sh", "-c", "echo $GROUP_RANK $LOCAL_WORLD_SIZE $LOCAL_RANK $RANK $WORLD_SIZE",
              nodes="8")
    sizes = {1: 3, 2: 1, 3: 7, 4: 2, 5: 6, 6: 4, 7: 5, 8: 1}
    for number, workers in sizes.items():
        job.start(number, f"--nproc-per-node={workers}")
    ends = job.ends()
    all_well(ends)
    workers = sorted([int(word) for word in line.split()] for _, out, _ in ends.values() for line in out.splitlines())
    assert [row[3] for row in workers] == list(range(29)), workers
    assert sorted(row[1] for row in workers if row[2] == 0) == sorted(sizes.values()), workers
    for node, size, local, _, world in workers:
        assert world == 29 and local < size and sum(row[0] == node for row in workers) == size, workers


if __name__ == "__main__":
    with Hosts(8) as rig:
        run_tests(rig, [nodes_get_their_ranks, numbers_that_are_given_are_kept,
                        notes_about_the_job_are_shown_by_the_first_node_only,
                        a_node_that_does_not_find_the_first_one_shows_its_notes, training_on_two_nodes_is_that_of_one,
                        a_failure_ends_all_nodes, a_hang_is_named_by_the_node_that_knows, a_signal_ends_all_nodes,
                        a_launcher_that_is_killed_ends_all_nodes, another_attempt_begins_on_all_nodes,
                        a_spare_takes_the_place_of_a_node_that_is_lost, a_node_that_was_lost_returns,
                        a_node_that_does_not_belong_is_sent_away,
                        a_node_searches_for_the_first_one_longer_than_the_node_timeout,
                        a_node_that_never_joins_is_named_in_the_error, eight_nodes_of_unequal_sizes_form_a_job,
                        *([a_frozen_host_is_lost_and_ends_its_workers_when_it_continues,
                        a_cut_cable_ends_both_sides] if rig.are_apart else [])])
