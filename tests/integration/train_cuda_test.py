#!/usr/bin/env python3
"""train_cuda_test.py BIN_DIR: train_cuda, on the GPU in software, learns what train_charlm learns.

One and two ranks reach the validation perplexity of train_charlm after the same number of steps, and beyond the first
epoch, too. The time of steps is printed. Wrong arguments and a missing GPU cause errors that name the remedy.
"""
import os
import pathlib
import re
import subprocess
import sys


def run(command: list, **environment: str) -> subprocess.CompletedProcess:
    return subprocess.run([str(word) for word in command], capture_output=True, text=True, timeout=300,
                          env=dict(os.environ, **environment))


def perplexity(done: subprocess.CompletedProcess) -> float:
    found = re.search(r"validation +perplexity ([0-9.]+)", done.stdout)
    assert done.returncode == 0 and found, done
    return float(found[1])


def main() -> int:
    folder = pathlib.Path(sys.argv[1])
    launch = [folder / "ddplaunch", "-q", "--oversubscribe"]
    program = folder / "train_cuda_in_software"
    on_cpu = perplexity(run([*launch, "--nproc_per_node=1", folder / "train_charlm", "--checkpoint", "", "--steps", 25],
                            DDP_BACKEND="cpu"))
    for ranks in (1, 2):
        done = run([*launch, f"--nproc_per_node={ranks}", program, "--steps", 25], DDP_BACKEND="nccl")
        assert abs(perplexity(done) - on_cpu) < 0.006, (ranks, on_cpu, done.stdout)  # on_cpu is rounded to 0.01
        assert re.search(r"a step +[0-9.]+ ms computing, [0-9.]+ ms communicating", done.stdout), done.stdout
        print(f"{ranks} ranks: {perplexity(done):.6f}, train_charlm {on_cpu}")
    # An epoch has 7 of these steps. The next epoch's order is copied to the GPU while it still uses the previous one.
    epochs = ["--batch", 4096, "--steps", 9]
    on_cpu = perplexity(run([*launch, "--nproc_per_node=1", folder / "train_charlm", "--checkpoint", "", *epochs],
                            DDP_BACKEND="cpu"))
    done = run([*launch, "--nproc_per_node=2", program, *epochs], DDP_BACKEND="nccl")
    assert abs(perplexity(done) - on_cpu) < 0.006, (on_cpu, done.stdout)
    local = run([*launch, "--nproc_per_node=2", program, "--steps", 3, "--local"], DDP_BACKEND="nccl")
    assert local.returncode == 0 and "communicating" not in local.stdout, local
    for words, said in ((["--steps", "0"], "1 or more"), (["--what"], "wrong argument --what"),
                        (["--batch", "7", "--steps", "1"], "multiple of the 2 ranks")):
        done = run([*launch, "--nproc_per_node=2", program, *words], DDP_BACKEND="nccl")
        assert done.returncode == 1 and said in done.stderr, (words, done)
    done = run([*launch, "--nproc_per_node=1", program, "--steps", 1], DDP_BACKEND="cpu")
    assert done.returncode == 1 and "needs a GPU" in done.stderr, done
    return 0


if __name__ == "__main__":
    sys.exit(main())
