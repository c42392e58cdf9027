#!/usr/bin/env python3
"""gpu_memory_test.py BIN_DIR FAKE_NVML_DIR FAKE_GPU_DIR: a rank that gets no GPU memory is reported with its GPU, the
numbers and the other processes on the GPU. A rank that uses another GPU than the plan's is reported. The GPUs are files
in a mount namespace, and their libraries are fakes."""
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile

BIN, FAKE_NVML, FAKE_GPU = (pathlib.Path(word).resolve() for word in sys.argv[1:4])
SKIPPED = 77
GPUS = 4
GIB = 1 << 30
UUIDS = [f"{0xaa11bb00 + number:08x}-0000-4000-8000-{number:012x}" for number in range(GPUS)]

# This traceback is PyTorch's. The program's name for the GPU is 0, whichever GPU of the node that is.
PYTORCH = """
import os, sys
if os.environ["RANK"] == "1":
    print("preparing", file=sys.stderr)
    class OutOfMemoryError(RuntimeError): pass
    OutOfMemoryError.__module__ = "torch"
    raise OutOfMemoryError(
        "CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of 79.15 GiB of which 1.50 GiB is free. "
        "Including non-PyTorch memory, this process has 77.00 GiB memory in use. Of the allocated memory 70.00 GiB is "
        "allocated by PyTorch, and 5.00 GiB is reserved by PyTorch but unallocated. If reserved but unallocated memory is "
        "large try setting PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True to avoid fragmentation.")
import time
time.sleep(1000)
"""


class Machine:
    """Simulates a node with four GPUs. Processes on them are what the driver's fake says."""

    def __init__(self) -> None:
        self.folder = tempfile.TemporaryDirectory()
        self.path = pathlib.Path(self.folder.name)
        for number, uuid in enumerate(UUIDS):
            gpu = self.path / f"driver/nvidia/gpus/0000:0{number}:00.0"
            gpu.mkdir(parents=True)
            (gpu / "information").write_text(f"GPU UUID: \t GPU-{uuid}\nDevice Minor: \t {number}\n")
        self.has_processes({})
        self.environment = {**os.environ, "LD_LIBRARY_PATH": f"{FAKE_NVML}:{FAKE_GPU}", "FAKE_NVML": str(self.path / "state"),
                            "FAKE_GPU_UUIDS": ",".join(uuid.replace("-", "") for uuid in UUIDS)}
        for name in ("CUDA_VISIBLE_DEVICES", "CUDA_DEVICE_ORDER", "SLURM_JOB_ID"):
            self.environment.pop(name, None)

    def has_processes(self, processes: dict[int, str]) -> None:
        lines = [f"GPU-{uuid} 0 0 - {processes.get(number, '-')}\n" for number, uuid in enumerate(UUIDS)]
        (self.path / "state").write_text("".join(lines))

    def run(self, *words: object, **variables: str) -> subprocess.CompletedProcess:
        mount = f'mount --bind {self.path}/driver /proc/driver && exec "$@"'
        command = ["unshare", "--mount", "sh", "-c", mount, "sh", BIN / "ddplaunch", f"--summary={self.path}/summary",
                   "--nproc-per-node=2", *words]
        return subprocess.run([str(word) for word in command], env={**self.environment, **variables}, capture_output=True,
                              text=True, timeout=120)

    def summary(self) -> dict:
        return json.loads((self.path / "summary").read_text())


def python(machine: Machine) -> list[object]:
    script = machine.path / "train.py"
    script.write_text(PYTORCH)
    return [script]


def a_pytorch_program_without_memory_is_reported() -> None:
    machine = Machine()
    pids_are_known = os.readlink("/proc/self/ns/pid") == "pid:[4026531836]"
    # This process stands for one outside of the job that holds memory.
    machine.has_processes({0: "1:4096", 3: f"{os.getpid()}:{39 * GIB}"})
    done = machine.run(*python(machine), CUDA_VISIBLE_DEVICES="3,1")
    assert done.returncode == 1, done
    assert ("out of GPU memory on GPU 3 (planned for this rank: GPU 1): 2 GiB requested, 1.5 GiB of 79 GiB free, 77 GiB used by "
            "this rank\n") in done.stderr, done
    name = pathlib.Path("/proc/self/comm").read_text().strip()
    other = f"pid {os.getpid()} ({name})" if pids_are_known else f"pid {os.getpid()} of the node"
    assert f"also on GPU 3: {other}: 39 GiB\n" in done.stderr, done
    assert "try: give each rank its own GPU: torch.cuda.set_device(LOCAL_RANK)" in done.stderr, done
    end_it = f"; end pid {os.getpid()}, or choose other GPUs with --gpus" if pids_are_known else ""
    assert f"map_location=\"cpu\"){end_it}; PYTORCH_CUDA_ALLOC_CONF" in done.stderr, done
    memory = machine.summary()["gpu_memory"]
    assert memory["gpu"] == 3 and memory["asked_bytes"] == 2 * GIB, memory
    assert [(one["pid"], one["bytes"]) for one in memory["others"]] == [(os.getpid(), 39 * GIB)], memory


def a_driver_that_does_not_answer_delays_the_report_for_a_bounded_time() -> None:
    machine = Machine()
    (machine.path / "state").unlink()  # calls of the driver hang
    done = machine.run(*python(machine))
    assert done.returncode == 1 and "out of GPU memory on GPU 0 (planned for this rank: GPU 1): 2 GiB" in done.stderr, done
    assert "no other process uses GPU 0 after the failure" in done.stderr, done


def a_native_program_without_memory_is_reported() -> None:
    machine = Machine()
    done = machine.run(BIN / "ddp_bench", "all_reduce", "--sizes", "64M", "--iterations", "2", DDP_BACKEND="nccl",
                       FAKE_GPU_MEMORY=str(32 << 20))
    assert done.returncode != 0, done
    found = re.search(r"out of GPU memory: 64 MiB were requested on GPU (\d) by rank \1, where .* of 32 MiB are free", done.stderr)
    assert found, done
    assert re.search(r"out of GPU memory on GPU [01]: 64 MiB requested, .* of 32 MiB free\n", done.stderr), done
    assert machine.summary()["gpu_memory"]["source"] == "runtime", machine.summary()


def ranks_on_other_gpus_than_planned_are_reported() -> None:
    machine = Machine()
    bench = (BIN / "ddp_bench", "all_reduce", "--sizes", "4K", "--iterations", "2")
    done = machine.run("--device-visibility=all", *bench, DDP_BACKEND="nccl")
    assert done.returncode == 0 and "but the plan gives it" not in done.stderr, done
    # CUDA counts the GPUs in the opposite order here.
    turned = ",".join(uuid.replace("-", "") for uuid in reversed(UUIDS))
    done = machine.run("--device-visibility=all", *bench, DDP_BACKEND="nccl", FAKE_GPU_UUIDS=turned)
    assert done.returncode == 0, done
    assert (f"warning: rank 0 uses GPU 3 (GPU-{UUIDS[3]}), but the plan gives it GPU 0 (GPU-{UUIDS[0]}); rank 1 uses another "
            "GPU, too. CUDA_DEVICE_ORDER is not PCI_BUS_ID") in done.stderr, done
    assert done.stderr.count("but the plan gives it") == 1, done
    ends = {end["rank"]: end["gpu_uuid"] for end in machine.summary()["workers_ended"]}
    assert ends == {0: UUIDS[3], 1: UUIDS[2]}, ends


if __name__ == "__main__":
    if subprocess.run(["unshare", "--mount", "true"], capture_output=True).returncode != 0:
        print("no mount namespace can be made here")
        sys.exit(SKIPPED)
    for check in [a_pytorch_program_without_memory_is_reported, a_native_program_without_memory_is_reported,
                  a_driver_that_does_not_answer_delays_the_report_for_a_bounded_time,
                  ranks_on_other_gpus_than_planned_are_reported]:
        check()
        print(f"ok: {check.__name__.replace('_', ' ')}")
