"""The steps of scripts/gpu_check whose programs may have to be built on the machine, for its cuBLAS or PyTorch."""
from __future__ import annotations

import os
import pathlib
import re
import shutil
import signal
import subprocess
import tempfile
import time
import zlib

from gpu_checks.machine import Done, Machine
from gpu_checks.results import Results
from gpu_checks.runtime_steps import AHEAD_KIB, MOST_GROWTH, NOISE_KIB, ranks_text, training_steps, with_two

FLAGS = ["-std=c++20", "-O1", "-fPIC", "-w"]
LIBTORCH = ("collectives", "distributed_data_parallel", "gpu_streams")


class Build:
    """A program that is built beside the steps. `obstacle` says why it cannot be built, or that it failed."""

    def __init__(self, machine: Machine, name: str, prepare) -> None:
        self.obstacle = ""
        self.child: subprocess.Popen | None = None
        self.program = machine.bin / name
        if self.program.exists():
            return
        # What is built for this runtime stays for the second call.
        runtime = zlib.crc32(next((machine.folder / "lib").glob("libddp_runtime.so.*")).read_bytes())
        folder = pathlib.Path(tempfile.gettempdir(), f"gpu_check.built.{runtime:08x}")
        self.program = folder / name
        if self.program.exists():
            return
        folder.mkdir(parents=True, exist_ok=True)
        self.log = folder / f"{name}.log"
        self.obstacle, script = prepare(machine, f"{self.program}.new")
        if self.obstacle:
            return
        with open(self.log, "w", encoding="utf-8") as log:
            self.child = subprocess.Popen(["sh", "-ec", f"{script}\nmv {self.program}.new {self.program}"], stdout=log,
                                          stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL, env=machine.original,
                                          start_new_session=True)

    def wait(self, machine: Machine) -> str:
        """Waits for the build within the step's time. Returns why the program is not there, or ""."""
        while self.child is not None and self.child.poll() is None and machine.left() > 5:
            time.sleep(0.1)
        if self.child is None:
            return self.obstacle
        if self.child.poll() is None:
            return "its build has not ended in time"
        self.obstacle = "" if self.child.returncode == 0 else f"its build failed: {self.log.read_text()[-400:]}"
        return self.obstacle

    def end(self) -> None:
        if self.child is not None and self.child.poll() is None:
            os.killpg(self.child.pid, signal.SIGKILL)
            self.child.wait()


def script_of_train_cuda(machine: Machine, target: str) -> tuple[str, str]:
    nvcc = machine.find_program("nvcc")
    if nvcc is None:
        return "was not packed, and this machine has no nvcc to build it", ""
    headers = [folder for folder in [*machine.package_folders("nvidia/cu*/include", "nvidia/cublas/include"),
                                     "/usr/local/cuda/include"] if pathlib.Path(folder, "cublas_v2.h").exists()]
    if not headers:
        return "was not packed, and this machine has no headers of cuBLAS (cublas_v2.h) to build it", ""
    folders = [*machine.package_folders("nvidia/cu*/lib", "nvidia/cublas/lib"), "/usr/local/cuda/lib64"]
    links = [link for folder in folders if pathlib.Path(folder).is_dir()
             for link in (f"-L{folder}", "-Xlinker", "-rpath", "-Xlinker", folder)]
    files = []
    for name in ("libcublas", "libcudart"):
        found = [path.name for folder in folders for path in sorted(pathlib.Path(folder).glob(f"{name}.so.*"))]
        if not found:
            return f"was not packed, and this machine has no {name}.so to build it", ""
        files.append(f"-l:{found[0]}")
    source = machine.folder / "source"
    words = [nvcc, "-O2", "-std=c++20", "-arch=sm_90", f"-I{source}/include", f"-I{source}/examples",
             "-isystem", headers[0], f"{source}/examples/train_cuda.cu", f"{source}/examples/charlm/model.cpp",
             f"{source}/examples/charlm/text.cpp", "-o", target, f"-L{machine.folder}/lib", "-lddp_runtime",
             "-cudart", "none", *links, *files, "-Xlinker", "-rpath", "-Xlinker", f"{machine.folder}/lib"]
    return "", " ".join(words)


def script_of_adapter(machine: Machine, target: str) -> tuple[str, str]:
    torch = next((pathlib.Path(path) for path in machine.package_folders("torch")), None)
    if torch is None:
        return "this Python has no PyTorch", ""
    if shutil.which("g++") is None:
        return "this machine has no g++", ""
    source, objects = machine.folder / "source", f"{target}.objects"
    flags = [*FLAGS, f"-I{source}/include", f"-I{source}/src", f"-I{torch}/include",
             f"-I{torch}/include/torch/csrc/api/include"]
    files = [*(source / f"src/libtorch/{name}.cpp" for name in LIBTORCH), source / "step_bench.cpp"]
    compile_all = "\n".join(f"g++ {' '.join(flags)} -c {file} -o {objects}/{file.stem}.o & pids=\"$pids $!\""
                            for file in files)
    cuda = "-ltorch_cuda -lc10_cuda" if (torch / "lib/libtorch_cuda.so").exists() else ""
    link = (f"g++ -o {target} {objects}/*.o -L{machine.folder}/lib -lddp_runtime -L{torch}/lib -Wl,--no-as-needed "
            f"-ltorch -ltorch_cpu {cuda} -lc10 -Wl,--as-needed -Wl,--allow-shlib-undefined "
            f"-Wl,-rpath,{machine.folder}/lib -Wl,-rpath,{torch}/lib -ldl -lpthread")
    return "", f"mkdir -p {objects}\n{compile_all}\nfor pid in $pids; do wait $pid; done\n{link}"


BUILDS: dict[str, Build] = {}
SCRIPTS = {"train_cuda": script_of_train_cuda, "step_bench": script_of_adapter}


def build(machine: Machine, results: Results) -> None:
    """Begins the builds. The first call measures calls, which a compiler would disturb."""
    for name in ("train_cuda",) if results.call == "a" else SCRIPTS:
        BUILDS[name] = Build(machine, name, SCRIPTS[name])
        state = BUILDS[name].obstacle or ("is being built" if BUILDS[name].child else "is there")
        results.note(name, None if BUILDS[name].obstacle else True, state)


def end_builds() -> None:
    for one in BUILDS.values():
        one.end()


def obstacle(machine: Machine, name: str) -> str:
    if name not in BUILDS:  # --only has left out the step that begins the builds
        BUILDS[name] = Build(machine, name, SCRIPTS[name])
    return BUILDS[name].wait(machine)


def train(machine: Machine, results: Results) -> None:
    why = obstacle(machine, "train_cuda")
    if why:
        return results.note("train_cuda", None, why)
    train_as_on_host(machine, results, 1)
    with_two(machine, results, "train_cuda, 2 ranks", lambda: train_as_on_host(machine, results, 2))
    return memory(machine, results)


def perplexity(done: Done) -> float | None:
    found = re.search(r"validation +perplexity ([0-9.]+)", done.out)
    return float(found[1]) if found and done.code == 0 else None


def train_as_on_host(machine: Machine, results: Results, ranks: int) -> None:
    """The model must be as good as that of train_charlm, which computes on the host."""
    what = f"train_cuda, {ranks_text(ranks)}"
    # With two ranks on one GPU, each bucket of each step costs milliseconds.
    steps = training_steps(machine) if ranks == 1 else min(training_steps(machine), 150)
    done = machine.launch(ranks, BUILDS["train_cuda"].program, "--steps", steps, seconds=40)
    if "libcublas" in done.err and "cannot open" in done.err:
        return results.note(what, None, "no cuBLAS was found; install it, such as with pip install nvidia-cublas")
    on_host = machine.launch(1, "train_charlm", "--steps", steps, "--checkpoint", "", DDP_BACKEND="cpu")
    found, expected = perplexity(done), perplexity(on_host)
    if found is None or expected is None:
        return results.note(what, False, (on_host if expected is None else done).last_lines())
    times = re.search(r"a step +(.*)", done.out)
    return results.note(what, abs(found - expected) < 0.01, f"perplexity {found:.4f}, on the host {expected}; a step: "
                        f"{times[1] if times else 'not measured'}", perplexity=found, expected=expected)


def memory(machine: Machine, results: Results) -> None:
    """Without statistics() nothing may be left of a step. The program asks for them only at its end."""
    peaks, steps = [], training_steps(machine)
    for count in (steps, 10 * steps):
        done = machine.run(BUILDS["train_cuda"].program, "--steps", count, DDP_BACKEND="nccl", seconds=40)
        if "libcublas" in done.err and "cannot open" in done.err:
            return results.note("host memory after many steps", None, "no cuBLAS was found")
        if done.code != 0:
            return results.note("host memory after many steps", False, done.last_lines())
        peaks.append(done.peak_kib)
    growth = (peaks[1] - peaks[0]) * 1024 / (9 * steps)
    is_bounded = growth < MOST_GROWTH or peaks[1] - peaks[0] < NOISE_KIB + AHEAD_KIB
    return results.note("host memory after many steps", is_bounded,
                        f"{growth:.0f} bytes per step ({peaks[0]} and {peaks[1]} KiB)", bytes_per_step=growth)


def adapter(machine: Machine, results: Results) -> None:
    why = obstacle(machine, "step_bench")
    if why:
        return results.note("ddp::libtorch", None, why)
    # Its libtorch has libraries of its own. NCCL must be the one that PyTorch loads.
    libraries = {"LD_LIBRARY_PATH": ":".join([str(machine.folder / "lib"), *machine.package_folders("nvidia/*/lib"),
                                              machine.original.get("LD_LIBRARY_PATH", "")])}
    backend = {"DDP_BACKEND": "cpu"} if machine.torch_variables() else {}

    def run(ranks: int, steps: int) -> None:
        done = machine.launch(ranks, BUILDS["step_bench"].program, 64, steps, "synchronised", seconds=50, **libraries,
                              **backend)
        show(f"ddp::libtorch, {ranks_text(ranks)}", done)

    def show(what: str, done: Done) -> None:
        line = next((line for line in done.lines() if "steps" in line), {"local": [0], "steps": [0]})
        local, step = (sorted(line[name])[len(line[name]) // 2] for name in ("local", "steps"))
        results.ended(what, done, f"a step {step:.3f} ms, without communication {local:.3f} ms", step > 0, figures=line)

    steps = 3 if backend else 20
    run(1, steps)
    show("PyTorch's DistributedDataParallel, 1 rank", machine.torch(1, "step", steps, seconds=40))
    return with_two(machine, results, "ddp::libtorch, 2 ranks", lambda: run(2, 3))


def sanitizer(machine: Machine, results: Results) -> None:
    what = "the kernels under compute-sanitizer"
    tool = machine.find_program("compute-sanitizer")
    if tool is None:
        return results.note(what, None, "compute-sanitizer is not installed")
    # NCCL's allocator tries what a container may forbid. The runtime then allocates otherwise.
    done = machine.run(tool, "--error-exitcode", "9", "--report-api-errors", "no", machine.bin / "unit_runtime_test", "-#",
                       "[#gpu_kernels_test],[#compression_math_test]", DDP_TEST_GPU="1", DDP_TEST_GPU_RANKS="1")
    if done.is_late and "Invalid" not in done.out + done.err:
        return results.note(what, None, "no error, but it did not end within the limit")
    return results.ended(what, done, "no error")
