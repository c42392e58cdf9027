#!/usr/bin/env python3
"""Runs programs under ddplaunch that use the runtime through its C interface: in C, and in Python by ctypes.
launched_job.py describes argv."""
import pathlib
import re
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
from launched_job import LAUNCHER, Skip, run_job, run_tests, test  # noqa: E402

BIN = pathlib.Path(LAUNCHER).parent
HERE = pathlib.Path(__file__).resolve().parent
LIBRARY = BIN.parent / "lib" / "libddp_runtime.so"
HEADER = HERE.parents[1] / "include/ddp/c.h"


def run(mode: str, *options: str, **variables: str) -> tuple[int, str, str]:
    return run_job("--nproc-per-node=2", *options, str(BIN / "c_abi_worker"), mode, environment=variables)


@test("C", "two ranks of the example get the mean and the maximum")
def example() -> None:
    if not (BIN / "c_all_reduce").exists():
        raise Skip("the examples are not built")
    code, out, err = run_job("--nproc-per-node=2", str(BIN / "c_all_reduce"))
    assert code == 0, (code, out, err)
    assert re.search(r"mean of 2 ranks over \w+: 0\.5 10\.5 20\.5 30\.5, largest 31\.0", out), (out, err)


@test("C", "both ranks get DDP_ERROR_MISMATCH with both calls and places if a rank passes another count")
def mismatch() -> None:
    code, out, err = run("mismatch")
    assert code == 3, (code, out, err)
    for rank in (0, 1):
        line = next(line for line in out.splitlines() if f": rank {rank}: " in line)
        assert f"mismatch peer={1 - rank} sequence=3 operation=all_reduce group=world: rank {rank}: " in line, line
        assert "of f64[4]" in line and "of f64[5]" in line and line.count("c_abi_worker.c:") == 2, line


@test("C", "a rank gets DDP_ERROR_PEER_LOST with the number of the killed rank")
def killed() -> None:
    code, out, err = run("killed")
    assert code == 137 and "rank 1" in err, (code, out, err)
    lines = [line for line in out.splitlines() if "peer_lost" in line]
    assert len(lines) == 1, (out, err)
    assert "peer_lost peer=1 sequence=3 operation=all_reduce group=world: rank 0: all_reduce sum #3" in lines[0], lines
    assert "rank 1 has exited" in lines[0], lines


@test("C", "a rank that hangs is shown with the phase that it has begun, and the place in the program")
def phase() -> None:
    code, out, err = run("phase", "--hang-timeout=2")
    assert code == 124, (code, out, err)
    for word in ("evaluation", "validation set", "c_abi_worker.c:"):
        assert word in err, (word, err)


@test("C", "memory of a GPU, here one in software, is allocated and reduced")
def gpu() -> None:
    library = BIN.parent / "tests/fake_gpu"
    if not (library / "libcuda.so.1").exists():
        raise Skip("fake_gpu is not built")
    code, out, err = run("gpu", DDP_BACKEND="nccl", LD_LIBRARY_PATH=str(library))
    assert code == 0 and out.count("sum on the GPU: 3") == 2, (code, out, err)


@test("C", "a program that returns from main without ending its group exits at once")
def unended() -> None:
    code, out, err = run("unended")
    assert code == 0, (code, out, err)


@test("ctypes", "two ranks find every function of the header, reduce, and get the text of a mismatch")
def through_ctypes() -> None:
    if b"libasan.so" in (library := LIBRARY.read_bytes()) or b"libtsan.so" in library:
        raise Skip("python3 cannot load a library with a sanitizer")
    code, out, err = run_job("--nproc-per-node=2", "--no-python", sys.executable, str(HERE / "c_abi_ctypes.py"), str(LIBRARY),
                             str(HEADER))
    assert code == 0 and out.count("through ctypes: all is well") == 2, (code, out, err)


if __name__ == "__main__":
    sys.exit(run_tests())
