"""The table of the steps of scripts/gpu_check, the most valuable first in each call, and what runs them."""
from __future__ import annotations

import time
import traceback
from typing import Callable, NamedTuple

from gpu_checks import built_steps, runtime_steps, torch_steps
from gpu_checks.machine import Machine, NoTimeError
from gpu_checks.results import Results, say


class Step(NamedTuple):
    call: str
    name: str
    limit: float  # seconds
    least: float  # the step is not started with less time than this
    needs: tuple[str, ...]
    run: Callable[[Machine, Results], None]
    proves: str
    not_proves: str


def calls_of(ranks: int) -> Callable[[Machine, Results], None]:
    return lambda machine, results: runtime_steps.calls(machine, results, ranks)


GPU, TWO, TORCH = ("GPU", "NCCL"), ("GPU", "NCCL", "two ranks"), ("PyTorch",)
STEPS = [
    Step("a", "facts", 40, 5, (), runtime_steps.facts, "what the machine has", "anything else"),
    Step("a", "build", 5, 1, (), built_steps.build, "begins to build what was not packed", "anything else"),
    Step("a", "stale", 30, 8, ("GPU",), runtime_steps.stale, "what the driver answers to handles of destroyed streams",
         "other drivers"),
    Step("a", "correctness", 95, 30, GPU, runtime_steps.correctness,
         "every collective gives the reference's result, also between two processes; the marks work",
         "several GPUs or nodes"),
    Step("a", "kernel_tests", 60, 10, ("GPU",), runtime_steps.kernel_tests,
         "the kernels compute what the host computes", "other GPUs"),
    Step("a", "recorder", 45, 12, TORCH, torch_steps.recorder,
         "which of PyTorch's recorders has nccl's collectives, what asking costs, whether it spoils captures",
         "other versions of PyTorch"),
    Step("a", "torch_ddp", 95, 25, TORCH, torch_steps.training, "PyTorch trains under the launcher", "PyTorch's speed"),
    Step("a", "torch_hang", 70, 30, TORCH + ("two ranks",), torch_steps.hang,
         "the rank is named that a job of PyTorch and nccl waits for", "other kinds of hangs"),
    Step("a", "calls_1", 45, 15, GPU, calls_of(1),
         "what the runtime, NCCL's thread per nonblocking call and the marks cost; a communicator's memory",
         "transfers"),
    Step("a", "calls_2", 90, 30, TWO, calls_of(2), "the same with two ranks",
         "bandwidth: the ranks take turns on the GPU"),
    Step("a", "bandwidth", 60, 12, GPU, runtime_steps.bandwidth,
         "the kernels' share of the copy's speed; the scale pass beside NCCL's; the kernels for matrices",
         "speed beside a model"),
    Step("a", "oom", 50, 12, GPU, runtime_steps.oom, "what is reported when GPU memory is full", "host memory"),
    Step("b", "build", 5, 1, (), built_steps.build, "begins to build what was not packed", "anything else"),
    Step("b", "lost", 85, 40, TORCH + ("two ranks",), torch_steps.lost,
         "a state is copied from a GPU whose kernel never ends, and the job goes on with the same bits",
         "several GPUs, large states"),
    Step("b", "images", 70, 25, TORCH, torch_steps.images, "what kept states and images cost beside a step",
         "the transfers of several GPUs at once"),
    Step("b", "state", 45, 20, TWO, runtime_steps.state,
         "the same of the runtime: its state is kept before NCCL is aborted", "several GPUs, large states"),
    Step("b", "faults", 95, 40, TWO, runtime_steps.faults,
         "a lost, stopped, hung or faulty rank ends the job in time, with the right culprit",
         "a driver that does not answer"),
    Step("b", "probes", 75, 25, GPU, runtime_steps.probes,
         "which calls wait for kernels, what calls cost, captures, many groups and their memory", "costs under load"),
    Step("b", "capture", 45, 20, TORCH, torch_steps.capture, "ddplaunch does not spoil the capture of a graph",
         "captures that begin outside of Python"),
    Step("b", "plugin", 150, 60, TORCH + ("two ranks",), torch_steps.plugin,
         "NCCL's profiler plug-in shows hangs of PyTorch without its recorder, and of a C++ program; what it costs",
         "several GPUs"),
    Step("b", "train", 115, 40, GPU, built_steps.train, "a model is trained as on the host, and leaves nothing behind",
         "mixed precision, days of training"),
    Step("b", "adapter", 120, 30, TORCH, built_steps.adapter, "ddp::libtorch trains on a GPU, beside PyTorch's step",
         "overlap with several GPUs"),
    Step("b", "sanitizer", 65, 20, ("GPU",), built_steps.sanitizer, "kernels use only memory that is theirs",
         "races between streams"),
]


def run_step(step: Step, machine: Machine, results: Results) -> str:
    """Runs a step within its limit, and returns how it ended. After a step that raises an error, the next one runs."""
    left = machine.end - time.monotonic()
    if left < step.least:
        why = f"not run: {max(left, 0):.0f} s were left, and it needs {step.least:.0f}"
        results.note(step.name, None, why)
        return why
    machine.step_end = time.monotonic() + step.limit * machine.patience
    try:
        why = next(filter(None, map(machine.obstacle, step.needs)), "")
        if why:
            results.note(step.name, None, why)
            return f"skipped: {why}"
        step.run(machine, results)
    except NoTimeError:
        results.note(step.name, None, "no time is left for the rest of the step")
        return "ended at its limit"
    except Exception:  # noqa: BLE001 (the other steps must run)
        results.note(f"step {step.name}", False, traceback.format_exc(limit=3)[-600:])
    return "done"


def run_call(machine: Machine, results: Results, only: list[str] | None) -> None:
    """Runs the steps of a call."""
    results.title = " ".join(f"{name} {value}" for name, value in machine.found.items())
    if machine.rehearse:
        results.title += ". A rehearsal: steps run also without what they need."
    if machine.found["simulated"]:
        results.title += ". The GPU is the simulated one of the tests: nothing is shown for a real GPU."
    for step in STEPS:
        if step.call != results.call:
            continue
        results.step = step.name
        begun = time.monotonic()
        if only and step.name not in only:
            state = "left out by --only"
            results.note(step.name, None, state)
        else:
            say(f"\n## {step.name} ({begun - machine.begin:.0f} s)")
            state = run_step(step, machine, results)
        results.step_ended(step.name, state, time.monotonic() - begun, step.proves, step.not_proves)
    built_steps.end_builds()
