#!/usr/bin/env python3
"""lost_rank_time.py DDPLAUNCH PYTHON [KILLS=5 [SIZE=5000 [NODES=1]]]: measures how long a PyTorch training of two ranks
needs from SIGKILL of a rank to its next finished step, and how many steps are lost. In turns: ddplaunch with
nothing_lost() and --preload=torch,torch._dynamo (which DistributedDataParallel imports), the same without the preloader, and torchrun with torch.save() every 100 steps.
Before that, the
same of a small C++ training. PYTHON is that of an environment with PyTorch. The model has SIZE x SIZE parameters, and AdamW.
"""
import mmap
import os
import pathlib
import random
import signal
import statistics
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
from lost_ranks import Job  # noqa: E402  (it is in another folder)


def train(folder, size):
    import torch
    import torch.distributed as dist

    dist.init_process_group("gloo")
    rank = dist.get_rank()
    steps = mmap.mmap(os.open(folder / "steps", os.O_RDWR), 512)
    model = torch.nn.Linear(size, size, bias=False)
    parallel = torch.nn.parallel.DistributedDataParallel(model)
    optimizer = torch.optim.AdamW(parallel.parameters())
    keeps, file, first = "DDP_STATE_MEMORY" in os.environ, folder / "checkpoint.pt", 0
    if keeps:
        import ddp_state
        run = ddp_state.nothing_lost(model=parallel, optimizer=optimizer)
        first = run.step
    elif file.exists():
        saved = torch.load(file)
        first = saved["step"]
        parallel.load_state_dict(saved["model"])
        optimizer.load_state_dict(saved["optimizer"])
    for step in range(first, 1_000_000):
        optimizer.zero_grad()
        parallel(torch.randn(4, size)).square().mean().backward()
        optimizer.step()
        if keeps:
            run.finish_step()
        elif (step + 1) % 100 == 0 and rank == 0:
            torch.save({"step": step + 1, "model": parallel.state_dict(), "optimizer": optimizer.state_dict()}, f"{file}.new")
            os.rename(f"{file}.new", file)
        # The step and a number that counts steps of all attempts.
        count = int.from_bytes(steps[16 * rank + 8:16 * rank + 16], "little") + 1
        steps[16 * rank:16 * rank + 16] = (step + 1).to_bytes(8, "little") + count.to_bytes(8, "little")


def worker(folder, rank):
    for process in pathlib.Path("/proc").iterdir():
        try:
            if process.name.isdigit() and str(folder).encode() in (process / "cmdline").read_bytes() and \
                    f"RANK={rank}".encode() in (process / "environ").read_bytes().split(b"\0"):
                return int(process.name)
        except OSError:
            pass
    return None


def measure(words, python, size, kills, nodes):
    seconds, lost = [], []
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        (folder / "steps").write_bytes(bytes(512))
        steps = mmap.mmap(os.open(folder / "steps", os.O_RDWR), 512)

        def read(rank, at):
            return int.from_bytes(steps[16 * rank + at:16 * rank + at + 8], "little")

        options = [] if nodes == 1 else [f"--nnodes={nodes}", f"--rdzv-endpoint=127.0.0.1:{random.randrange(20000, 30000)}",
                                         "--rdzv-backend=c10d"]
        command = [*words, f"--nproc-per-node={2 // nodes}", "--max-restarts=1000", *options]
        jobs = [subprocess.Popen([*command, *([] if "torch.distributed.run" in words else [python]), __file__, "--train", name,
                                  str(size)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) for _ in range(nodes)]
        for _ in range(kills):
            wanted = min(read(rank, 8) for rank in (0, 1)) + random.randrange(8, 20)
            while min(read(rank, 8) for rank in (0, 1)) < wanted:
                time.sleep(0.005)
            time.sleep(random.random() * 0.3)
            victim = random.randrange(2)
            before = max(read(rank, 0) for rank in (0, 1))
            counts = [read(rank, 8) for rank in (0, 1)]
            pid = worker(folder, victim)
            begin = time.monotonic()
            os.kill(pid, signal.SIGKILL)
            # The survivor may finish the step that was under way.
            while read(victim, 8) == counts[victim]:
                time.sleep(0.001)
            seconds.append(time.monotonic() - begin)
            lost.append(max(0, before - (read(victim, 0) - 1)))
        for job in jobs:
            job.send_signal(signal.SIGTERM)
        for job in jobs:
            job.wait()
    return seconds, lost


def measure_cpp(launcher, kills, nodes):
    """Returns how long losing_ranks, with 6,000 parameters, needs from a kill to its next finished step."""
    seconds = []
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        job = Job([launcher, pathlib.Path(launcher).parent / "losing_ranks", folder, 1_000_000], folder, nodes, 2 // nodes)
        for _ in range(kills):
            wanted = job.step() + random.randrange(20, 60)
            while job.step() < wanted:
                time.sleep(0.001)
            victim = random.randrange(2)
            pid = job.worker(victim)
            attempt, begin = max(job.begins()), time.monotonic()
            os.kill(pid, signal.SIGKILL)
            while len(job.begins().get(attempt + 1, [])) < 2 or job.step() <= job.begins()[attempt + 1][0]:
                time.sleep(0.0005)
            seconds.append(time.monotonic() - begin)
        job.end()
    return seconds


def main():
    launcher, python = sys.argv[1:3]
    kills, size, nodes = (int(word) for word in (sys.argv[3:] + ["5", "5000", "1"][len(sys.argv) - 3:]))
    ways = {"ddplaunch --preload, nothing_lost": [launcher, "--preload=torch,torch._dynamo"],
            "ddplaunch, nothing_lost": [launcher],
            "torchrun, torch.save every 100 steps": [python, "-m", "torch.distributed.run"]}
    seconds = measure_cpp(launcher, 4 * kills, nodes)
    print(f"C++: next step after {1000 * statistics.median(seconds):.0f} ms (worst {1000 * max(seconds):.0f} ms)", flush=True)
    print(f"{size * size / 1e6:.0f} M parameters, 2 ranks on {nodes} node(s), {kills} kills each")
    for name, words in ways.items():
        seconds, lost = measure(words, python, size, kills, nodes)
        print(f"{name:40s} next step after {statistics.median(seconds):6.2f} s (worst {max(seconds):6.2f} s), "
              f"lost {statistics.median(lost):3.0f} steps (worst {max(lost):3d})", flush=True)


if __name__ == "__main__":
    if sys.argv[1] == "--train":
        train(pathlib.Path(sys.argv[2]), int(sys.argv[3]))
    else:
        main()
