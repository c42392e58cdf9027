#!/usr/bin/env python3
"""trace_test.py BIN_DIR [WORD]: the traces of whole jobs have the right form and show what has happened."""
import collections
import json
import os
import pathlib
import re
import signal
import subprocess
import sys
import tempfile


from node_rig import BIN, Hosts, Job, all_well, is_alive, run_tests, until

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
from chrome_trace import COLLECTIVES, JOB, PHASES, STEPS, Trace  # noqa: E402  (it is in another folder)

STEPS_OF_TRAINING = 60


def train(folder: str, *options: str, ranks: int = 4, steps: int = STEPS_OF_TRAINING) -> subprocess.CompletedProcess:
    command = [BIN / "ddplaunch", f"--nproc-per-node={ranks}", *options, BIN / "train_charlm", f"--steps={steps}",
               f"--checkpoint={folder}/model"]
    return subprocess.run(list(map(str, command)), capture_output=True, text=True, timeout=100)


def all_ranks_called(trace: Trace, ranks: int) -> dict[tuple[str, int], list[dict]]:
    """Returns the collectives of the world that all ranks have recorded, and checks that there are no others."""
    found = {key: slices for key, slices in trace.collectives().items() if key[0] == "world"}
    complete = {key: slices for key, slices in found.items() if len({event["pid"] for event in slices}) == ranks}
    assert len(complete) == len(found) > 0, found.keys() - complete.keys()
    return complete


def is_all_reduce(slices: list[dict]) -> bool:
    """An all-reduce ends on no rank before all ranks have called it."""
    return slices[0]["name"].startswith("all_reduce")


def a_job_of_four_ranks_is_traced_completely(hosts: Hosts) -> None:
    with tempfile.TemporaryDirectory() as folder:
        done = train(folder, "--record=all", f"--trace={folder}/trace.json")
        assert done.returncode == 0, done
        trace = Trace(f"{folder}/trace.json")
    assert trace.ranks() == [0, 1, 2, 3]
    assert trace.other["dropped_records"] == {} and trace.other["clock_error_ns"] == {}, trace.other
    for rank in range(4):
        steps = trace.of("X", pid=rank, tid=STEPS)
        assert [step["name"] for step in steps] == [f"step {n}" for n in range(1, STEPS_OF_TRAINING + 1)][-len(steps):], steps
        assert len(steps) >= STEPS_OF_TRAINING - 1, len(steps)
        assert trace.of("X", pid=rank, tid=PHASES), "a program begins with phases"
        label = [event["args"]["labels"] for event in trace.of("M", pid=rank, name="process_labels")]
        assert len(label) == 1 and re.fullmatch(r"pid \d+", label[0]), label
    calls = all_ranks_called(trace, 4)
    assert len(calls) >= STEPS_OF_TRAINING, len(calls)
    for slices in filter(is_all_reduce, calls.values()):
        assert max(event["ts"] for event in slices) <= min(event["ts"] + event.get("dur", 1e12) for event in slices), slices
    for slices in calls.values():
        assert len({event["name"] for event in slices}) == 1, slices
    assert trace.marks("attempt") == ["attempt 0 begins with 4 ranks", "attempt 0 has succeeded"]
    assert trace.of("C", pid=JOB, name="ranks waiting")


def a_sample_of_the_collectives_is_recorded_by_default(hosts: Hosts) -> None:
    with tempfile.TemporaryDirectory() as folder:
        done = train(folder, f"--trace={folder}/trace.json.gz", steps=300)
        assert done.returncode == 0, done
        trace = Trace(f"{folder}/trace.json.gz")
        done = train(folder, "--record=off", f"--trace={folder}/nothing.json")
        assert done.returncode == 0, done
        nothing = Trace(f"{folder}/nothing.json")
    numbers = {number for _, number in trace.collectives()}
    assert numbers and all(number // 32 % 8 == 0 for number in numbers), sorted(numbers)
    assert len(trace.of("X", pid=0, tid=STEPS)) >= 299
    assert not nothing.of("X") and nothing.marks("attempt")


def arrows_lead_from_the_rank_for_which_the_others_waited(hosts: Hosts) -> None:
    with tempfile.TemporaryDirectory() as folder:
        faults = [f"--inject=rank=2,at=all_reduce:{number},kind=delay=400ms" for number in (30, 40, 50)]
        done = train(folder, "--record=all", f"--trace={folder}/trace.json", *faults)
        assert done.returncode == 0, done
        trace = Trace(f"{folder}/trace.json")
    ends = {event["id"]: event for event in trace.of("f")}
    late_ranks = collections.defaultdict(list)  # by the number of the collective
    for begin in trace.of("s"):
        waited = next(event for event in trace.of("X", pid=ends[begin["id"]]["pid"], tid=ends[begin["id"]]["tid"])
                      if event["ts"] <= ends[begin["id"]]["ts"] <= event["ts"] + event["dur"])
        if begin["ts"] - waited["ts"] > 300_000:
            late_ranks[waited["args"]["number"]].append(begin["pid"])
    # On a busy computer, other ranks may be as late elsewhere. The last rank is the only one for which others wait.
    assert all(len(set(ranks)) == 1 for ranks in late_ranks.values()), late_ranks
    assert list(late_ranks.values()).count([2, 2, 2]) >= 3, late_ranks


def a_failure_and_what_ranks_have_not_finished_are_shown(hosts: Hosts) -> None:
    with tempfile.TemporaryDirectory() as folder:
        done = train(folder, "--record=all", "--max-restarts=1", f"--trace={folder}/trace.json",
                     "--inject=rank=1,at=all_reduce:40,kind=kill")
        assert done.returncode == 0, done
        trace = Trace(f"{folder}/trace.json")
        done = train(folder, "--hang-timeout=3", f"--trace={folder}/hang.json", "--inject=rank=1,at=all_reduce:40,kind=mutex")
        assert done.returncode == 124, done
        hang = Trace(f"{folder}/hang.json")
    assert any("rank 1" in text and "SIGKILL" in text for text in trace.marks("failure")), trace.marks("failure")
    assert len(trace.marks("attempt")) == 4 and trace.marks("restart"), trace.marks("attempt")
    assert len(trace.of("M", pid=0, name="process_labels")) == 2, "each attempt has other processes"
    assert any("rank 1 has not called all_reduce" in text for text in hang.marks("verdict")), hang.marks("verdict")
    for rank in (0, 2, 3):
        unfinished = hang.of("X", pid=rank, tid=COLLECTIVES, cat="unfinished")
        assert len(unfinished) >= 1 and unfinished[0]["dur"] > 1_000_000, (rank, unfinished)
        assert "all_reduce" in unfinished[0]["name"], unfinished
    assert not hang.of("X", pid=1, cat="unfinished", tid=COLLECTIVES), "rank 1 has not called it"


def a_killed_launcher_leaves_a_complete_trace(hosts: Hosts) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "trace.json.gz"
        log = pathlib.Path(folder) / "events"
        command = [BIN / "ddplaunch", "--nproc-per-node=2", f"--trace={path}", f"--event-log={log}", BIN / "train_charlm",
                   "--steps=1000000", f"--checkpoint={folder}/model", "--save-every=1000000"]
        launcher = subprocess.Popen(list(map(str, command)), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        until(lambda: path.exists() and path.stat().st_size and len(Trace(path).of("X", pid=0, tid=STEPS)) > 10, "steps in the trace")
        children = subprocess.run(["pgrep", "-P", str(launcher.pid)], capture_output=True, text=True).stdout.split()
        for pid in [*map(int, children), launcher.pid]:
            os.kill(pid, signal.SIGKILL)
        launcher.wait()
        assert len(Trace(path).of("X", pid=0, tid=STEPS)) > 10
        for line in log.read_text().splitlines():
            event = json.loads(line)
            if event["event"] == "worker_started":
                until(lambda: not is_alive(event["pid"]), event)


def a_trace_that_cannot_be_written_is_an_error_before_the_job(hosts: Hosts) -> None:
    done = train("/nowhere", "--trace=/nowhere/trace.json")
    assert done.returncode == 125 and "--trace=/nowhere/trace.json" in done.stderr, done


def the_ranks_of_all_nodes_are_on_one_time_axis(hosts: Hosts) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = f"{folder}/trace.json"
        job = Job(hosts, "--nproc-per-node=2", "--record=all", BIN / "train_charlm", f"--steps={STEPS_OF_TRAINING}",
                  "--checkpoint", f"{folder}/model")
        ends = job.start(1, f"--trace={path}").start(2, f"--trace={folder}/other.json").ends()
        all_well(ends)
        assert not pathlib.Path(f"{folder}/other.json").exists(), "only the first node writes the trace"
        trace = Trace(path)
    assert trace.ranks() == [0, 1, 2, 3]
    errors = trace.other["clock_error_ns"]
    assert len(errors) == 1 and 0 < next(iter(errors.values())) < 50_000_000, errors
    error = next(iter(errors.values())) / 1000
    calls = all_ranks_called(trace, 4)
    assert len(calls) >= STEPS_OF_TRAINING, len(calls)
    for slices in filter(is_all_reduce, calls.values()):
        latest = max(event["ts"] for event in slices)
        assert latest <= min(event["ts"] + event.get("dur", 1e12) for event in slices) + error, (error, slices)
    # The last records of the other node arrive after the end of its workers.
    for rank in range(4):
        assert trace.of("X", pid=rank, tid=STEPS)[-1]["name"] == f"step {STEPS_OF_TRAINING}", rank


def the_last_moments_of_another_node_are_in_the_trace(hosts: Hosts) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = f"{folder}/trace.json"
        job = Job(hosts, "--nproc-per-node=2", "--record=all", f"--inject=rank=3,at=all_reduce:50,kind=kill", BIN / "train_charlm",
                  "--steps=1000", "--checkpoint", f"{folder}/model")
        ends = job.start(1, f"--trace={path}").start(2).ends()
        assert all(code == 137 for code, _, _ in ends.values()), ends
        trace = Trace(path)
    last = {rank: max(event["args"]["number"] for event in trace.of("X", pid=rank, cat="collective")) for rank in range(4)}
    assert max(last.values()) - min(last.values()) <= 2, last
    assert any("rank 3" in text for text in trace.marks("failure")), trace.marks("failure")


def main() -> None:
    with Hosts(2) as hosts:
        run_tests(hosts, [a_job_of_four_ranks_is_traced_completely,
                          a_sample_of_the_collectives_is_recorded_by_default,
                          arrows_lead_from_the_rank_for_which_the_others_waited,
                          a_failure_and_what_ranks_have_not_finished_are_shown,
                          a_killed_launcher_leaves_a_complete_trace,
                          a_trace_that_cannot_be_written_is_an_error_before_the_job,
                          the_ranks_of_all_nodes_are_on_one_time_axis,
                          the_last_moments_of_another_node_are_in_the_trace])


if __name__ == "__main__":
    main()
