#!/usr/bin/env python3
"""record_traces.py BIN_DIR [NAME...]: runs the zoo's programs and writes the hang detector's traces into
traces.tar.xz beside this file, for replay_test.py. Of programs that hang, the first 25 seconds are recorded. With
names, only these programs are recorded, and the other traces stay as they are."""
import concurrent.futures
import io
import os
import pathlib
import subprocess
import sys
import tarfile
import tempfile

from expected import HANGING, OF_SECOND_NODE, launched

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
from ports import free_port  # noqa: E402  (it is in another folder)

BIN = pathlib.Path(sys.argv[1]).resolve()
ARCHIVE = pathlib.Path(__file__).with_name("traces.tar.xz")
AT_ONCE = 16
HANGS_FOR = 25
ENDS_WITHIN = 120


def traced(trace: pathlib.Path) -> dict[str, str]:
    return dict(os.environ, DDP_HANG_TRACE=str(trace), OMP_NUM_THREADS="1")


def record(name: str) -> bytes:
    if name.endswith(OF_SECOND_NODE):
        return record_second_node(name.removesuffix(OF_SECOND_NODE))
    with tempfile.TemporaryDirectory() as folder:
        trace = pathlib.Path(folder) / "trace"
        ranks = HANGING[name].ranks if name in HANGING else 3
        command = launched(name, BIN / "ddplaunch", [f"--nproc-per-node={ranks}"], [BIN / "zoo", name])
        with subprocess.Popen(command, cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, process_group=0,
                              env=traced(trace)) as job:
            try:
                job.wait(HANGS_FOR if name in HANGING else ENDS_WITHIN)
            except subprocess.TimeoutExpired:
                assert name in HANGING, f"{name} does not end"
                job.terminate()
        return trace.read_bytes()


def record_second_node(name: str) -> bytes:
    """Records a healthy program on two nodes, as the second node sees it: that node does not know what the first
    one's ranks do."""
    with tempfile.TemporaryDirectory() as folder:
        trace = pathlib.Path(folder) / "trace"
        options = ["--nnodes=2", "--nproc-per-node=2", "--master-addr=127.0.0.1", f"--master-port={free_port()}"]
        jobs = [subprocess.Popen([BIN / "ddplaunch", *options, f"--node-rank={node}", BIN / "zoo", name], cwd=folder,
                                 stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, process_group=0,
                                 env=traced(trace) if node == 1 else None) for node in range(2)]
        assert [job.wait(ENDS_WITHIN) for job in jobs] == [0, 0], name
        return trace.read_bytes()


OF_FIRST_NODE_ONLY = ["rank_zero_evaluates_in_a_subprocess", "sleeps"]
names = sys.argv[2:] or [*subprocess.run([BIN / "zoo", "list"], capture_output=True, text=True, check=True).stdout.split(),
                         *(name + OF_SECOND_NODE for name in OF_FIRST_NODE_ONLY)]
traces: dict[str, bytes] = {}
if sys.argv[2:] and ARCHIVE.exists():
    with tarfile.open(ARCHIVE) as archive:
        traces = {member.name: archive.extractfile(member).read() for member in archive}
with concurrent.futures.ThreadPoolExecutor(AT_ONCE) as pool:
    # The detector sees nothing of faults that ranks detect themselves, or that end the job within a second.
    wanted = [name for name in names if name not in HANGING or HANGING[name].outcome != "failed"]
    traces.update(zip(wanted, pool.map(record, wanted)))
with tarfile.open(ARCHIVE, "w:xz", preset=9) as archive:
    for name, trace in sorted(traces.items()):
        member = tarfile.TarInfo(name)
        member.size = len(trace)
        archive.addfile(member, io.BytesIO(trace))
print(f"{len(traces)} traces, {sum(map(len, traces.values()))} bytes, {ARCHIVE.stat().st_size} compressed")
