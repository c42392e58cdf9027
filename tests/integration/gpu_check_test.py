#!/usr/bin/env python3
"""gpu_check_test.py SOURCE BUILD: runs scripts/gpu_check on the simulated GPU of LD_LIBRARY_PATH.

The whole script runs once. Then programs are replaced by others that crash, hang or print nonsense, and libraries and
GPUs are missing.
"""
import contextlib
import importlib.machinery
import io
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import time

SOURCE, BUILD = (pathlib.Path(word) for word in sys.argv[1:3])
FAKE = os.environ["LD_LIBRARY_PATH"]
PATIENCE = "--patience=20"  # other tests run at the same time, and the limits of a real GPU are no part of this test


class Check:
    """One run of the script."""

    def __init__(self, pack: pathlib.Path, *words: str, **environment: str) -> None:
        begin = time.monotonic()
        with tempfile.TemporaryDirectory() as out:
            # Without site-packages, no other NCCL can be found there.
            done = subprocess.run([sys.executable, "-S", pack / "gpu_check", "--out", out, "--sizes", "8,4096", "--steps", "40",
                                   *words], capture_output=True, text=True, timeout=2000, env=dict(os.environ, **environment))
            report = pathlib.Path(out) / "gpu_check.json"
            self.report = json.loads(report.read_text()) if report.exists() else {}
            self.table = (pathlib.Path(out) / "gpu_check.txt").read_text() if report.exists() else ""
        self.seconds = time.monotonic() - begin
        self.code, self.text = done.returncode, done.stdout + done.stderr

    def result(self, what: str) -> dict:
        found = [result for result in self.report["results"] if what in result["what"]]
        assert found, (what, self.text)
        return found[0]

    def part(self, name: str) -> dict:
        return next(part for part in self.report["parts"] if part["part"] == name)


def pack(folder: pathlib.Path, train_cuda: pathlib.Path) -> pathlib.Path:
    subprocess.run([SOURCE / "scripts/gpu_check", "--pack", folder, "--train-cuda", train_cuda], check=True)
    (folder / "lib/libfake_gpu.so").unlink(missing_ok=True)  # LD_LIBRARY_PATH has this library, too
    return folder


def replace(program: pathlib.Path, script: str) -> None:
    program.unlink(missing_ok=True)
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(0o755)


def all_parts_run_on_two_gpus(folder: pathlib.Path) -> None:
    tools = folder / "tools"
    tools.mkdir()
    replace(tools / "nvidia-smi", 'echo "GPU 0: with $LD_LIBRARY_PATH"')
    replace(tools / "compute-sanitizer", 'echo "the sanitizer ran $1 $2 $(basename $3)"; shift 2; exec "$@"')
    check = Check(folder / "pack", PATIENCE, FAKE_GPU_COUNT="2", PATH=f"{tools}:{os.environ['PATH']}")
    assert check.code == 0, check.text
    assert check.report["node"]["devices"] == 2 and check.report["node"]["simulated"], check.report["node"]
    assert check.report["gpus"] == f"GPU 0: with {FAKE}", "nvidia-smi got the packed libraries"
    assert check.report["two_ranks"] == "a GPU for each rank", check.report
    assert all(part["state"] == "done" for part in check.report["parts"]), check.text
    assert all(part["proves"] and part["does_not_prove"] in check.table for part in check.report["parts"]), check.table
    for ranks in ("1 rank", "2 ranks"):
        for what in (f"every collective, type and reduction, {ranks}", f"train_cuda, {ranks}", f"all_reduce of 4096 bytes, {ranks}"):
            assert check.result(what)["ok"], check.text
    times = check.result("all_reduce of 8 bytes, 2 ranks")["microseconds"]
    assert all(times.values()), times
    assert set(times) == {"ddp", "ddp_blocking", "ddp_without_marks", "nccl_blocking", "nccl_nonblocking"}, times
    assert "the kernel ended with 700" in check.result("unmap")["detail"], "the freed memory was still there"
    for what in ("never ends", "an illegal address on", "an illegal address, blocking", "is killed, blocking",
                 "a stream is captured", "is killed", "is stopped", "exits while", "12 groups", "cuMemFree", "cuEventRecord", "host memory",
                 "compute-sanitizer"):
        assert check.result(what)["ok"], check.text
    assert check.result("NCCL RAS during a hang")["ok"] is None
    assert "nothing above is proved for a real GPU" in check.table
    assert re.search(r"^ok      every collective.* 28 combinations$", check.table, re.M), check.table


def two_ranks_share_one_gpu_with_every_nccl(folder: pathlib.Path) -> None:
    parts = "--only=two ranks,train two,groups"
    old = Check(folder / "pack", parts, PATIENCE, FAKE_GPU_COUNT="1")
    assert old.code == 0 and "NCCL_HOSTID" in old.report["two_ranks"], old.text
    new = Check(folder / "pack", parts, PATIENCE, FAKE_GPU_COUNT="1", FAKE_NCCL_VERSION="23004")
    assert new.code == 0 and "NCCL_MULTI_RANK_GPU_ENABLE" in new.report["two_ranks"], new.text
    for check in (old, new):
        assert check.result("every collective, type and reduction, 2 ranks")["ok"], check.text
        assert check.result("train_cuda, 2 ranks")["ok"], check.text


# Stands for PyTorch, of which only the environment of its processes is tested.
TORCH = """
import os, sys, time
from unittest.mock import MagicMock
time.sleep = lambda seconds: None  # so that nothing hangs
torch = MagicMock()
torch.cuda.device_count = lambda: 1
torch.distributed.get_rank = lambda: int(os.environ["RANK"])
torch.distributed.get_world_size = lambda: int(os.environ["WORLD_SIZE"])
sys.modules.update({"torch": torch, "torch.distributed": torch.distributed})
if "WORLD_SIZE" in os.environ:
    print({"libraries": os.environ["LD_LIBRARY_PATH"], "host": os.environ.get("NCCL_HOSTID", "")}, file=sys.stderr)
    assert os.environ["LD_LIBRARY_PATH"] == os.environ["EXPECTED_LIBRARIES"], "Python has other libraries"
    assert os.environ["WORLD_SIZE"] == "1" or os.environ["NCCL_HOSTID"] == "r" + os.environ["RANK"], "the ranks share a host"
"""


def python_programs_get_their_own_libraries(folder: pathlib.Path) -> None:
    (folder / "python").mkdir()
    (folder / "python/torch.py").write_text(TORCH)
    # The machine has one GPU, so that ranks must claim hosts.
    check = Check(folder / "pack", "--only=two ranks,PyTorch", PATIENCE, FAKE_GPU_COUNT="1", DDP_TORCH="0",
                  PYTHONPATH=str(folder / "python"), EXPECTED_LIBRARIES=FAKE)
    for ranks in ("1 rank", "2 ranks"):
        assert check.result(f"DistributedDataParallel under ddplaunch, {ranks}")["ok"], check.text
    assert check.code == 1 and check.result("a hang of a PyTorch job")["ok"] is False, check.text


def a_program_that_fails_does_not_end_the_check(folder: pathlib.Path) -> None:
    broken = folder / "broken"
    shutil.copytree(folder / "pack", broken, symlinks=True)
    replace(broken / "bin/gpu_probes", "kill -SEGV $$")
    replace(broken / "bin/unit_runtime_test", "sleep 500 & wait")
    replace(broken / "bin/gpu_job", "echo '{\"task\": \"nonsense\"}'")
    check = Check(broken, "--only=one rank,train,costs,groups", "--part-limit=15", FAKE_GPU_COUNT="2")
    assert check.code == 1 and check.seconds < 200, check.text
    assert "KeyError" in check.result("part one rank")["detail"], check.text
    assert "exit code 139" in check.result("probe costs")["detail"], check.text
    assert check.result("train_cuda, 1 rank")["ok"], check.text
    shutil.copy2(folder / "pack/bin/gpu_job", broken / "bin/gpu_job")
    check = Check(broken, "--only=one rank,costs,train", "--part-limit=15", FAKE_GPU_COUNT="2")
    assert "no end within" in check.result("in the order of streams")["detail"], check.text
    assert check.part("one rank")["state"] == "ended at its limit" and check.part("one rank")["seconds"] < 100, check.text
    assert check.part("costs")["state"] == "done" and check.result("train_cuda, 1 rank")["ok"], check.text


def what_is_missing_is_named(folder: pathlib.Path) -> None:
    only_driver = folder / "driver"
    only_driver.mkdir()
    (only_driver / "libcuda.so.1").symlink_to(pathlib.Path(FAKE) / "libfake_gpu.so")
    check = Check(folder / "pack", LD_LIBRARY_PATH=str(only_driver))
    assert check.code == 1 and "libnccl.so.2 cannot be opened" in check.result("the node")["detail"], check.text
    assert all(part["state"] == "not run" and part["why"] for part in check.report["parts"]), check.report
    check = Check(folder / "pack", FAKE_GPU_COUNT="0")
    assert check.code == 1 and "no GPU is visible" in check.result("the node")["detail"], check.text
    # The build has found no nvcc.
    without = pack(folder / "without", folder / "missing")
    check = Check(without, "--only=train,memory,costs", PATIENCE, FAKE_GPU_COUNT="1")
    assert check.code == 0 and check.result("train_cuda, 1 rank")["ok"] is None, check.text
    assert "no nvcc" in check.result("train_cuda, 1 rank")["detail"] and check.result("costs: cuEventRecord")["ok"], check.text


def a_script_that_is_ended_leaves_the_results_so_far(folder: pathlib.Path) -> None:
    slow = folder / "slow"
    shutil.copytree(folder / "pack", slow, symlinks=True)
    replace(slow / "bin/gpu_job", "sleep 20")
    child = subprocess.Popen([sys.executable, "-S", slow / "gpu_check", "--out", slow / "out", "--only=capture,costs", PATIENCE],
                             stdout=subprocess.DEVNULL, env=dict(os.environ, FAKE_GPU_COUNT="1"))
    report = slow / "out/gpu_check.json"
    end = time.monotonic() + 120
    while not report.exists() and time.monotonic() < end and child.poll() is None:
        time.sleep(0.1)
    child.kill()
    child.wait()
    assert report.exists(), "nothing was written before the end"
    # The parts run in the order of their worth: "costs" comes first, and then "capture".
    parts = json.loads(report.read_text())["parts"]
    assert [part["part"] for part in parts] == ["costs"], parts


def libraries_that_end_python_are_named(folder: pathlib.Path) -> None:
    sys.path.insert(0, str(SOURCE / "scripts"))
    import gpu_check_machine
    look, gpu_check_machine.LOOK = gpu_check_machine.LOOK, "import os, sys; sys.exit('the driver is broken')"
    try:
        found = gpu_check_machine.Machine(folder / "pack", None, 60).found
    finally:
        gpu_check_machine.LOOK = look
    assert found["devices"] == 0 and "the driver is broken" in found["no_look"], found
    script = importlib.machinery.SourceFileLoader("gpu_check", str(SOURCE / "scripts/gpu_check")).load_module()
    assert "the driver is broken" in script.obstacle(found), found


def parts_that_no_longer_fit_are_listed(folder: pathlib.Path) -> None:
    check = Check(folder / "pack", "--limit=30", "--only=one rank,capture,train two,costs", FAKE_GPU_COUNT="2")
    states = {part["part"]: part["state"] for part in check.report["parts"]}
    assert states == {"one rank": "not run", "train two": "not run", "costs": "done", "capture": "done"}, check.text
    assert "no longer fit" in check.table, check.table
    listed = subprocess.run([folder / "pack/gpu_check", "--list"], capture_output=True, text=True, check=True).stdout
    limits = [int(limit) for limit in re.findall(r" (\d+) s  ", listed)]
    assert len(limits) > 10 and sum(limits) < 480, listed


def answers_of_nccl_and_pytorch_are_recognised(folder: pathlib.Path) -> None:
    sys.path.insert(0, str(SOURCE / "scripts"))
    from gpu_check_machine import Done
    from gpu_check_parts import Results, evidence

    class RealMachine:
        found = {"simulated": False}

    good = "ddplaunch:   NCCL RAS: rank 1 is behind"
    bad = "ddplaunch:   NCCL RAS: no process listens on 127.0.0.1:28028 (connection refused)"
    for text, is_there, expected in ((good, True, True), (bad, True, False), ("", True, False), (good, False, None),
                                     (f"{bad}\n{good}", True, True)):
        results = Results()
        with contextlib.redirect_stdout(io.StringIO()):
            evidence(RealMachine(), results, Done(124, "", text, 1), "NCCL RAS", "it needs 2.24", is_there)
        assert results.all[0]["ok"] is expected, (text, results.all)


def the_kernels_of_the_probes_are_valid(folder: pathlib.Path) -> None:
    nvcc = shutil.which("nvcc") or shutil.which("nvcc", path="/usr/local/cuda/bin")
    if nvcc is None:
        print("skipped: no nvcc")
        return
    texts = re.findall(r'R"\(\n(.*?)\)"', (SOURCE / "tests/gpu/driver.h").read_text(), re.S)
    assert len(texts) == 2, texts
    for text in texts:
        (folder / "kernel.ptx").write_text(text)
        done = subprocess.run([nvcc, "-cubin", "-arch=sm_90", folder / "kernel.ptx", "-o", folder / "kernel.cubin"],
                              capture_output=True, text=True)
        assert done.returncode == 0, done


def main() -> int:
    if BUILD != SOURCE / "build/release":
        print("only a release build is packed")
        return 77
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        pack(folder / "pack", BUILD / "bin/train_cuda_in_software")
        for check in (all_parts_run_on_two_gpus, two_ranks_share_one_gpu_with_every_nccl,
                      python_programs_get_their_own_libraries, a_program_that_fails_does_not_end_the_check, what_is_missing_is_named,
                      a_script_that_is_ended_leaves_the_results_so_far, libraries_that_end_python_are_named,
                      parts_that_no_longer_fit_are_listed,
                      answers_of_nccl_and_pytorch_are_recognised, the_kernels_of_the_probes_are_valid):
            begin = time.monotonic()
            check(folder)
            print(f"ok: {check.__name__.replace('_', ' ')} ({time.monotonic() - begin:.1f} s)", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
