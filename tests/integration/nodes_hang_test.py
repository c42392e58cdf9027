#!/usr/bin/env python3
"""nodes_hang_test.py BIN_DIR [WORD]: if something fails between ranks of several nodes, all nodes name the rank.
Each node has either one rank, so that no node can detect the fault alone, or two."""
import re
import signal
import tempfile
import time

from node_rig import BIN, Hosts, Job, all_well, run_tests, same_end


def training(hosts: Hosts, fault: str, workers: int) -> Job:
    with tempfile.TemporaryDirectory() as folder:
        job = Job(hosts, f"--nproc-per-node={workers}", "--hang-timeout=8", f"--inject={fault}", BIN / "train_charlm", "--steps",
                  "4000", "--checkpoint", f"{folder}/model").start(1).start(2)
        job.results = job.ends()
    return job


def a_rank_alone_on_its_node_is_named_when_it_hangs(hosts: Hosts) -> None:
    job = Job(hosts, "--nproc-per-node=1", "--hang-timeout=6", BIN / "hanging_worker", "pause").start(1).start(2)
    ends = job.ends()
    same_end(ends, 124, "rank 1 has not called all_reduce sum f32[1024] ('bucket 0') (#21 of world), in which rank 0 waits")
    report = ends[1][2]
    # The report shows what rank 1 does instead, and its stack, from the other node.
    assert re.search(r"rank 1 \(node \S+, pid \d+\): training; last call: .* #20 at hanging_worker.cpp", report), report
    assert "rank 1: pause ←" in report, report


def calls_that_differ_between_nodes_end_the_job_at_once(hosts: Hosts) -> None:
    for kind, verdict in {"shape": "DDP-H05", "swap": "DDP-H04", "skip": "DDP-H04"}.items():
        job = training(hosts, f"rank=1,at=all_reduce:50,kind={kind}", 1)
        same_end(job.results, 124, verdict)
        assert re.search(r"rank 0 called .*, and rank 1 called .*, as #56 of ", job.results[1][2]), (kind, job.results)


def calls_that_differ_are_described_where_the_first_node_calls_last(hosts: Hosts) -> None:
    job = Job(hosts, "--nproc-per-node=1", "--inject=rank=1,at=all_reduce:50,kind=shape",
              "--inject=rank=0,at=all_reduce:50,kind=delay=500ms", BIN / "train_charlm", "--steps", "4000")
    ends = job.start(1).start(2).ends()
    same_end(ends, 124, "DDP-H05")
    assert re.search(r"rank 0 called all_reduce .*, and rank 1 called all_reduce .*, as #56 of ", ends[1][2]), ends


def of_four_ranks_the_one_that_differs_is_named(hosts: Hosts) -> None:
    for rank in (1, 2):
        job = training(hosts, f"rank={rank},at=all_reduce:50,kind=swap", 2)
        report = "".join(err for _, _, err in job.results.values())
        assert re.search(rf"rank {rank} (called |\(pid \d+\) failed)", report), (rank, job.results)
        assert len({code for code, _, _ in job.results.values()}) == 1, job.results


def a_rank_that_ends_with_0_in_the_middle_is_the_cause(hosts: Hosts) -> None:
    for workers, rank in ((1, 1), (2, 2)):
        job = training(hosts, f"rank={rank},at=all_reduce:50,kind=exit0", workers)
        assert all(code == 124 for code, _, _ in job.results.values()), job.results
        report = "".join(err for _, _, err in job.results.values())
        early = rf"rank {rank}(: exit code 0 before| \(pid \d+\) exited too early)"
        assert re.search(early, report), (rank, job.results)


def a_question_to_the_first_node_is_answered_with_the_ranks_of_all(hosts: Hosts) -> None:
    job = Job(hosts, "--nproc-per-node=1", "--hang-timeout=600", BIN / "hanging_worker", "pause").start(1).start(2)
    job.until(1, "hang")  # the launcher has reported that the rank waits
    job.launchers[1].send_signal(signal.SIGQUIT)
    job.until(1, "hang", 2)
    asked = job.events(1, "hang")[-1]["stall"]
    assert sorted(rank["rank"] for rank in asked["ranks"]) == [0, 1], asked
    assert [rank for rank in asked["ranks"] if "node" in rank], asked
    assert {stack["rank"] for stack in asked["stacks"] if stack["threads"]} == {0, 1}, asked
    job.launchers[1].terminate()
    job.ends()


def ranks_that_do_not_exit_get_the_exit_timeout_on_all_nodes(hosts: Hosts) -> None:
    program = "[ $RANK = 1 ] && exec sleep 1000; exit 0"
    job = Job(hosts, "--nproc-per-node=1", "--exit-timeout=2", "sh", "-c", program).start(1).start(2)
    same_end(job.ends(), 124, "rank 1")


def output_is_gathered_at_the_first_node(hosts: Hosts) -> None:
    program = "for i in $(seq 3000); do echo line $i of $RANK; done; echo error of $RANK >&2; printf 'no end'"
    job = Job(hosts, "--nproc-per-node=2", "--gather-output", "--lossless", "--no-collapse", "sh", "-c", program).start(1).start(2)
    ends = job.ends()
    all_well(ends)
    _, out, err = ends[1]
    assert ends[2][1] == "", ends[2]
    for rank in range(4):
        lines = re.findall(rf"^\[\S+ {rank}\] line (\d+) of {rank}$", out, re.MULTILINE)
        assert lines == [str(i) for i in range(1, 3001)], (rank, len(lines))
        assert re.search(rf"^\[\S+ {rank}\] error of {rank}$", err, re.MULTILINE), err
        assert re.search(rf"^\[\S+ {rank}\] no end$", out, re.MULTILINE), out[-500:]


def constant_output_does_not_delay_the_timers_of_the_coordinator(hosts: Hosts) -> None:
    program = "[ $RANK = 1 ] && exec timeout 6 yes; sleep 6"
    job = Job(hosts, "--nproc-per-node=1", "--gather-output", "--node-timeout=5", "--no-collapse", "sh", "-c", program)
    job.start(1).start(2)
    ends = job.ends()
    assert {code for code, _, _ in ends.values()} == {124}, {number: (code, err) for number, (code, _, err) in ends.items()}
    assert re.search(r"rank 1 .*exit code 124", ends[2][2]), ends[2][2]
    assert "lost" not in ends[2][2], ends[2][2]


if __name__ == "__main__":
    with Hosts(2) as rig:
        run_tests(rig, [a_rank_alone_on_its_node_is_named_when_it_hangs, calls_that_differ_between_nodes_end_the_job_at_once,
                        calls_that_differ_are_described_where_the_first_node_calls_last,
                        of_four_ranks_the_one_that_differs_is_named, a_rank_that_ends_with_0_in_the_middle_is_the_cause,
                        a_question_to_the_first_node_is_answered_with_the_ranks_of_all,
                        ranks_that_do_not_exit_get_the_exit_timeout_on_all_nodes, output_is_gathered_at_the_first_node,
                        constant_output_does_not_delay_the_timers_of_the_coordinator])
