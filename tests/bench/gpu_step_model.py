#!/usr/bin/env python3
"""Counts the calls of CUDA and NCCL in a step of data parallel training, and models their cost beside PyTorch's.

    tests/bench/gpu_step_model.py build/release/bin [--gpu FOLDER] [--costs results_b.jsonl] [--gigabytes 1]
                                  [--bucket-mebibytes 25] [--parameters 300] [--ranks 8] [--bus-gigabytes 370]
                                  [--json FILE] [--check]

The counts of ddplaunch are measured by gpu_step_count on the simulated GPU (FOLDER, by default that of the build). Those
of PyTorch are read from its source; see PYTORCH. scripts/gpu_check has measured the costs on an H100; see COSTS. With
--costs, those of another GPU replace them. The model prints Markdown tables. With --check, the exit code is 1 if a step
of ddplaunch launches more work than one of PyTorch, or lets the host wait.
"""
import argparse
import json
import os
import pathlib
import subprocess
import sys
from typing import NamedTuple

# Per bucket, per parameter, and per step. Sources: reducer.cpp at commit ad78a7b33a, ProcessGroupNCCL.cpp of 2025 (with
# c10d/cuda/utils.hpp, after 2.8), ATen/core/ivalue_inl.h.
#
# - mark_variable_ready_dense: one kernel per parameter (mul_out into the bucket, or div_ if gradients are bucket views).
# - finalize_bucket_dense, copy_bucket_to_grad: one more copy per parameter without bucket views, which is the default.
# - collective(): syncStream records an event and lets NCCL's stream wait for it; ncclEndEvent_ is recorded. There is no
#   start event by default (TORCH_NCCL_ENABLE_TIMING=0). The stream's capture status is read.
# - Future::markCompleted creates and records an event; Future::wait lets the program's stream wait for it.
# - watchdog: every 100 ms it queries the events of works that are not done.
PYTORCH = {
    "NCCL operations": {"bucket": 1},
    "other kernels, gradients as bucket views": {"parameter": 1},
    "other kernels, default": {"parameter": 2},
    "event records": {"bucket": 3},
    "stream waits": {"bucket": 2},
    "events created": {"bucket": 1},
    "capture queries": {"bucket": 1},
}
# Bytes that these kernels move, in multiples of the gradients' size: views read and write them once, copies twice.
PYTORCH_TRAFFIC = {"gradients as bucket views": 2, "default": 4}
OUR_TRAFFIC = 1  # zero_gradients() writes all gradients; a kernel per bucket would read and write them
# Per bucket, in the stream of the collectives.
PYTORCH_LANE = {"stream waits": 1, "event records": 2}

# What gpu_step_count calls each count.
OURS = {
    "NCCL operations": ["nccl call"],
    "other kernels": ["kernel"],
    "memsets": ["memset"],
    "copies": ["copy"],
    "NCCL groups": ["nccl group"],
    "NCCL operators": ["nccl operator"],
    "event records": ["record event"],
    "stream waits": ["stream waits for event"],
    "stream writes": ["stream writes number"],
    "events created": ["create event"],
    "streams created": ["create stream"],
    "allocations": ["allocate", "free"],
    "pointer queries": ["look up pointer"],
    "capture queries": ["is stream captured"],
    "capture modes": ["exchange capture mode"],
    "device changes": ["set device"],
    "times read": ["time between events"],
    "communicator polls": ["poll communicator"],
    "host waits": ["poll event"],
}
# The runtime's own thread does these while it watches, so their number depends on time. Only the program's thread counts.
OF_PROGRAM = {"set device", "poll communicator", "poll event", "exchange capture mode"}


class Cost(NamedTuple):
    host: float  # microseconds on the thread that calls
    gpu: float  # microseconds in the stream
    source: str
    measured: str = ""  # the name in the results of gpu_check


# An NVIDIA H100 80GB HBM3 with driver 580.159 and NCCL 2.28.9, on 27 November 2026. The NCCL operation is that of two
# ranks, of 8 bytes, without what the ranks wait for each other.
H100 = "H100"
COSTS = {
    "NCCL operations": Cost(14.7, 0, H100),
    "other kernels": Cost(3.91, 1.86, H100, "cuLaunchKernel of an empty kernel"),
    "memsets": Cost(1.33, 0.76, H100, "cuMemsetD8Async of 8 bytes"),
    "event records": Cost(0.41, 0.01, H100, "cuEventRecord"),
    "stream waits": Cost(0.35, 0.01, H100, "cuStreamWaitEvent"),
    "stream writes": Cost(1.54, 1.66, H100, "cuStreamWriteValue64 to host memory"),
    "events created": Cost(0.55, 0, H100, "cuEventCreate and cuEventDestroy"),
    "pointer queries": Cost(0.22, 0, H100, "cuPointerGetAttribute"),
    "capture queries": Cost(0.14, 0, H100, "cuStreamIsCapturing"),
    "capture modes": Cost(0.13, 0, H100, "cuThreadExchangeStreamCaptureMode"),
    "device changes": Cost(0.05, 0, H100, "cuCtxSetCurrent"),
    "times read": Cost(0.35, 0, H100, "cuEventElapsedTime"),
}
MEMORY_GIGABYTES = 3350  # per second; NVIDIA's data sheet of the H100 SXM


def measured_costs(file: pathlib.Path) -> dict[str, Cost]:
    """The costs, with what gpu_check has measured."""
    results = [json.loads(line) for line in file.read_text().splitlines()]
    probes = [result for result in results if result.get("probe") == "costs" and result["ok"]]
    if any(probe["simulated"] for probe in probes):
        sys.exit(f"gpu_step_model: {file} is from the simulated GPU, whose times mean nothing")
    figures = {probe["figures"]["what"]: probe["figures"] for probe in probes}
    costs = dict(COSTS)
    for name, cost in COSTS.items():
        if cost.measured in figures:
            one = figures[cost.measured]
            costs[name] = Cost(one["host_microseconds"], one["gpu_microseconds"] if cost.gpu else 0, "measured by gpu_check")
    return costs


def count(bin_folder: pathlib.Path, gpu: pathlib.Path, buckets: int) -> dict:
    done = subprocess.run([bin_folder / "gpu_step_count", str(buckets)], capture_output=True, text=True, timeout=120,
                          env=dict(os.environ, LD_LIBRARY_PATH=str(gpu)))
    if done.returncode != 0:
        raise RuntimeError(f"gpu_step_count: {done.stdout[-500:]} {done.stderr[-500:]}")
    return json.loads(done.stdout)


class Line(NamedTuple):
    """A number that grows with the buckets."""
    bucket: float
    step: float

    def of(self, buckets: float) -> float:
        return self.bucket * buckets + self.step


def lines(few: dict, many: dict, stream: str = "") -> dict[str, Line]:
    """The counts per bucket and per step in a stream, or of all calls, from two measurements."""

    def total(counts: dict, names: list[str]) -> float:
        return sum(call["per_step"] for call in counts["calls"]
                   if call["what"] in names and (not stream or call["stream"] == stream)
                   and (call["thread"] == "program" or call["what"] not in OF_PROGRAM))

    result = {}
    for name, names in OURS.items():
        low, high = total(few, names), total(many, names)
        slope = round((high - low) / (many["buckets"] - few["buckets"]), 1)
        result[name] = Line(slope, max(round(low - slope * few["buckets"], 1), 0) + 0)
    return result


def formula(bucket: float, step: float = 0, parameter: float = 0) -> str:
    parts = [f"{number:g} {name}" if number != 1 else name
             for number, name in ((parameter, "P"), (bucket, "B")) if number]
    if step or not parts:
        parts.append(f"{step:g}")
    return " + ".join(parts)


def kernels(kind: str) -> str:
    return f"other kernels, {kind}"


def pytorch(name: str, kind: str) -> dict:
    return PYTORCH.get(kernels(kind) if name == "other kernels" else name, {})


def number_of(counts: dict, buckets: float, parameters: float) -> float:
    return counts.get("bucket", 0) * buckets + counts.get("parameter", 0) * parameters + counts.get("step", 0)


def model(costs: dict[str, Cost], numbers: dict[str, float], in_lane: dict[str, float], copies: float) -> dict[str, float]:
    return {"host_us": sum(number * costs[what].host for what, number in numbers.items()),
            "lane_us_per_bucket": sum(number * costs[what].gpu for what, number in in_lane.items()), "copies_us": copies}


def tables(options: argparse.Namespace, ours: dict[str, Line], lane: dict[str, Line],
           costs: dict[str, Cost]) -> tuple[str, dict]:
    buckets = options.gigabytes * 1e9 / (options.bucket_mebibytes * 2**20)
    parameters = options.parameters
    kinds = list(PYTORCH_TRAFFIC)
    text = [f"Counts per step, for B buckets and P parameters ({buckets:.0f} and {parameters} below):", "",
            "| per step | ddplaunch | | PyTorch, bucket views | | PyTorch, default | |", "|---|---|---|---|---|---|---|"]
    for name, line in ours.items():
        cells = [formula(line.bucket, line.step), f"{line.of(buckets):.0f}"]
        for kind in kinds:
            each = pytorch(name, kind)
            cells += [formula(each.get("bucket", 0), each.get("step", 0), each.get("parameter", 0)),
                      f"{number_of(each, buckets, parameters):.0f}"]
        if any(cell != "0" for cell in cells):
            text.append(f"| {name} | {' | '.join(cells)} |")

    busy = 2 * (options.ranks - 1) / options.ranks / (options.bus_gigabytes * 1e3)  # microseconds per byte
    bucket_time = options.bucket_mebibytes * 2**20 * busy
    step_time = options.gigabytes * 1e9 * busy
    sweep = options.gigabytes * 1e3 / MEMORY_GIGABYTES * 1e3  # microseconds to read or write all gradients once
    numbers = {what: ours[what].of(buckets) for what in costs}
    in_lane = {what: line.bucket for what, line in lane.items() if what in costs}
    traffic = OUR_TRAFFIC + 2 * ours["other kernels"].bucket
    figures = {"ddplaunch": model(costs, numbers, in_lane, traffic * sweep)}
    for kind in kinds:
        numbers = {what: number_of(pytorch(what, kind), buckets, parameters) for what in costs}
        figures[f"PyTorch, {kind}"] = model(costs, numbers, PYTORCH_LANE, PYTORCH_TRAFFIC[kind] * sweep)
    text += ["", f"Model: {options.gigabytes:g} GB of gradients, buckets of {options.bucket_mebibytes} MiB, {options.ranks} GPUs at "
             f"{options.bus_gigabytes} GB/s: {bucket_time:.0f} us per bucket, {step_time / 1e3:.2f} ms per step.", "",
             "| | " + " | ".join(figures) + " |", "|---|" + "---|" * len(figures),
             "| host time for the calls, per step | " + " | ".join(f"{one['host_us'] / 1e3:.2f} ms" for one in figures.values()) + " |",
             "| added to the stream of the collectives, per bucket | " +
             " | ".join(f"{one['lane_us_per_bucket']:.1f} us ({one['lane_us_per_bucket'] / bucket_time:.1%})" for one in figures.values())
             + " |",
             "| GPU time to clear, scale and copy gradients, per step | " +
             " | ".join(f"{one['copies_us'] / 1e3:.2f} ms" for one in figures.values()) + " |"]
    text += ["", "| cost | host, us | stream, us | source |", "|---|---|---|---|"]
    text += [f"| {name} | {cost.host:g} | {cost.gpu:g} | {cost.source} |" for name, cost in costs.items()]
    return "\n".join(text), {"bucket_us": bucket_time, "step_us": step_time, "figures": figures}


def complaints(ours: dict[str, Line]) -> list[str]:
    """What a step must not do, for a model of one parameter per bucket, which favours PyTorch."""
    found = []
    launches = [ours[name] for name in ("NCCL operations", "other kernels", "copies")]
    per_bucket = sum(line.bucket for line in launches)
    allowed = PYTORCH["NCCL operations"]["bucket"] + PYTORCH[kernels("gradients as bucket views")]["parameter"]
    if per_bucket > allowed:
        found.append(f"{per_bucket:g} launches per bucket; PyTorch has {allowed:g} with one parameter per bucket")
    if ours["NCCL operations"].bucket != 1:
        found.append(f"{ours['NCCL operations'].bucket:g} NCCL operations per bucket")
    for name in ("host waits", "events created", "streams created", "allocations"):
        if ours[name].of(10) != 0:
            found.append(f"{name}: {formula(ours[name].bucket, ours[name].step)} per step, not 0")
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("bin", type=pathlib.Path)
    parser.add_argument("--gpu", type=pathlib.Path)
    parser.add_argument("--costs", type=pathlib.Path)
    parser.add_argument("--gigabytes", type=float, default=1)
    parser.add_argument("--bucket-mebibytes", type=float, default=25)
    parser.add_argument("--parameters", type=int, default=300)
    parser.add_argument("--ranks", type=int, default=8)
    parser.add_argument("--bus-gigabytes", type=float, default=370)
    parser.add_argument("--json", type=pathlib.Path)
    parser.add_argument("--check", action="store_true")
    options = parser.parse_args()
    gpu = (options.gpu or options.bin.parent / "tests/fake_gpu").resolve()
    few, many = (count(options.bin, gpu, buckets) for buckets in (10, 30))
    ours, lane = lines(few, many), lines(few, many, "nccl")
    costs = measured_costs(options.costs) if options.costs else COSTS
    text, figures = tables(options, ours, lane, costs)
    print(text)
    if options.json:
        options.json.write_text(json.dumps({**{name: {what: line._asdict() for what, line in each.items()} for name, each in
                                               (("ours", ours), ("lane", lane))}, "model": figures}, indent=1) + "\n")
    found = complaints(ours)
    for complaint in found:
        print(f"gpu_step_model: {complaint}", file=sys.stderr)
    return 1 if options.check and found else 0


if __name__ == "__main__":
    sys.exit(main())
