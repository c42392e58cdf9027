"""Tests that the trace of an unchanged PyTorch program shows when its collectives begin and end, also those that
DistributedDataParallel calls in C++.

    torch_trace_test.py DDPLAUNCH

Runs with the PyTorch of the environment "pytorch", whose flight recorder records Gloo.
"""
import collections
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
dist.init_process_group("gloo")
model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(64, 64))
groups = [dist.new_group([0, 1]) for _ in range(2)]  # whose calls follow each other closely
for step in range({STEPS}):
    model(torch.randn(8, 64)).sum().backward()
    if dist.get_rank() == 1:
        time.sleep(0.03)
    works = [dist.all_reduce(torch.ones(4), group=group, async_op=True) for group in groups]
    for work in works:
        work.wait()
time.sleep(2)
dist.destroy_process_group()
"""


def main() -> None:
    python = environments.need("pytorch")
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder, "trace.json")
        program = pathlib.Path(folder, "program.py")
        program.write_text(PROGRAM)
        job = subprocess.run([sys.argv[1], "--nproc-per-node=2", "--record=all", f"--trace={path}", python, program],
                             env=dict(os.environ, OMP_NUM_THREADS="1"), text=True, timeout=240, stdin=subprocess.DEVNULL,
                             stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)
        assert job.returncode == 0, job.stdout
        trace = Trace(path)
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
    arrows = [event["pid"] for event in trace.of("s")]
    assert arrows.count(1) > arrows.count(0), f"rank 1 comes last: {arrows}"
    print(f"{len(calls)} collectives of {len(groups)} groups, {len(arrows)} arrows: ok")


main()
