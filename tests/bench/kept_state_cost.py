#!/usr/bin/env python3
"""kept_state_cost.py DDPLAUNCH PYTHON [SIZE=1000 [STEPS=400 [ROUNDS=5]]]: measures what a healthy PyTorch training of two
ranks pays for nothing_lost(): a step without it, with it, with images, and with images on disk, in turns. The first half of
the steps is not measured, because the ranks agree on the interval of images there. PYTHON is that of an environment with
PyTorch. The model has SIZE x SIZE parameters, and AdamW."""
import os
import re
import statistics
import subprocess
import sys
import tempfile
import time

WAYS = {"without nothing_lost()": ["--max-restarts=1"],
        "with it": ["--max-restarts=1"],
        "and images, 1%": ["--max-restarts=1", "--image-cost=1%"],
        "and images, 10%": ["--max-restarts=1", "--image-cost=10%"],
        "and images, 10%, on disk": ["--max-restarts=1", "--image-cost=10%", "--image-dir=FOLDER"]}


def train(way, size, steps):
    import torch
    import torch.distributed as dist

    import ddp_state

    dist.init_process_group("gloo")
    torch.set_num_threads(1)
    model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(size, size, bias=False))
    optimizer = torch.optim.AdamW(model.parameters())
    run = None if way == "without nothing_lost()" else ddp_state.nothing_lost(model=model, optimizer=optimizer)
    begin = 0.0
    for step in range(steps):
        if step == steps // 2:
            begin = time.monotonic()
        optimizer.zero_grad()
        model(torch.randn(4, size)).square().mean().backward()
        optimizer.step()
        if run:
            run.finish_step()
    seconds = (time.monotonic() - begin) / (steps - steps // 2)
    image, every = (run.device.image_seconds(), run.image_every) if run else (0, 0)
    longest = torch.tensor([image])
    dist.all_reduce(longest, dist.ReduceOp.MAX)  # one rank copies for both
    if dist.get_rank() == 0:
        print("seconds", seconds, longest.item(), every, flush=True)


def measure(launcher, python, way, size, steps):
    with tempfile.TemporaryDirectory() as name:
        options = [option.replace("FOLDER", name) for option in WAYS[way]]
        result = subprocess.run([launcher, "--nproc-per-node=2", *options, python, __file__, "--train", way, size, steps],
                                stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, check=True)
        return [float(number) for number in re.search(r"seconds (\S+) (\S+) (\S+)", result.stdout).groups()]


def main():
    launcher, python = sys.argv[1:3]
    size, steps, rounds = (sys.argv[3:] + ["1000", "400", "5"][len(sys.argv) - 3:])
    found = {way: [] for way in WAYS}
    for _ in range(int(rounds)):
        for way in WAYS:
            found[way].append(measure(launcher, python, way, size, steps))
    state = 12 * int(size)**2
    source, target = bytearray(os.urandom(1 << 20)) * (state >> 20), bytearray(state >> 20 << 20)
    times = []
    for _ in range(7):
        begin = time.monotonic()
        memoryview(target)[:] = source
        times.append(time.monotonic() - begin)
    print(f"a state of {state / 2**20:.0f} MiB; memcpy takes {1000 * statistics.median(times):.1f} ms")
    usual = statistics.median(seconds for seconds, _, _ in found["without nothing_lost()"])
    for way, rows in found.items():
        seconds, image, every = (statistics.median(column) for column in zip(*rows))
        ratio = statistics.median(one[0] / other[0] for one, other in zip(rows, found["without nothing_lost()"]))
        text = f"; an image takes {1000 * image:.1f} ms, every {every:.0f} steps" if image else ""
        print(f"{way:26s} {1000 * seconds:7.2f} ms a step, {ratio:.3f} of {1000 * usual:.2f} ms{text}")


if __name__ == "__main__":
    if sys.argv[1] == "--train":
        train(sys.argv[2], int(sys.argv[3]), int(sys.argv[4]))
    else:
        main()
