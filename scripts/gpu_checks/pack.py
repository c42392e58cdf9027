"""Packs what scripts/gpu_check needs on a machine without this project's build tools."""
from __future__ import annotations

import pathlib
import shutil
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = ROOT / "build/release"
PROGRAMS = ["ddplaunch", "ddp_bench", "ddp_stack_reader", "ddp_gpu_reader", "ddp_torch_reader", "unit_runtime_test",
            "raw_nccl_bench", "nccl_program", "train_charlm", "gpu_job", "gpu_probes", "gpu_calls", "kernel_bench", "losing_ranks"]
# These belong to the machine and its driver.
SYSTEM_LIBRARIES = ("libc.so", "libm.so", "libdl.so", "librt.so", "libpthread.so", "ld-linux", "linux-vdso",
                    "libcublas", "libcudart", "libcuda.so", "libnccl", "libfake_gpu")
COMPILER_LIBRARIES = ("libstdc++", "libgcc_s")
# What is built on the machine if it could not be built here.
PLUGIN = "libnccl-profiler-ddplaunch.so"  # the launcher has NCCL load it
SOURCES = ["include", "src/libtorch", "examples/charlm", "examples/train_cuda.cu"]
MOST_MIB = 60


def pack(folder: pathlib.Path, train_cuda: pathlib.Path) -> None:
    missing = [name for name in PROGRAMS if not (BUILD / "bin" / name).exists()]
    if missing:
        sys.exit(f"gpu_check: {', '.join(missing)} not built: cmake --preset release -DDDP_BUILD_TESTS=ON && "
                 f"cmake --build --preset release --target {' '.join(PROGRAMS)}")
    shutil.rmtree(folder, ignore_errors=True)
    for name in ("bin", "lib", "lib_gcc", "source/src"):
        (folder / name).mkdir(parents=True)
    programs = {name: BUILD / "bin" / name for name in PROGRAMS}
    if train_cuda.exists():
        programs["train_cuda"] = train_cuda
    libraries = {}
    for name, program in programs.items():
        copy_stripped(program, folder / "bin" / name)
        listed = subprocess.run(["ldd", program], capture_output=True, text=True, check=True).stdout
        libraries.update({line.split("=>")[1].split()[0]: line.split()[0] for line in listed.splitlines()
                          if "=> /" in line and not line.strip().startswith(SYSTEM_LIBRARIES)})
    for library, name in libraries.items():
        copy_stripped(library, folder / ("lib_gcc" if name.startswith(COMPILER_LIBRARIES) else "lib") / name)
    runtime = next((folder / "lib").glob("libddp_runtime.so.*"))
    # For programs that are linked there. A copied folder may not keep links; the linker takes this text, too.
    (folder / "lib/libddp_runtime.so").write_text(f"INPUT({runtime.name})\n")
    # Without its hook, the launcher sees nothing of PyTorch's programs.
    shutil.copytree(BUILD / "bin/ddp_python", folder / "bin/ddp_python", ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy2(BUILD / "bin" / PLUGIN, folder / "bin")
    for source in SOURCES:
        if (ROOT / source).is_dir():
            shutil.copytree(ROOT / source, folder / "source" / source)
        else:
            shutil.copy2(ROOT / source, folder / "source" / source)
    shutil.copy2(ROOT / "tests/bench/step_bench.cpp", folder / "source")
    shutil.copy2(ROOT / "scripts/gpu_check", folder)
    shutil.copytree(ROOT / "scripts/gpu_checks", folder / "gpu_checks", ignore=shutil.ignore_patterns("__pycache__"))
    size = sum(file.stat().st_size for file in folder.rglob("*") if file.is_file()) >> 20
    print(f"gpu_check: {folder} has {len(programs)} programs and {len(libraries)} libraries, {size} MiB"
          + ("" if train_cuda.exists() else "; train_cuda is built on the machine"))
    if size > MOST_MIB:
        sys.exit(f"gpu_check: the pack has more than {MOST_MIB} MiB")


def copy_stripped(file: str | pathlib.Path, to: pathlib.Path) -> None:
    shutil.copy2(file, to)
    subprocess.run(["strip", "--strip-unneeded", to], check=True)
