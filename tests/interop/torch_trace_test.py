"""Tests that the trace of an unchanged PyTorch program shows when its collectives begin and end, also those that
DistributedDataParallel calls in C++, and that it shows the steps of its optimizers, of which there are two.

    torch_trace_test.py DDPLAUNCH

Runs with the PyTorch of the environment "pytorch", whose flight recorder records Gloo.
"""
import collections
import json
import os
import pathlib
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
import environments  # noqa: E402  (it is in another folder)
from chrome_trace import Trace  # noqa: E402

STEPS = 60
PROGRAM = f"""
import time, torch, torch.distributed as dist
import ddp_page  # is there without an installation
dist.init_process_group("gloo")
model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(64, 64))
groups = [dist.new_group([0, 1]) for _ in range(2)]  # whose calls follow each other closely
optimizers = [torch.optim.SGD(model.parameters(), lr=0.01), torch.optim.Adam(model.parameters())]
time.sleep(2)  # the observer has seen the groups
for step in range({STEPS}):
    model(torch.randn(8, 64)).sum().backward()
    if dist.get_rank() == 1:
        time.sleep(0.03)
    works = [dist.all_reduce(torch.ones(4), group=group, async_op=True) for group in groups]
    for work in works:
        work.wait()
    for optimizer in optimizers:
        optimizer.step()
time.sleep(2)
dist.destroy_process_group()
"""


def main() -> None:
    python = environments.need("pytorch")
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder, "trace.json")
        log = pathlib.Path(folder, "events.jsonl")
        program = pathlib.Path(folder, "program.py")
        program.write_text(PROGRAM)
        job = subprocess.run([sys.argv[1], "--nproc-per-node=2", "--record=all", f"--trace={path}",
                              f"--event-log={log}", python, program],
                             env=dict(os.environ, OMP_NUM_THREADS="1"), text=True, timeout=240, stdin=subprocess.DEVNULL,
                             stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)
        assert job.returncode == 0, job.stdout
        trace = Trace(path)
        history = next(event for event in map(json.loads, log.read_text().splitlines()) if event["event"] == "history")
    assert trace.ranks() == [0, 1]
    calls = collections.defaultdict(list)
    for event in trace.of("X", cat="collective"):
        calls[event["args"]["group"], event["args"]["number"]].append(event)
    groups = collections.Counter(group for group, number in calls)
    assert len(groups) == 3 and all(count >= STEPS for count in groups.values()), groups
    for key, slices in calls.items():
        assert sorted(event["pid"] for event in slices) == [0, 1], (key, slices)
        last = max(event["ts"] for event in slices)
        for event in slices:
            assert event["dur"] > 0, (key, event)
            assert event["ts"] + event["dur"] >= last, f"{key} ends on rank {event['pid']} before both ranks have called it: {slices}"
    for rank in history["ranks"]:
        steps = [event for event in trace.of("X", cat="step") if event["pid"] == rank["rank"]]
        # The begin of the first step is unknown, and a record is dropped if the observer writes at the same moment.
        assert rank["steps"] == STEPS and STEPS - 5 < len(steps) < STEPS, (rank, len(steps))
        assert all(event["dur"] >= 0.03e6 for event in steps), steps
    rates = next(curve["mean"] for curve in history["curves"] if curve["name"] == "steps/s")
    assert any(rate for rate in rates), rates
    arrows = [event["pid"] for event in trace.of("s")]
    assert arrows.count(1) > arrows.count(0), f"rank 1 comes last: {arrows}"
    print(f"{len(calls)} collectives of {len(groups)} groups, {len(arrows)} arrows: ok")


main()
