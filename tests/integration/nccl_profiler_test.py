#!/usr/bin/env python3
"""nccl_profiler_test.py BIN_DIR: tests what is said of programs that use NCCL and not the runtime. A fake NCCL
(tests/support/fake_gpu) loads the plug-in as NCCL does, in each version of its interface.

Prints a table: what rank 1 does, the version, the diagnosis, the ranks that are named, and the collective.
"""
import concurrent.futures
import json
import os
import pathlib
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
from event_lines import eventually_event, read_events  # noqa: E402
from ports import free_port  # noqa: E402

BIN = pathlib.Path(sys.argv[1])
PLUGIN = BIN / "libnccl-profiler-ddplaunch.so"
os.environ.setdefault("LD_LIBRARY_PATH", str(BIN.parent / "tests/fake_gpu"))
NEWEST = 7
# What hangs is terminated for the user's limit, unless it is certain that it hangs.
LIMIT = "--hang-timeout=8"

REDUCE = "all_reduce f32[1024]"
# What rank 1 does, with the step or the seconds; ranks; diagnosis; ranks that are named; what they have not called.
HANGS = [
    ("skip", 20, 3, "DDP-H03", [1], REDUCE),
    ("leave", 20, 3, "DDP-H01", [1], REDUCE),
    ("different", 20, 3, "DDP-H04", [1], REDUCE),
    ("grid", 20, 8, "DDP-H03", [1], REDUCE + " (#21 of ranks "),
    ("grid", 20, 4, "DDP-H03", [1], REDUCE + " (#21 of ranks "),
    ("broadcast", 20, 3, "DDP-H03", [1], "broadcast root 1 f32[1024]"),
    ("chain", 20, 4, "DDP-H03", [1], "send f32[1024] to rank 2"),
]
# Programs that end by themselves. In "count", rank 1 reduces half as much, and this NCCL does not mind.
HEALTHY = [("none", 20, 3), ("count", 20, 3), ("slow", 2, 2), ("slow_grid", 2, 4), ("graph", 20, 3), ("root", 20, 3)]


def launch(folder: str, kind: str, step: int, ranks: int, version: int, *options: str, **variables: str):
    environment = {**os.environ, **variables, "HANG_FOLDER": folder, "FAKE_NCCL_PROFILER": str(version),
                   "NCCL_PROFILER_PLUGIN": str(PLUGIN)}
    return subprocess.Popen([BIN / "ddplaunch", f"--nproc-per-node={ranks}", LIMIT, f"--event-log={folder}/events", *options,
                             BIN / "nccl_program", kind, str(step)],
                            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment)


def stalls_of(log: pathlib.Path) -> list[dict]:
    return [event["stall"] for event in read_events(log) if event["event"] == "hang" and event["state"] in ("hung", "stalled")]


def hangs(row: tuple, version: int) -> str:
    kind, step, ranks, code, culprits, call = row
    with tempfile.TemporaryDirectory() as folder:
        job = launch(folder, kind, step, ranks, version)
        out, err = job.communicate(timeout=100)
        seen = stalls_of(pathlib.Path(folder) / "events")
    assert job.returncode == 124, (kind, version, job.returncode, err)
    last = seen[-1]
    assert (last["code"], last["culprits"]) == (code, culprits), (kind, version, last, err)
    assert call in err, (kind, version, err)
    assert all(stall["culprits"] == culprits for stall in seen), (kind, version, [stall["culprits"] for stall in seen])
    return f"{kind:10} v{version}  {code}  rank {culprits[0]}  {call}"


def is_not_disturbed(row: tuple, version: int) -> str:
    kind, step, ranks = row
    with tempfile.TemporaryDirectory() as folder:
        job = launch(folder, kind, step, ranks, version)
        out, err = job.communicate(timeout=100)
        seen = stalls_of(pathlib.Path(folder) / "events")
    assert job.returncode == 0 and "done" in out, (kind, version, job.returncode, err)
    assert not [stall for stall in seen if stall["ends_job"]], (kind, version, seen)
    return f"{kind:10} v{version}  healthy"


def kill_is_a_failure() -> str:
    with tempfile.TemporaryDirectory() as folder:
        job = launch(folder, "kill", 20, 3, 6)
        _, err = job.communicate(timeout=100)
    assert job.returncode == 137 and "rank 1" in err and "SIGKILL" in err, (job.returncode, err)
    return "kill       v6  the rank that was killed is named"


def a_kernel_that_hangs_is_named_in_the_next_attempt(version: int) -> str:
    """All ranks have called #21, and the kernel of rank 1 does not end. In the attempt after that, kernels are followed."""
    with tempfile.TemporaryDirectory() as folder:
        job = launch(folder, "none", 0, 3, version, "--max-restarts=1", FAKE_NCCL_HANG="1:21:2")
        _, err = job.communicate(timeout=100)
        seen = stalls_of(pathlib.Path(folder) / "events")
    assert job.returncode == 124, (version, err)
    assert seen[-1]["code"] == "DDP-H07", (version, seen[-1])
    assert f"all ranks have called {REDUCE} (#21 of world), which is done on ranks 0, 2 only" in err, err
    assert f"waits in {REDUCE} #21; its GPU is executing #21" in err, err
    assert "PyTorch" not in err, err
    return f"kernel     v{version}  DDP-H07  done on ranks 0, 2 only  {REDUCE}"


def a_healthy_attempt_after_a_hang_is_not_disturbed(version: int) -> str:
    with tempfile.TemporaryDirectory() as folder:
        job = launch(folder, "slow", 2, 3, version, "--max-restarts=1", FAKE_NCCL_HANG="1:21:1")
        out, err = job.communicate(timeout=100)
    assert job.returncode == 0 and "done" in out and "DDP-H03" in err, (version, job.returncode, err)
    return f"slow       v{version}  healthy, with kernels followed"


def a_stopped_rank_is_reported() -> str:
    """Time stands still as long as a rank is stopped, so the job is not ended."""
    with tempfile.TemporaryDirectory() as folder:
        job = launch(folder, "stop", 20, 3, 6)
        of_stops = lambda: [event for event in read_events(f"{folder}/events") if event.get("state") == "stopped"]
        seen = eventually_event(of_stops, job, "a report")
        job.terminate()
        job.communicate(timeout=100)
    assert [event["stall"]["culprits"] for event in seen] == [[1]], seen
    return "stop       v6  DDP-H02  rank 1"


def two_nodes_see_one_communicator() -> str:
    meet = ["--nnodes=2", f"--rdzv-endpoint=127.0.0.1:{free_port()}"]
    with tempfile.TemporaryDirectory() as folder:
        jobs = []
        for node in range(2):
            (pathlib.Path(folder) / str(node)).mkdir()
            jobs.append(launch(folder, "skip", 20, 2, 6, *meet, f"--node-rank={node}", f"--event-log={folder}/{node}/events"))
        errors = [job.communicate(timeout=100)[1] for job in jobs]
        seen = stalls_of(pathlib.Path(folder) / "0/events")
    assert [job.returncode for job in jobs] == [124, 124], errors
    assert seen[-1]["code"] == "DDP-H03" and seen[-1]["culprits"] == [1], seen
    assert REDUCE in errors[0] and "ranks 0, 2, 3 wait" in errors[0], errors
    return "skip       v6  DDP-H03  rank 1, on two nodes"


def without_a_launcher_nothing_happens() -> str:
    with tempfile.TemporaryDirectory() as folder:
        environment = {**os.environ, "HANG_FOLDER": folder, "NCCL_PROFILER_PLUGIN": str(PLUGIN), "WORLD_SIZE": "2"}
        ranks = [subprocess.Popen([BIN / "nccl_program", "none"], stdout=subprocess.PIPE, text=True,
                                  env={**environment, "RANK": str(rank), "LOCAL_RANK": str(rank)}) for rank in range(2)]
        assert [rank.wait(timeout=60) for rank in ranks] == [0, 0]
    return "none       v6  without a launcher"


def report_and_trace_show_the_calls() -> str:
    with tempfile.TemporaryDirectory() as folder:
        job = launch(folder, "none", 20, 3, 6, f"--trace={folder}/trace.json", f"--report={folder}/report.html")
        _, err = job.communicate(timeout=100)
        assert job.returncode == 0, err
        trace = json.loads(pathlib.Path(f"{folder}/trace.json").read_text())
        report = pathlib.Path(f"{folder}/report.html").read_text()
    calls = [event for event in trace["traceEvents"] if "all_reduce" in event.get("name", "")]
    assert len(calls) == 3 * 31, len(calls)  # a sample: see is_sampled()
    assert "all_reduce" in report
    return "none       v6  in the trace and in the report"


def main() -> None:
    # Versions 3 and 4 show launches, and later ones calls. Versions 1 and 2 judge nothing (decision 0074).
    tasks = [lambda row=row, version=version: hangs(row, version) for row in HANGS
             for version in (range(3, NEWEST + 1) if row[0] == "skip" else (3, NEWEST))]
    tasks += [lambda row=row, version=version: is_not_disturbed(row, version) for row in HEALTHY
              for version in (range(1, NEWEST + 1) if row[0] == "none" else (4, NEWEST))]
    tasks += [lambda version=version: a_kernel_that_hangs_is_named_in_the_next_attempt(version) for version in (4, NEWEST)]
    tasks += [lambda version=version: a_healthy_attempt_after_a_hang_is_not_disturbed(version) for version in (4, NEWEST)]
    tasks += [kill_is_a_failure, a_stopped_rank_is_reported, two_nodes_see_one_communicator, without_a_launcher_nothing_happens,
              report_and_trace_show_the_calls]
    with concurrent.futures.ThreadPoolExecutor(10) as pool:
        for done in concurrent.futures.as_completed([pool.submit(task) for task in tasks]):
            print(done.result(), flush=True)


main()
