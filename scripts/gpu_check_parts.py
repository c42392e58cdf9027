"""The parts of scripts/gpu_check, in the order of their worth. Each one says what it proves, and what it does not."""
from __future__ import annotations

import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
from typing import Callable, NamedTuple

from gpu_check_machine import CLAIMED, OWN_GPUS, Done, Machine, ways_of_two_ranks

HANG_LIMIT = 6  # seconds
NOISE_KIB = 2048  # peaks of two equal runs differ by less
MOST_GROWTH = 1000  # bytes of host memory per step; a step that leaves its CUDA events needs several times as many
TORCH_JOB = """
import os, torch, torch.distributed as dist
torch.cuda.set_device(int(os.environ["LOCAL_RANK"]) % torch.cuda.device_count())
dist.init_process_group("nccl")
model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(512, 512).cuda())
optimiser = torch.optim.SGD(model.parameters(), lr=0.1)
for _ in range(20):
    optimiser.zero_grad()
    model(torch.ones(8, 512, device="cuda")).square().mean().backward()
    optimiser.step()
print("trained", dist.get_world_size(), flush=True)
dist.destroy_process_group()
"""
# The last rank does not come to the second all-reduce.
TORCH_HANG = """
import os, time, torch, torch.distributed as dist
torch.cuda.set_device(int(os.environ["LOCAL_RANK"]) % torch.cuda.device_count())
dist.init_process_group("nccl")
values = torch.ones(1024, device="cuda")
dist.all_reduce(values)
torch.cuda.synchronize()
if dist.get_rank() == dist.get_world_size() - 1:
    time.sleep(600)
dist.all_reduce(values)
torch.cuda.synchronize()
"""


class Results:
    """Records results. `ok` is None if the check could not run."""

    def __init__(self) -> None:
        self.all: list[dict] = []
        self.part = ""

    def note(self, what: str, ok: bool | None, detail: str = "", **more: object) -> None:
        self.all.append({"what": what, "ok": ok, "detail": detail, "part": self.part, **more})
        print(f"{'skip' if ok is None else 'ok  ' if ok else 'FAIL'}  {what:<54} {detail}", flush=True)

    def ended(self, what: str, done: Done, detail: str = "", ok: bool = True, **more: object) -> None:
        """Records a program that must end with 0; 77 means that this GPU cannot do the task."""
        if done.code == 77:
            return self.note(what, None, "this GPU runs no kernel of the program", **more)
        is_ok = done.code == 0 and ok
        self.note(what, is_ok, detail if is_ok else done.last_lines(), seconds=round(done.seconds, 2), **more)


def ranks_text(ranks: int) -> str:
    return f"{ranks} rank{'s' * (ranks > 1)}"


def collectives(machine: Machine, results: Results, ranks: int) -> None:
    done = machine.launch(ranks, "gpu_job", "collectives")
    lines = done.lines()
    results.ended(f"every collective, type and reduction, {ranks_text(ranks)}", done,
                  f"{lines[0]['checks']} combinations" if lines else "", bool(lines))


def one_rank(machine: Machine, results: Results, options) -> None:
    collectives(machine, results, 1)
    done = machine.run(machine.bin / "unit_runtime_test", "-#", "[#gpu_data_parallel_test]", DDP_TEST_GPU="1",
                       DDP_TEST_GPU_RANKS="1")
    results.ended("gradients are averaged in the order of streams", done)
    done = machine.run(machine.bin / "unit_runtime_test", "the stream itself writes which collectives it has begun and done",
                       DDP_TEST_GPU="1")
    results.ended("the GPU writes its progress to the status page", done)


def perplexity(done: Done) -> float | None:
    found = re.search(r"validation +perplexity ([0-9.]+)", done.out)
    return float(found[1]) if found and done.code == 0 else None


def train(machine: Machine, results: Results, ranks: int, steps: int) -> None:
    """The model must be as good as that of train_charlm, which computes on the host."""
    what = f"train_cuda, {ranks_text(ranks)}"
    if not (machine.bin / "train_cuda").exists():
        return results.note(what, None, "was not packed: the build found no nvcc or no cuBLAS")
    done = machine.launch(ranks, "train_cuda", "--steps", steps)
    if "libcublas" in done.err and "cannot open" in done.err:
        return results.note(what, None, "no cuBLAS was found; install it, such as with pip install nvidia-cublas")
    on_host = machine.run(machine.bin / "ddplaunch", "--nproc_per_node=1", "--quiet", machine.bin / "train_charlm", "--steps",
                          steps, "--checkpoint", "", DDP_BACKEND="cpu")
    found, expected = perplexity(done), perplexity(on_host)
    if found is None or expected is None:
        return results.note(what, False, (on_host if expected is None else done).last_lines())
    times = re.search(r"a step +(.*)", done.out)
    results.note(what, abs(found - expected) < 0.01, f"perplexity {found:.4f}, on the host {expected}; a step: "
                 f"{times[1] if times else 'not measured'}", perplexity=found, expected=expected)


def train_one(machine: Machine, results: Results, options) -> None:
    train(machine, results, 1, options.steps)


def two_ranks(machine: Machine, results: Results, options) -> None:
    for way in ways_of_two_ranks(machine.found["devices"], machine.found["nccl"]):
        machine.two_ranks = way
        done = machine.launch(2, "ddp_bench", "all_reduce", "--sizes", "8", "--iterations", "2", "--json", seconds=20)
        works = done.code == 0 and bool(done.lines())
        results.note(f"two ranks: {way.name}", works, "" if works else done.last_lines())
        if works:
            break
    else:
        machine.two_ranks = None
        return
    collectives(machine, results, 2)


def raw(machine: Machine, ranks: int, sizes: list[int], blocking: bool) -> tuple[Done, dict[int, dict]]:
    with tempfile.TemporaryDirectory() as folder:
        command = [machine.bin / "raw_nccl_bench", "{rank}", ranks, f"{folder}/id", *sizes]
        own = [[str(word).format(rank=rank) for word in command] for rank in range(ranks)]
        variables = [{**machine.way(ranks).for_rank(rank), "NCCL_COMM_BLOCKING": str(int(blocking))} for rank in range(ranks)]
        others = [subprocess.Popen(own[rank], env=dict(machine.packed, **variables[rank]), stdout=subprocess.DEVNULL)
                  for rank in range(1, ranks)]
        try:
            done = machine.run(*own[0], seconds=20, **variables[0])
        finally:
            for other in others:
                other.kill()
                other.wait()
    return done, {line["bytes"]: line for line in done.lines()}


BENCHES = {
    "ddp": {},
    "ddp_blocking": {"NCCL_COMM_BLOCKING": "1"},
    "ddp_without_marks": {"DDP_GPU_MARKS": "0"},
}


def speed(machine: Machine, results: Results, options) -> None:
    for ranks in (1, 2):
        if ranks == 2 and machine.two_ranks is None:
            return results.note("the speed of two ranks", None, "two ranks do not work here")
        alone = {}
        for blocking in (True, False):
            done, alone[blocking] = raw(machine, ranks, options.sizes, blocking)
            if done.code != 0:
                results.note(f"NCCL alone, {'' if blocking else 'non'}blocking, {ranks_text(ranks)}", False, done.last_lines())
        ours = {}
        for name, variables in BENCHES.items():
            done = machine.launch(ranks, "ddp_bench", "all_reduce", "--json", "--sizes", ",".join(map(str, options.sizes)),
                                  "--iterations", "20", seconds=20, **variables)
            if done.code != 0:
                results.note(f"ddplaunch bench, {name}, {ranks_text(ranks)}", False, done.last_lines())
            ours[name] = {line["bytes"]: line for line in done.lines()}
        for size in options.sizes:
            figures = {**{name: lines.get(size, {}) for name, lines in ours.items()},
                       "nccl_blocking": alone[True].get(size, {}), "nccl_nonblocking": alone[False].get(size, {})}
            times = {name: line.get("microseconds") for name, line in figures.items()}
            if times["ddp"] is None:
                continue
            text = ", ".join(f"{name} {'-' if value is None else format(value, '.2f')}" for name, value in times.items())
            calls = {f"{name}_call": figures[name].get("call_microseconds") for name in ("nccl_blocking", "nccl_nonblocking")}
            results.note(f"all_reduce of {size} bytes, {ranks_text(ranks)}", figures["ddp"]["wrong"] == 0, f"us: {text}",
                         bytes=size, ranks=ranks, microseconds=times, call_microseconds=calls)


def train_two(machine: Machine, results: Results, options) -> None:
    if machine.two_ranks is None:
        return results.note("train_cuda, 2 ranks", None, "two ranks do not work here")
    train(machine, results, 2, options.steps)


def probe(machine: Machine, results: Results, name: str) -> None:
    done = machine.run(machine.bin / "gpu_probes", name)
    lines = [line for line in done.lines() if "what" in line and "status" in line]
    for line in lines:
        if name == "costs":
            text = f"host {line['host_microseconds']:.2f} us, GPU {line['gpu_microseconds']:.2f} us"
        else:
            text = f"{line['milliseconds']:.3f} ms, {'waits for the kernel' if line['waits'] else 'does not wait'}"
        if "status_of_kernel" in line:
            text += f"; the kernel ended with {line['status_of_kernel']}"
        is_missing = line["status"] == -1
        results.note(f"{name}: {line['what']}", None if is_missing else line["status"] == 0,
                     "this driver has no such function" if is_missing else f"{text}, status {line['status']}", figures=line)
    if done.code != 0 or not lines:
        results.ended(f"probe {name}", done, ok=bool(lines))


def probe_blocking(machine: Machine, results: Results, options) -> None:
    probe(machine, results, "blocking")
    probe(machine, results, "unmap")


def probe_costs(machine: Machine, results: Results, options) -> None:
    probe(machine, results, "costs")


class Fault(NamedTuple):
    name: str
    what: str
    codes: tuple[int, ...]  # the launcher's exit codes that are right
    said: str  # must be in the launcher's messages
    within: float  # seconds
    terminate_after: float = 0
    variables: dict[str, str] = {}


BLOCKING = {"NCCL_COMM_BLOCKING": "1"}
FAULTS = [
    Fault("illegal", "an illegal address on the GPU of rank 1", (1, 3, 134), r"rank 1 .*failed", 15),
    Fault("endless", "a kernel of rank 1 that never ends", (124,), r"rank 1 has not started .*DDP-H10", 25),
    Fault("kill", "rank 1 is killed inside training", (137,), r"rank 1 .*killed by SIGKILL", 10),
    Fault("stop", "rank 1 is stopped; SIGTERM after 8 s", (143,), r"rank 1 is stopped .*DDP-H02", 16, 8),
    Fault("exit", "rank 1 exits while its kernel runs", (1,), r"rank 1 .*exit code 1", 12),
    Fault("kill", "rank 1 is killed, blocking communicators", (137,), r"rank 1 .*killed by SIGKILL", 10, 0, BLOCKING),
    Fault("illegal", "an illegal address, blocking communicators", (1, 3, 134), r"rank 1 .*failed", 15, 0, BLOCKING),
]


def faults(machine: Machine, results: Results, options) -> None:
    for fault in FAULTS:
        if machine.two_ranks is None:
            results.note(fault.what, None, "two ranks do not work here")
            continue
        done = machine.launch(2, "gpu_job", fault.name, options=(f"--hang-timeout={HANG_LIMIT}",), seconds=fault.within,
                              terminate_after=fault.terminate_after, **fault.variables)
        if done.code == 77:
            results.ended(fault.what, done)
            continue
        found = re.search(fault.said, done.err)
        ok = done.code in fault.codes and found is not None and not done.is_late
        message = next((line for line in done.err.splitlines() if re.search(fault.said, line)), "")
        results.note(fault.what, ok, f"exit code {done.code} after {done.seconds:.1f} s: {message[:160]}" if ok else
                     done.last_lines(), seconds=round(done.seconds, 2), code=done.code)
        if fault.name == "endless":
            evidence(machine, results, done, "NCCL RAS", "its server runs in NCCL 2.24 and newer",
                     machine.found["nccl"] >= 22400)


def evidence(machine: Machine, results: Results, done: Done, source: str, need: str, is_there: bool) -> None:
    """Records whether the launcher's report of a hang has an answer of the source."""
    what = f"{source} during a hang"
    if machine.found.get("simulated") or not is_there:
        return results.note(what, None, need)
    lines = [line for line in done.err.splitlines() if f"{source}:" in line]
    answers = [line for line in lines if not re.search(r"no process|did not|cannot|does not|was not", line)]
    results.note(what, bool(answers), "; ".join(answers or lines or ["the report does not contain it"]))


def capture(machine: Machine, results: Results, options) -> None:
    done = machine.launch(1, "gpu_job", "capture")
    results.ended("a stream is captured while a collective is in flight", done, ", ".join(
        f"{name} {value}" for line in done.lines() for name, value in line.items() if name != "task"))


def groups(machine: Machine, results: Results, options) -> None:
    if machine.two_ranks is None:
        return results.note("12 groups and transfers at once", None, "two ranks do not work here")
    for connections in ("8", "32"):
        done = machine.launch(2, "gpu_job", "groups", seconds=10, CUDA_DEVICE_MAX_CONNECTIONS=connections)
        results.ended(f"12 groups and transfers at once, {connections} queues", done, ", ".join(
            f"{name} {value}" for line in done.lines() for name, value in line.items() if name != "task"))


def memory(machine: Machine, results: Results, options) -> None:
    """Without statistics() nothing may be left of a step. The program asks for them only at its end."""
    if not (machine.bin / "train_cuda").exists():
        return results.note("memory after many steps", None, "train_cuda was not packed")
    peaks = []
    for steps in (options.steps, 10 * options.steps):
        done = machine.run(machine.bin / "train_cuda", "--steps", steps, DDP_BACKEND="nccl")
        if done.code != 0:
            return results.ended(f"train_cuda, {steps} steps", done)
        peaks.append(done.peak_kib)
    growth = (peaks[1] - peaks[0]) * 1024 / (9 * options.steps)
    results.note("host memory after many steps", growth < MOST_GROWTH or peaks[1] - peaks[0] < NOISE_KIB,
                 f"{growth:.0f} bytes per step ({peaks[0]} and {peaks[1]} KiB)", bytes_per_step=growth)


def sanitizer(machine: Machine, results: Results, options) -> None:
    what = "train_cuda under compute-sanitizer"
    if not (machine.bin / "train_cuda").exists():
        return results.note(what, None, "train_cuda was not packed")
    folders = ["/usr/local/cuda/bin", "/usr/local/cuda/compute-sanitizer",
               *(str(path) for base in sys.path if base for path in pathlib.Path(base).glob("nvidia/*/bin"))]
    tool = shutil.which("compute-sanitizer") or shutil.which("compute-sanitizer", path=":".join(folders))
    if tool is None:
        return results.note(what, None, "compute-sanitizer is not installed")
    done = machine.run(tool, "--error-exitcode", "9", machine.bin / "train_cuda", "--steps", min(options.steps, 260),
                       DDP_BACKEND="nccl")
    if done.is_late and "Invalid" not in done.out + done.err:
        return results.note(what, None, "no error, but it did not end within the limit")
    results.ended(what, done, "no error")


def torch(machine: Machine, results: Results, options) -> None:
    what = "PyTorch DistributedDataParallel under ddplaunch"
    has_torch = machine.run(sys.executable, "-c", "import torch; assert torch.cuda.is_available()", original=True, seconds=20)
    if has_torch.code != 0:
        return results.note(what, None, "no PyTorch with CUDA here")
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)

        def launch(ranks: int, text: str, *launcher_options: str, **variables: str) -> Done:
            script = folder / "job.py"
            script.write_text(text)
            # PyTorch may have an older NCCL than the packed programs, and this way works with all of them.
            way = CLAIMED if ranks > 1 and machine.found["devices"] == 1 else OWN_GPUS
            # The launcher needs the packed libraries, and Python its own.
            return machine.run(machine.bin / "ddplaunch", f"--nproc_per_node={ranks}", "--oversubscribe", *launcher_options,
                               "env", f"LD_LIBRARY_PATH={machine.original.get('LD_LIBRARY_PATH', '')}", *way.prefix(),
                               sys.executable, script, **way.environment, **variables)

        for ranks in (1, 2):
            done = launch(ranks, TORCH_JOB)
            results.ended(f"{what}, {ranks_text(ranks)}", done, ok=f"trained {ranks}" in done.out)
        recorder = {"TORCH_NCCL_TRACE_BUFFER_SIZE": "2000", "TORCH_NCCL_DEBUG_INFO_PIPE_FILE": f"{folder}/pipe_",
                    "TORCH_FR_DUMP_TEMP_FILE": f"{folder}/recording_"}
        done = launch(2, TORCH_HANG, f"--hang-timeout={HANG_LIMIT}", **recorder)
        is_named = done.code == 124 and not done.is_late and "rank 1" in done.err
        results.note("a hang of a PyTorch job", is_named, f"exit code {done.code} after {done.seconds:.1f} s" if is_named else
                     done.last_lines())
        evidence(machine, results, done, "flight recorder", "it is PyTorch's", True)


class Part(NamedTuple):
    name: str
    limit: float  # seconds
    run: Callable[[Machine, Results, object], None]
    proves: str
    does_not_prove: str


PARTS = [
    Part("one rank", 35, one_rank, "the libraries are called rightly; memory, streams, events and the status page work",
         "anything between ranks"),
    Part("train", 45, train_one, "an epoch and more is trained as on the host, with memory that is freed in between",
         "mixed precision"),
    Part("two ranks", 50, two_ranks, "every collective gives the reference's result between two processes",
         "NVLink, peer-to-peer access, NVLS, several nodes"),
    Part("speed", 90, speed, "what the runtime adds to NCCL's calls (one rank); blocking against nonblocking; the marks",
         "bandwidth: two ranks that share a GPU take turns on it"),
    Part("train two", 35, train_two, "gradients are averaged during backward, and the model is that of the host",
         "overlap and speed on several GPUs"),
    Part("blocking calls", 25, probe_blocking, "which calls of the driver and NCCL wait for running kernels, and what unmaps do",
         "other drivers and GPUs"),
    Part("faults", 60, faults, "a lost, stopped, hung or faulty rank ends the job in time, with the right culprit",
         "a driver that no longer answers"),
    Part("costs", 10, probe_costs, "what each call costs the host and the GPU", "costs under load"),
    Part("capture", 10, capture, "a CUDA graph can be captured while the runtime polls", "a captured collective: it is refused"),
    Part("groups", 20, groups, "many communicators on one GPU do not block each other", "groups that are used in different orders"),
    Part("memory", 25, memory, "steps leave nothing behind on the host", "days of training"),
    Part("sanitizer", 25, sanitizer, "kernels touch only memory that is mapped", "races between streams"),
    Part("PyTorch", 45, torch, "PyTorch's own training runs under the launcher, and its hang is explained", "PyTorch's speed"),
]
