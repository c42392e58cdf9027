#!/usr/bin/env python3
"""node_leaves_test.py BIN_DIR: tests which nodes may leave an elastic job because their launcher was asked to end."""
import os
import pathlib
import signal
import sys
import tempfile

from node_rig import Hosts, Job, run_tests

BINDINGS = pathlib.Path(__file__).resolve().parents[2] / "bindings" / "python"
# Attempt 0 runs until it is asked to end. Later attempts succeed.
PROGRAM = "[ $DDP_ATTEMPT = 0 ] && exec sleep 1000; echo attempt $DDP_ATTEMPT: rank $RANK of $WORLD_SIZE"
OPTIONS = ("--nproc-per-node=1", "--max-restarts=3", "--rdzv-conf=last_call_timeout=2", "--no-collapse", "--tag=")
# Both ranks save and leave when one of them is asked to, in attempt 0. The flag stands for a reduction.
SAVES = """
import os, pathlib, sys, time
import ddp_page
folder, attempt = pathlib.Path(sys.argv[1]), os.environ["DDP_ATTEMPT"]
ddp_page.progress(1, 100000)
(folder / f"ready{attempt}.{os.environ['RANK']}").touch()
while attempt == "0" and not (folder / "leave").exists():
    if ddp_page.should_stop():
        (folder / "leave").touch()
    time.sleep(0.02)
print(f"attempt {attempt}: rank {os.environ['RANK']} of {os.environ['WORLD_SIZE']}", flush=True)
"""


def starts(hosts: Hosts, nodes: str, *words: object, options: tuple = ()) -> Job:
    """Starts node 1 last, so that attempt 0 begins with both nodes."""
    job = Job(hosts, *OPTIONS, *options, *(words or ("sh", "-c", PROGRAM)), nodes=nodes).start(2)
    job.until(2, "job_started")
    return job.start(1).until_all_run()


def one_node_leaves_and_the_job_goes_on(hosts: Hosts) -> None:
    for request, leaver in ((signal.SIGTERM, 2), (signal.SIGINT, 2), (signal.SIGHUP, 2), (signal.SIGTERM, 1)):
        job = starts(hosts, "1:2")
        job.launchers[leaver].send_signal(request)
        ends = job.ends()
        code, out, err = ends[3 - leaver]
        assert ends[leaver][0] == -request, (request, ends)
        assert code == 0 and out.splitlines() == ["attempt 1: rank 0 of 1"], (request, ends)
        assert "left: terminated by" in err, (request, ends)


def the_job_ends_if_it_cannot_go_on(hosts: Hosts) -> None:
    for nodes, target, request in (("1:2", 1, signal.SIGINT), ("2:2", 1, signal.SIGTERM), ("2:2", 2, signal.SIGTERM)):
        job = starts(hosts, nodes)
        job.launchers[target].send_signal(request)
        ends = job.ends()
        for number, (code, _, err) in ends.items():
            is_same = code == (-request if number == target else 128 + request)
            assert is_same and f"terminated by {request.name}" in err, (nodes, target, ends)


def a_signal_to_all_nodes_ends_the_job(hosts: Hosts) -> None:
    job = starts(hosts, "1:2")
    for number in (2, 1):
        job.launchers[number].send_signal(signal.SIGTERM)
    ends = job.ends()
    assert all(code in (-15, 143) and not out for code, out, _ in ends.values()), ends


def a_node_that_has_saved_leaves(hosts: Hosts) -> None:
    with tempfile.TemporaryDirectory() as folder:
        program = pathlib.Path(folder) / "program.py"
        program.write_text(SAVES)
        os.environ["PYTHONPATH"] = str(BINDINGS)
        job = starts(hosts, "1:2", sys.executable, program, folder, options=("--save-grace=60",))
        while not all((pathlib.Path(folder) / f"ready0.{rank}").exists() for rank in range(2)):
            job.until_all_run()
        job.launchers[2].send_signal(signal.SIGTERM)
        ends = job.ends()
    assert ends[2][0] == 75 and ends[1][0] == 0, ends
    assert "attempt 1: rank 0 of 1" in ends[1][1], ends


if __name__ == "__main__":
    with Hosts(2) as rig:
        run_tests(rig, [one_node_leaves_and_the_job_goes_on, the_job_ends_if_it_cannot_go_on,
                        a_signal_to_all_nodes_ends_the_job, a_node_that_has_saved_leaves])
