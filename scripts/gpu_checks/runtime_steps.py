"""The steps of scripts/gpu_check that run the launcher, the runtime, the driver and NCCL."""
from __future__ import annotations

import json
import re
from typing import NamedTuple

from gpu_checks.machine import Done, Machine
from gpu_checks.results import Results

HANG_LIMIT = 6  # seconds
NOISE_KIB = 2048  # peaks of two equal runs differ by less
AHEAD_KIB = 8192  # 1024 operations that have begun ahead of the GPU need less
MOST_GROWTH = 1000  # bytes of host memory per step; a step that leaves its CUDA events needs several times as many
LEAST_OF_COPY = 0.85  # the share of the driver's copy that a kernel is expected to reach
KERNEL_TESTS = ("gpu_kernels_test", "compression_math_test", "gpu_data_parallel_test", "half_hook_test",
                "power_sgd_hook_test", "top_k_hook_test", "optimizer_test", "loss_scaler_test", "mixed_precision_test",
                "local_sgd_test", "gradient_accumulation_test", "rehearsal_test")
NCCL_MODES = {"nonblocking": "0", "blocking": "1"}
RUNTIME_MODES = {"the runtime": {}, "the runtime, nonblocking": {"NCCL_COMM_BLOCKING": "0"},
                 "the runtime, without marks": {"DDP_GPU_MARKS": "0"}}


def sizes(machine: Machine, ranks: int) -> list[int]:
    if machine.found["simulated"]:
        return [8, 4096]
    return [8, 4096, 65536, 1 << 20, 25 << 20] if ranks == 1 else [8, 65536, 25 << 20]


def training_steps(machine: Machine) -> int:
    """More than an epoch of the text, so that the memory of the first epoch is no longer used."""
    return 40 if machine.found["simulated"] else 600


def ranks_text(ranks: int) -> str:
    return f"{ranks} rank{'s' * (ranks > 1)}"


def facts(machine: Machine, results: Results) -> None:
    fields = "name,uuid,driver_version,memory.total,compute_mode,mig.mode.current,pcie.link.gen.max"
    system = ("uname -r; ldd --version | head -1; g++ --version | head -1; nproc; free -g | sed -n 2p; "
              "head -1 /proc/driver/nvidia/version; cat /proc/driver/nvidia/gpus/*/information; ls -l /dev/nvidia*")
    for what, words in {"the GPU": ["nvidia-smi", f"--query-gpu={fields}", "--format=csv,noheader"],
                        "the system": ["sh", "-c", system]}.items():
        done = machine.run(*words, seconds=20, own=False)
        text = " ".join(done.out.split())
        results.note(what, bool(text) if done.code != 127 else None, text or f"{words[0]}: {done.err.strip()[:100]}")
    for name in ("nvcc", "compute-sanitizer"):
        found = machine.find_program(name)
        results.note(name, True if found else None, found or "is not installed")
    for need in ("GPU", "NCCL", "PyTorch"):
        why = machine.obstacle(need) or machine.needs[need]
        results.note(f"{need} for the steps", None if why else True, why or json.dumps(machine.found))
    done = machine.run(machine.bin / "ddplaunch", "--version", seconds=5)
    results.ended("ddplaunch starts", done, done.out.strip())
    done = machine.run("sh", "-c", f"ldd {machine.bin}/* {machine.folder}/lib/*.so.* 2>&1 | grep 'not found' || true")
    results.note("no library is missing", not done.out.strip(), done.out.strip()[:300])
    done = machine.run(machine.bin / "ddplaunch", "--dry-run", "--nproc-per-node=gpu", "/bin/true", seconds=5)
    is_real = not machine.needs["GPU"] and not machine.found["simulated"]
    if not is_real:
        results.note("ddplaunch sees the GPU", None, f"there is no real GPU: {done.last_lines()}")
    else:
        results.ended("ddplaunch sees the GPU", done, " ".join(done.out.split()))
    done = machine.run("sh", "-c", f"timeout 3 {machine.bin}/ddp_gpu_reader | head -1", seconds=6)
    known = '"moved_bytes"' in done.out and "null" not in done.out
    results.note("the driver's counters", known if is_real else None, (done.out or done.err).strip()[:300])
    done = machine.run(machine.bin / "ddplaunch", "doctor", "--deep", "--json", seconds=20)
    for finding in json.loads(done.out or "{}").get("findings", []):
        state = {"ok": True, "fail": False}.get(finding["grade"]) if is_real else None
        results.note(f"doctor: {finding['check']}", state, f"{finding['grade']}: {finding['text']} {finding['remedy']}".strip())


def stale(machine: Machine, results: Results) -> None:
    for call in ("capturing", "record", "wait", "reused"):
        done = machine.run(machine.bin / "gpu_probes", "stale", call, seconds=8)
        line = next(iter(done.lines()), None)
        # A crash is an answer, too.
        answers = line is not None or done.code in (134, 139)
        results.note(f"a destroyed stream: {call}", answers, f"status {line['status']}" if line else done.last_lines(),
                     figures=line)


def collectives(machine: Machine, results: Results, ranks: int) -> None:
    done = machine.launch(ranks, "gpu_job", "collectives")
    lines = done.lines()
    results.ended(f"every collective, type and reduction, {ranks_text(ranks)}", done,
                  f"{lines[0]['checks']} combinations" if lines else "", bool(lines))


def correctness(machine: Machine, results: Results) -> None:
    collectives(machine, results, 1)
    run_tests(machine, results, "the GPU writes its progress to the status page",
              "the GPU itself writes which collectives it has begun and finished")
    what = "every collective, type and reduction, 2 ranks"
    with_two(machine, results, what, lambda: collectives(machine, results, 2))


def with_two(machine: Machine, results: Results, what: str, run) -> None:
    """Runs a part of a step that needs two ranks, or says why it cannot."""
    why = machine.obstacle("two ranks")
    if why:
        results.note(what, None, why)
    else:
        run()


def kernel_tests(machine: Machine, results: Results) -> None:
    for file in KERNEL_TESTS:
        run_tests(machine, results, f"the tests of {file}", "-#", f"[#{file}]")


def run_tests(machine: Machine, results: Results, what: str, *words: str) -> None:
    """Runs tests on the real GPU. A name that no test has is no success."""
    done = machine.run(machine.bin / "unit_runtime_test", *words, seconds=30, DDP_TEST_GPU="1", DDP_TEST_GPU_RANKS="1")
    summary = (done.out.strip().splitlines() or [""])[-1]
    results.ended(what, done, summary, "No tests ran" not in done.out)


def show_calls(results: Results, who: str, ranks: int, done: Done) -> None:
    for line in done.lines():
        if "bytes" in line:
            more = "".join(f", {name} {line[f'{name}_microseconds']}" for name in ("alone", "behind")
                           if f"{name}_microseconds" in line)
            results.note(f"{who}: all_reduce of {line['bytes']} bytes, {ranks_text(ranks)}", True,
                         f"us: a call {line['call_microseconds']}, each {line['microseconds']}{more}", who=who,
                         figures=line)
        elif "mebibytes" in line:
            results.note(f"{who}: memory of a communicator, {ranks_text(ranks)}", True, f"{line['mebibytes']} MiB",
                         figures=line)
    if done.code != 0 or not done.lines():
        results.ended(f"{who}: calls, {ranks_text(ranks)}", done, ok=bool(done.lines()))


def calls(machine: Machine, results: Results, ranks: int) -> None:
    seconds = 0.05 if machine.found["simulated"] else 0.3 if ranks == 1 else 1.2
    all_sizes = sizes(machine, ranks)
    limit = 10 + 3 * seconds * len(all_sizes)
    for mode, blocking in NCCL_MODES.items():
        file = machine.files / f"id_{ranks}_{mode}"
        done = machine.launch(ranks, "raw_nccl_bench", file, seconds, *all_sizes, seconds=limit,
                              NCCL_COMM_BLOCKING=blocking)
        show_calls(results, f"NCCL, {mode}", ranks, done)
    for who, variables in RUNTIME_MODES.items():
        done = machine.launch(ranks, "gpu_calls", seconds, *all_sizes, seconds=limit, **variables)
        show_calls(results, who, ranks, done)
    why = machine.obstacle("PyTorch")
    if why:
        return results.note(f"PyTorch: calls, {ranks_text(ranks)}", None, why)
    show_calls(results, "PyTorch", ranks, machine.torch(ranks, "calls", seconds, *all_sizes, seconds=limit + 10))
    return None


def bandwidth(machine: Machine, results: Results) -> None:
    real = not machine.found["simulated"]
    for what, words, variables in (("cold", ("0", "0.0625"), {"CUDA_CACHE_DISABLE": "1"}),
                                   ("", ("0.15", "1024") if real else ("0", "0.0625"), {})):
        done = machine.run(machine.bin / "kernel_bench", *words, seconds=30, DDP_TEST_GPU="1", **variables)
        for line in done.lines():
            if line["kernel"] == "module":
                results.note(f"the kernels are loaded{' without the cache' * bool(what)}", True,
                             f"{line['with_functions_seconds']} s", figures=line)
            elif not what:
                # The time of a small one is that of its launch.
                judged = real and re.match("(scale|convert|add|SGD|Adam) .*262144 Ki", line["kernel"])
                results.note(f"kernel: {line['kernel']}", not judged or line["of_copy"] >= LEAST_OF_COPY,
                             f"{line['microseconds']} us, {line['gb_per_s']} GB/s, {line['of_copy']} of the copy",
                             figures=line)
        if done.code != 0 or not done.lines():
            results.ended(f"kernel_bench {what}", done, ok=bool(done.lines()))
    why = machine.obstacle("PyTorch")
    if why:
        return results.note("PyTorch's kernels", None, why)
    done = machine.run(*machine.torch_job("kernels"), seconds=30, own=False, **machine.torch_variables())
    for line in done.lines():
        results.note(f"PyTorch: {line['kernel']}", True, f"{line['microseconds']} us, {line['gb_per_s']} GB/s",
                     figures=line)
    if done.code != 0:
        results.ended("PyTorch's kernels", done)
    return None


def oom(machine: Machine, results: Results) -> None:
    def check(what: str, done: Done) -> None:
        line = re.search(r"^.*out of GPU memory on.*$", done.err, re.M)
        results.note(f"out of GPU memory in {what} is reported", line is not None and done.code not in (0, 124),
                     line[0] if line else done.last_lines())

    check("the runtime", machine.launch(1, "gpu_job", "oom", options=(), seconds=25))
    why = machine.obstacle("PyTorch")
    if why:
        return results.note("out of GPU memory in PyTorch is reported", None, why)
    return check("PyTorch", machine.torch(1, "oom", options=(), seconds=30))


class Fault(NamedTuple):
    name: str
    what: str
    codes: tuple[int, ...]  # the launcher's exit codes that are right
    said: str  # must be in the launcher's messages
    within: float  # seconds
    terminate_after: float = 0
    variables: dict[str, str] = {}
    cause: str = ""  # must be in the messages, too


# NCCL may notice the error before the runtime's own call does.
ILLEGAL = r"ILLEGAL_ADDRESS|illegal memory|the GPUs' collective failed"
NONBLOCKING = {"NCCL_COMM_BLOCKING": "0"}
FAULTS = [
    Fault("illegal", "an illegal address on the GPU of rank 1", (1, 3, 134), r"rank 1 .*failed", 15, cause=ILLEGAL),
    Fault("endless", "a kernel of rank 1 that never ends", (124,), r"rank 1 has not started .*DDP-H10", 25),
    Fault("kill", "rank 1 is killed inside training", (137,), r"rank 1 .*killed by SIGKILL", 10),
    Fault("stop", "rank 1 is stopped; SIGTERM after 8 s", (143,), r"rank 1 is stopped .*DDP-H02", 16, 8),
    Fault("exit", "rank 1 exits while its kernel runs", (1,), r"rank 1 .*exit code 1", 12),
    Fault("kill", "rank 1 is killed, nonblocking communicators", (137,), r"rank 1 .*killed by SIGKILL", 10, 0,
          NONBLOCKING),
    Fault("illegal", "an illegal address, nonblocking communicators", (1, 3, 134), r"rank 1 .*failed", 15, 0,
          NONBLOCKING, ILLEGAL),
]


def faults(machine: Machine, results: Results) -> None:
    for fault in FAULTS:
        done = machine.launch(2, "gpu_job", fault.name, options=(f"--hang-timeout={HANG_LIMIT}",), seconds=fault.within,
                              terminate_after=fault.terminate_after, **fault.variables)
        if done.code == 77:
            results.ended(fault.what, done)
            continue
        found = re.search(f"^.*{fault.said}.*$", done.err, re.M)
        ok = done.code in fault.codes and found is not None and re.search(fault.cause, done.err) is not None
        results.note(fault.what, ok, f"exit code {done.code} after {done.seconds:.1f} s: {found[0]}" if ok else
                     done.last_lines(), seconds=round(done.seconds, 2), code=done.code)
        if fault.name == "endless":
            evidence(machine, results, done, "NCCL RAS", "its server runs in NCCL 2.24 and newer",
                     machine.found["nccl"] >= 22400)


def state(machine: Machine, results: Results) -> None:
    """A rank exits while the others wait for it. The job goes on from what is in the memory of their GPUs."""
    fault, digests = 60, []
    for number in (-1, fault):
        folder = machine.files / f"state{number}"
        folder.mkdir()
        (folder / "orders").write_bytes(bytes(64))
        (folder / "steps").write_bytes(bytes(512))
        done = machine.launch(2, "losing_ranks", folder, 120, number, options=("--max-restarts=2",), seconds=25)
        digests.append(dict(re.findall(r"digest (\d+) (\w+)", done.out)))
    said = re.search(r"the ranks go on after step (\d+).*", done.err)
    # The host is at most two steps ahead of the GPU.
    is_right = said is not None and fault - 3 <= int(said[1]) <= fault and "no step is lost" in said[0]
    results.ended("a lost rank costs no step of a C++ job on GPUs", done, said[0] if said else done.last_lines(),
                  is_right and len(digests[0]) == 2 and digests[0] == digests[1])


def evidence(machine: Machine, results: Results, done: Done, source: str, need: str, is_there: bool) -> None:
    """Records whether the launcher's report of a hang has an answer of the source."""
    what = f"{source} during a hang"
    if machine.found["simulated"] or not is_there:
        return results.note(what, None, need)
    lines = [line for line in done.err.splitlines() if f"{source}:" in line]
    answers = [line for line in lines if not re.search(r"no process|no pipe|did not|cannot|does not|was not", line)]
    return results.note(what, bool(answers), "; ".join(answers or lines or ["the report does not contain it"]))


def probes(machine: Machine, results: Results) -> None:
    for name in ("blocking", "unmap", "costs"):
        probe(machine, results, name)
    done = machine.launch(1, "gpu_job", "capture", seconds=10)
    results.ended("a stream is captured while a collective is in flight", done, values_of(done))
    with_two(machine, results, "12 groups and transfers at once", lambda: groups(machine, results))


def probe(machine: Machine, results: Results, name: str) -> None:
    done = machine.run(machine.bin / "gpu_probes", name, seconds=25)
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
                     "this driver has no such function" if is_missing else f"{text}, status {line['status']}",
                     probe=name, simulated=machine.found["simulated"], figures=line)
    if done.code != 0 or not lines:
        results.ended(f"probe {name}", done, ok=bool(lines))


def groups(machine: Machine, results: Results) -> None:
    for connections in ("8", "32"):
        done = machine.launch(2, "gpu_job", "groups", seconds=12, CUDA_DEVICE_MAX_CONNECTIONS=connections)
        results.ended(f"12 groups and transfers at once, {connections} queues", done, values_of(done),
                      figures=done.lines())


def values_of(done: Done) -> str:
    return ", ".join(f"{name} {value}" for line in done.lines() for name, value in line.items() if name != "task")
