#!/usr/bin/env python3
"""gpu_check_test.py SOURCE BUILD: runs scripts/gpu_check on the simulated GPU of LD_LIBRARY_PATH.

Both calls run once. Then programs are replaced by others that crash, hang or print nonsense, and libraries, GPUs and
time are missing.
"""
import contextlib
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
sys.path.insert(0, str(SOURCE / "scripts"))
sys.dont_write_bytecode = True


class Check:
    """One call of the script."""

    def __init__(self, pack: pathlib.Path, call: str, *words: str, **environment: str) -> None:
        begin = time.monotonic()
        with tempfile.TemporaryDirectory() as out:
            # Without site-packages, no other NCCL can be found there.
            done = subprocess.run([sys.executable, "-S", pack / "gpu_check", call, "--out", out, *words],
                                  capture_output=True, text=True, timeout=2000, env=dict(os.environ, **environment))
            self.files = {path.name for path in pathlib.Path(out).rglob("*")}
            written = (pathlib.Path(out) / f"results_{call}.jsonl").read_text()
            self.summary = (pathlib.Path(out) / f"summary_{call}.txt").read_text()
        lines = [json.loads(line) for line in written.splitlines()]
        self.results = [line for line in lines if "what" in line]
        self.states = {line["step"]: line["state"] for line in lines if "state" in line}
        self.seconds = time.monotonic() - begin
        self.code, self.text = done.returncode, done.stdout + done.stderr

    def result(self, what: str) -> dict:
        found = [result for result in self.results if what in result["what"]]
        assert found, (what, self.text)
        return found[0]


def pack(folder: pathlib.Path, train_cuda: pathlib.Path) -> pathlib.Path:
    subprocess.run([SOURCE / "scripts/gpu_check", "pack", folder, "--train-cuda", train_cuda], check=True)
    return folder


def replace(program: pathlib.Path, script: str) -> None:
    program.unlink(missing_ok=True)
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(0o755)


def copy_of(folder: pathlib.Path, name: str) -> pathlib.Path:
    shutil.copytree(folder / "pack", folder / name)
    return folder / name


def a_pack_contains_everything_that_another_computer_needs(folder: pathlib.Path) -> None:
    files = [path for path in (folder / "pack").rglob("*") if not path.is_dir()]
    assert not any(path.is_symlink() for path in files), "a copied folder may not keep links"
    names = {str(path.relative_to(folder / "pack")) for path in files}
    assert "bin/ddp_python/sitecustomize.py" in names, "the launcher would see nothing of PyTorch's programs"
    assert any(name.startswith("lib_gcc/libstdc++") for name in names), names
    assert not any(name.startswith("lib/libstdc++") for name in names), "it would hide the machine's own"
    assert not any("fake_gpu" in name for name in names), names
    assert sum(path.stat().st_size for path in files) < 60 << 20


def all_steps_run_on_two_gpus(folder: pathlib.Path) -> None:
    tools = folder / "tools"
    tools.mkdir()
    replace(tools / "nvidia-smi", 'echo "GPU 0: with $LD_LIBRARY_PATH"')
    replace(tools / "compute-sanitizer", 'echo "the sanitizer ran $1 $2 $(basename $3)"; shift 4; exec "$@"')
    path = f"{tools}:{os.environ['PATH']}"
    a = Check(folder / "pack", "a", PATIENCE, FAKE_GPU_COUNT="2", PATH=path)
    assert a.code == 0, a.text
    assert a.files == {"summary_a.txt", "results_a.jsonl", "logs_a.txt", "reports_a.tgz"}, a.files
    assert a.result("the GPU")["detail"] == f"GPU 0: with {FAKE}", "nvidia-smi got the packed libraries"
    needs_torch = {"recorder", "torch_ddp", "torch_hang"}
    for step, state in a.states.items():
        assert state == "done" or step in needs_torch and "PyTorch cannot be imported" in state, a.states
    for ranks in ("1 rank", "2 ranks"):
        assert a.result(f"every collective, type and reduction, {ranks}")["ok"], a.text
        for who in ("NCCL, nonblocking", "NCCL, blocking", "the runtime", "the runtime, nonblocking",
                    "the runtime, without marks"):
            figures = a.result(f"{who}: all_reduce of 8 bytes, {ranks}")["figures"]
            assert figures["call_microseconds"] > 0 and figures["rounds"] >= 3, figures
        assert a.result(f"NCCL, blocking: memory of a communicator, {ranks}")["ok"], a.text
    for what in ("the GPU writes", "a destroyed stream: reused", "gpu_kernels_test", "compression_math_test",
                 "kernel: Adam f32", "NCCL's scaling sum", "without the cache", "out of GPU memory in the runtime"):
        assert a.result(what)["ok"], a.text
    assert "nothing is shown for a real GPU" in a.summary and "One GPU cannot show" in a.summary, a.summary
    assert re.search(r"^ok +correctness +every collective.* 28 combinations$", a.summary, re.M), a.summary

    b = Check(folder / "pack", "b", PATIENCE, FAKE_GPU_COUNT="2", PATH=path)
    assert b.result("a lost rank costs no step of a C++ job")["ok"], b.text
    assert b.code == 0, b.text
    assert "the kernel ended with 700" in b.result("unmap")["detail"], "the freed memory was still there"
    for what in ("never ends", "an illegal address on", "an illegal address, nonblocking", "is killed, nonblocking",
                 "a stream is captured", "is killed", "is stopped", "exits while", "12 groups", "cuMemFree",
                 "cuEventRecord", "host memory", "compute-sanitizer", "train_cuda, 1 rank", "train_cuda, 2 ranks"):
        assert b.result(what)["ok"], b.text
    assert b.result("NCCL RAS during a hang")["ok"] is None, b.text


def two_ranks_share_one_gpu_with_every_nccl(folder: pathlib.Path) -> None:
    correctness = "every collective, type and reduction, 2 ranks"
    for version, correct in (("22907", [correctness]), ("23004", [])):
        steps = "correctness,calls_2" if correct else "calls_2"
        check = Check(folder / "pack", "a", f"--only={steps}", PATIENCE, FAKE_GPU_COUNT="1", FAKE_NCCL_VERSION=version)
        assert check.code == 0, check.text
        for what in (*correct, "the runtime: all_reduce of 8 bytes, 2 ranks", "NCCL, blocking: all_reduce of 8 bytes, 2 ranks"):
            assert check.result(what)["ok"], check.text


def steps_do_not_depend_on_others_and_those_left_out_are_listed(folder: pathlib.Path) -> None:
    # Whether two ranks work is found out by the step that needs them.
    check = Check(folder / "pack", "b", "--only=train", PATIENCE, FAKE_GPU_COUNT="1")
    assert check.result("train_cuda, 2 ranks")["ok"], check.text
    left_out = [step for step, state in check.states.items() if state == "left out by --only"]
    assert left_out == ["build", "lost", "images", "state", "faults", "probes", "capture", "plugin", "adapter",
                        "sanitizer"], check.states
    assert check.summary.count("left out by --only") >= 2 * len(left_out), check.summary


# Stands for PyTorch. Only the environment of its processes, and what the script makes of their output, are tested.
TORCH = """
import json, os, sys
mode = sys.argv[1]
def say(**fields):
    print(json.dumps({"mode": mode, "rank": 0, **fields}), flush=True)
assert os.environ["LD_LIBRARY_PATH"] == os.environ["EXPECTED_LIBRARIES"], "Python has other libraries"
if os.environ.get("WORLD_SIZE", "1") != "1":
    assert os.environ["NCCL_HOSTID"] == "r" + os.environ["RANK"], "the ranks share a host"
if mode == "facts":
    say(has_gpu=True, devices=1, uuid=None, torch="stand-in")
if mode == "ddp":
    say(models_are_equal=True, step_ms=1)
if mode == "recorder":
    say(what="few calls", handler="fr_trace_json", answer=200, milliseconds=1, bytes=2, entries=0, names=[], rest={})
    say(what="capture", handler="fr_trace_json", asked=3, captured=1, failed=["operation not permitted"])
    say(what="after three replays", pg_status={"0": {"last_completed_collective": "7"}})
if mode == "keep":
    say(what="begins", attempt="0", step=0, at=0)
    say(what="ends", digest="bits", step_ms=1.5, image_every=16, image_ms=0.1)
if mode == "hang":
    say(what="hung for 2 s", answer=200, milliseconds=1, pg_status={"0": {}}, pg_config={})
sys.exit(0)
"""


def python_programs_get_their_own_libraries(folder: pathlib.Path) -> None:
    (folder / "python").mkdir()
    (folder / "python/torch.py").write_text(TORCH)
    # The machine has one GPU, so that ranks must claim hosts.
    check = Check(folder / "pack", "a", "--only=recorder,torch_ddp,torch_hang", PATIENCE, FAKE_GPU_COUNT="1",
                  PYTHONPATH=str(folder / "python"), EXPECTED_LIBRARIES=FAKE)
    for ranks in ("1 rank, nccl", "2 ranks, nccl", "2 ranks, gloo"):
        assert check.result(f"DistributedDataParallel under ddplaunch, {ranks}")["ok"], check.text
    assert check.result("graph captures while fr_trace_json is asked")["ok"] is False, "a spoiled capture is a failure"
    status = check.result("pg_status after three replays")["figures"]["pg_status"]
    assert status == {"0": {"last_completed_collective": "7"}}, status
    assert check.result("pg_status of rank 0, hung for 2 s")["ok"], check.text
    assert check.code == 1 and check.result("a hang of a PyTorch job")["ok"] is False, check.text
    check = Check(folder / "pack", "b", "--only=lost,images", PATIENCE, FAKE_GPU_COUNT="1",
                  PYTHONPATH=str(folder / "python"), EXPECTED_LIBRARIES=FAKE)
    assert check.result("a step when images take 1 %")["figures"]["step_ms"] == 1.5, check.text
    assert check.result("a lost rank costs no step")["ok"] is False, "no rank was lost, and the job did not go on"


def a_program_that_fails_does_not_end_the_check(folder: pathlib.Path) -> None:
    broken = copy_of(folder, "broken")
    replace(broken / "bin/gpu_probes", "kill -SEGV $$")
    replace(broken / "bin/unit_runtime_test", "setsid sleep 1234.5 & sleep 500")
    replace(broken / "bin/gpu_job", "echo '{\"task\": \"nonsense\"}'")
    check = Check(broken, "a", "--only=stale,correctness,kernel_tests,oom", "--patience=0.3", FAKE_GPU_COUNT="1")
    assert check.code == 1 and check.seconds < 200, check.text
    assert "exit code 139" in check.result("a destroyed stream: record")["detail"], "a crash is an answer"
    assert "KeyError" in check.result("step correctness")["detail"], check.text
    assert "no end within" in check.result("gpu_kernels_test")["detail"], check.text
    assert check.states["oom"] == "done", check.states
    left = subprocess.run(["pgrep", "-f", "sleep 1234.5"], capture_output=True, text=True).stdout
    assert left == "", "a process of a program that was ended is still there"


def tests_that_do_not_exist_are_a_failure(folder: pathlib.Path) -> None:
    renamed = copy_of(folder, "renamed")
    replace(renamed / "bin/unit_runtime_test", "echo No tests ran")
    check = Check(renamed, "a", "--only=correctness,kernel_tests", PATIENCE, FAKE_GPU_COUNT="1")
    for what in ("the GPU writes", "gpu_kernels_test"):
        assert check.result(what)["ok"] is False, check.text


def missing_programs_are_named(folder: pathlib.Path) -> None:
    only_driver = folder / "driver"
    only_driver.mkdir()
    (only_driver / "libcuda.so.1").symlink_to(pathlib.Path(FAKE) / "libfake_gpu.so")
    steps = "--only=facts,stale,correctness,calls_2"
    check = Check(folder / "pack", "a", steps, LD_LIBRARY_PATH=str(only_driver), FAKE_GPU_COUNT="1")
    assert check.states["stale"] == "done" or "NCCL" in check.text, check.text
    assert "libnccl.so.2 cannot be opened" in check.states["correctness"], check.states
    assert "libnccl.so.2 cannot be opened" in check.result("NCCL for the steps")["detail"], check.text
    check = Check(folder / "pack", "a", steps, FAKE_GPU_COUNT="0")
    assert all("no GPU is visible" in check.states[step] for step in ("stale", "correctness", "calls_2")), check.states
    # A rehearsal tries each step all the same.
    check = Check(folder / "pack", "a", steps, "--rehearse", FAKE_GPU_COUNT="0")
    assert check.code == 1, check.text
    assert all(check.states[step] == "done" for step in ("stale", "correctness", "calls_2")), check.states
    assert check.result("NCCL, blocking: calls, 2 ranks")["ok"] is False, check.text


def a_program_that_cannot_be_built_is_skipped(folder: pathlib.Path) -> None:
    from gpu_checks.built_steps import script_of_adapter, script_of_train_cuda

    class BareMachine:
        program = None

        def find_program(self, name):
            return self.program

        def package_folders(self, *patterns):
            return []

    machine = BareMachine()
    machine.folder = folder / "pack"
    assert "no nvcc" in script_of_train_cuda(machine, "target")[0]
    machine.program = "/bin/false"
    if not pathlib.Path("/usr/local/cuda/include/cublas_v2.h").exists():
        assert "no headers of cuBLAS" in script_of_train_cuda(machine, "target")[0]
    assert "no PyTorch" in script_of_adapter(machine, "target")[0]


def a_script_that_is_ended_leaves_the_results_so_far(folder: pathlib.Path) -> None:
    slow = copy_of(folder, "slow")
    replace(slow / "bin/gpu_job", "sleep 20")
    words = [sys.executable, "-S", slow / "gpu_check", "a", "--out", slow / "out", "--only=stale,correctness", PATIENCE]
    child = subprocess.Popen(words, stdout=subprocess.DEVNULL, env=dict(os.environ, FAKE_GPU_COUNT="1"))
    summary = slow / "out/summary_a.txt"
    end = time.monotonic() + 120
    while time.monotonic() < end and child.poll() is None and not (summary.exists() and "stale" in summary.read_text()):
        time.sleep(0.1)
    child.kill()
    child.wait()
    assert "a destroyed stream: reused" in summary.read_text(), "nothing was written before the end"
    assert "a destroyed stream: reused" in (slow / "out/results_a.jsonl").read_text()


def the_reader_of_the_output_may_end(folder: pathlib.Path) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    words = [sys.executable, "-S", folder / "pack/gpu_check", "a", "--out", folder / "unread", "--only=facts"]
    subprocess.run(words, stdout=writing, stderr=subprocess.DEVNULL, env=dict(os.environ, FAKE_GPU_COUNT="1"))
    os.close(writing)
    assert "ddplaunch starts" in (folder / "unread/summary_a.txt").read_text()


def libraries_that_end_python_are_named(folder: pathlib.Path) -> None:
    from gpu_checks import machine
    probe, machine.PROBE = machine.PROBE, "import os, sys; sys.exit('the driver is broken')"
    try:
        assert "the driver is broken" in machine.Machine(folder / "pack", 60).obstacle("GPU")
    finally:
        machine.PROBE = probe


def the_gpu_stays_awake(folder: pathlib.Path) -> None:
    from gpu_checks import machine
    (folder / "nvidia0").write_text("")
    devices, machine.DEVICES = machine.DEVICES, (str(folder / "missing"), str(folder / "nvidia0"))
    try:
        awake = machine.Machine(folder / "pack", 60)
        opened = [os.readlink(f"/proc/self/fd/{fd}") for fd in awake.devices]
    finally:
        machine.DEVICES = devices
    assert opened == [str(folder / "nvidia0")], opened


def steps_that_no_longer_fit_are_listed(folder: pathlib.Path) -> None:
    check = Check(folder / "pack", "a", "16", FAKE_GPU_COUNT="1")
    assert "not run: " in check.states["correctness"] and "it needs 30" in check.states["correctness"], check.states
    assert "not run: " in check.states["calls_2"] and check.states["facts"] == "done", check.states
    assert check.seconds < 60, check.seconds
    listed = subprocess.run([folder / "pack/gpu_check", "list"], capture_output=True, text=True, check=True).stdout
    assert len(listed.splitlines()) == 23, listed


def answers_of_nccl_and_pytorch_are_recognised(folder: pathlib.Path) -> None:
    from gpu_checks.machine import Done
    from gpu_checks.results import Results
    from gpu_checks.runtime_steps import evidence

    class RealMachine:
        found = {"simulated": False}

    good = "ddplaunch:   NCCL RAS: rank 1 is behind"
    bad = "ddplaunch:   NCCL RAS: no process listens on 127.0.0.1:28028 (connection refused)"
    for text, is_there, expected in ((good, True, True), (bad, True, False), ("", True, False), (good, False, None),
                                     (f"{bad}\n{good}", True, True)):
        results = Results(folder / "evidence", "a")
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


CHECKS = (a_pack_contains_everything_that_another_computer_needs, all_steps_run_on_two_gpus,
          two_ranks_share_one_gpu_with_every_nccl, steps_do_not_depend_on_others_and_those_left_out_are_listed,
          python_programs_get_their_own_libraries, a_program_that_fails_does_not_end_the_check,
          tests_that_do_not_exist_are_a_failure, missing_programs_are_named, a_program_that_cannot_be_built_is_skipped,
          a_script_that_is_ended_leaves_the_results_so_far, the_reader_of_the_output_may_end,
          libraries_that_end_python_are_named, the_gpu_stays_awake, steps_that_no_longer_fit_are_listed,
          answers_of_nccl_and_pytorch_are_recognised, the_kernels_of_the_probes_are_valid)


def main() -> int:
    if BUILD != SOURCE / "build/release":
        print("only a release build is packed")
        return 77
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        pack(folder / "pack", BUILD / "bin/train_cuda_in_software")
        for check in CHECKS:
            begin = time.monotonic()
            check(folder)
            print(f"ok: {check.__name__.replace('_', ' ')} ({time.monotonic() - begin:.1f} s)", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
