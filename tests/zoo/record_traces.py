#!/usr/bin/env python3
"""record_traces.py BIN_DIR [NAME...]: runs the zoo's programs and writes what the hang detector saw of each into
traces.tar.xz beside this file, for replay_test.py. Of programs that hang the first 25 seconds are recorded. With names: the
others stay as they were recorded before."""
import concurrent.futures
import io
import os
import pathlib
import subprocess
import sys
import tarfile
import tempfile

from expected import HANGING

BIN = pathlib.Path(sys.argv[1]).resolve()
ARCHIVE = pathlib.Path(__file__).with_name("traces.tar.xz")
AT_ONCE = 16
HANGS_FOR = 25
ENDS_WITHIN = 120


def record(name: str) -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        trace = pathlib.Path(folder) / "trace"
        ranks = HANGING[name].ranks if name in HANGING else 3
        with subprocess.Popen([BIN / "ddplaunch", f"--nproc-per-node={ranks}", BIN / "zoo", name], cwd=folder,
                              stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, process_group=0,
                              env=dict(os.environ, DDP_HANG_TRACE=str(trace), OMP_NUM_THREADS="1")) as job:
            try:
                job.wait(HANGS_FOR if name in HANGING else ENDS_WITHIN)
            except subprocess.TimeoutExpired:
                assert name in HANGING, f"{name} does not end"
                job.terminate()
        return trace.read_bytes()


names = sys.argv[2:] or subprocess.run([BIN / "zoo", "list"], capture_output=True, text=True, check=True).stdout.split()
traces: dict[str, bytes] = {}
if sys.argv[2:] and ARCHIVE.exists():
    with tarfile.open(ARCHIVE) as archive:
        traces = {member.name: archive.extractfile(member).read() for member in archive}
with concurrent.futures.ThreadPoolExecutor(AT_ONCE) as pool:
    # What the ranks find themselves, or what fails within a second, shows the detector nothing.
    wanted = [name for name in names if name not in HANGING or HANGING[name].outcome != "failed"]
    traces.update(zip(wanted, pool.map(record, wanted)))
with tarfile.open(ARCHIVE, "w:xz", preset=9) as archive:
    for name, trace in sorted(traces.items()):
        member = tarfile.TarInfo(name)
        member.size = len(trace)
        archive.addfile(member, io.BytesIO(trace))
print(f"{len(traces)} traces, {sum(map(len, traces.values()))} bytes, {ARCHIVE.stat().st_size} compressed")
