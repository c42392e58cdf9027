#!/usr/bin/env python3
"""nccl_test.py BIN_DIR: tests jobs on the nccl backend, with libcuda.so.1 and libnccl.so.2 from LD_LIBRARY_PATH.

Under CTest these libraries are fakes (tests/support/fake_gpu), so ranks share no real GPU and any number of ranks
works.
"""
import json
import os
import pathlib
import subprocess
import sys
import tempfile

BIN = pathlib.Path(sys.argv[1])


def launch(*words: str, **environment: str) -> subprocess.CompletedProcess:
    # The launcher itself finds no GPUs here; only the workers find them.
    return subprocess.run([BIN / "ddplaunch", *words], capture_output=True, text=True, timeout=120,
                          env=dict(os.environ, **environment))


def bench(backend: str, **environment: str) -> subprocess.CompletedProcess:
    return launch("--nproc_per_node=2", BIN / "ddp_bench", "all_reduce", "--sizes", "4K", "--iterations", "2", "--json",
                  DDP_BACKEND=backend, **environment)


def each_rank_gets_a_gpu_by_default() -> None:
    with tempfile.TemporaryDirectory() as folder:
        done = launch("--nproc_per_node=2", BIN / "train_charlm", "--steps", "60", "--checkpoint", f"{folder}/charlm")
    assert "backend nccl, 2 ranks (a GPU for each rank)" in done.stderr, done
    assert "the same on all ranks" in done.stdout, done


def every_collective_on_gpu_memory_is_right() -> None:
    done = launch("--nproc_per_node=3", BIN / "ddp_bench", "--sizes", "4,1K,300K", "--iterations", "2", "--json")
    lines = [json.loads(line.split(" ", 1)[1]) for line in done.stdout.splitlines() if "{" in line]
    assert len(lines) == 15 and all(line["wrong"] == 0 and line["backend"] == "nccl" for line in lines), done


def a_failed_first_collective_suggests_remedies() -> None:
    done = bench("nccl", FAKE_NCCL_FAIL_FIRST="1")
    assert done.returncode != 0 and "unhandled system error" in done.stderr, done
    assert "NCCL_P2P_DISABLE=1" in done.stderr and "NCCL_DEBUG=INFO" in done.stderr, done


def a_broken_nccl_is_replaced_only_by_a_backend_that_the_user_named() -> None:
    done = bench("nccl,gloo", FAKE_NCCL_FAIL_FIRST="1")
    assert done.returncode == 0 and '"backend": "gloo"' in done.stdout, done
    assert "backend gloo, 2 ranks (nccl cannot be used: rank 0: " in done.stderr, done
    assert bench("", FAKE_NCCL_FAIL_FIRST="1").returncode != 0


def communicators_block_if_a_variable_says_so() -> None:
    for value in ("0", "1"):
        done = bench("nccl", NCCL_COMM_BLOCKING=value)
        assert done.returncode == 0 and '"backend": "nccl"' in done.stdout, done
    done = bench("nccl", NCCL_COMM_BLOCKING="1", FAKE_NCCL_FAIL_FIRST="1")
    assert done.returncode != 0 and "unhandled system error" in done.stderr, done


def one_address_for_all_communicators_is_refused() -> None:
    done = bench("nccl", NCCL_COMM_ID="10.0.0.1:4000")
    assert done.returncode != 0 and "NCCL_COMM_ID=10.0.0.1:4000 gives all NCCL communicators one address" in done.stderr, done
    done = bench("nccl,gloo", NCCL_COMM_ID="10.0.0.1:4000")
    assert done.returncode == 0 and '"backend": "gloo"' in done.stdout and "NCCL_COMM_ID" in done.stderr, done


def a_rank_that_ends_first_breaks_no_local_call_of_the_others() -> None:
    # The memory of the first rank's group is still being freed when its process ends.
    for _ in range(3):
        done = launch("-q", "--nproc_per_node=2", BIN / "gpu_job", "leave", DDP_BACKEND="nccl", FAKE_GPU_DELAY="5000")
        assert done.returncode == 0 and '"failures": 0' in done.stdout, done


def the_reason_is_reported_without_a_gpu() -> None:
    done = bench("nccl", FAKE_GPU_COUNT="0")
    assert done.returncode != 0 and "CUDA_ERROR_NO_DEVICE" in done.stderr, done
    done = bench("nccl", FAKE_GPU_COUNT="1")
    assert done.returncode != 0 and "ranks 0 and 1 have the same GPU" in done.stderr, done
    done = bench("nccl", FAKE_NCCL_VERSION="21805")
    assert done.returncode != 0 and "NCCL 2.18.5 is too old" in done.stderr, done


if __name__ == "__main__":
    for check in [each_rank_gets_a_gpu_by_default, every_collective_on_gpu_memory_is_right,
                  a_failed_first_collective_suggests_remedies,
                  a_broken_nccl_is_replaced_only_by_a_backend_that_the_user_named,
                  communicators_block_if_a_variable_says_so,
                  one_address_for_all_communicators_is_refused,
                  a_rank_that_ends_first_breaks_no_local_call_of_the_others, the_reason_is_reported_without_a_gpu]:
        check()
        print(f"ok: {check.__name__.replace('_', ' ')}")
