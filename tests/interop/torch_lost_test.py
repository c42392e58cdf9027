#!/usr/bin/env python3
"""torch_lost_test.py DDPLAUNCH [FAULTS [SEED]]: loses ranks of a PyTorch training: see support/lost_ranks.py. Before that,
checks what is kept of random generators and buffers. Uses the Python of the environment "pytorch"."""
import mmap
import os
import pathlib
import pickle
import random
import subprocess
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
import environments  # noqa: E402  (it is in another folder)
from lost_ranks import Storm, fail_if_ordered  # noqa: E402

STEPS = 250


def train(folder):
    import hashlib
    import socket
    import struct

    import numpy
    import torch
    import torch.distributed as dist

    import ddp_state

    dist.init_process_group("gloo")
    rank = dist.get_rank()
    orders = mmap.mmap(os.open(folder / "orders", os.O_RDWR), 64)
    steps = mmap.mmap(os.open(folder / "steps", os.O_RDWR), 64 * 8)

    def at(place):
        if not fail_if_ordered(orders, rank, place):
            return
        for name in os.listdir("/proc/self/fd"):  # the connections are lost
            try:
                connection = socket.socket(fileno=os.dup(int(name)))
                if connection.family == socket.AF_INET:
                    connection.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass

    torch.manual_seed(1)
    model = torch.nn.Sequential(torch.nn.Linear(16, 48), torch.nn.BatchNorm1d(48), torch.nn.Dropout(0.1),
                                torch.nn.Linear(48, 4))
    model[3].register_full_backward_hook(lambda *_: at("backward"))
    parallel = torch.nn.parallel.DistributedDataParallel(model)
    optimizer = torch.optim.AdamW(parallel.parameters(), lr=1e-2)
    optimizer.register_step_post_hook(lambda *_: at("optimizer"))
    scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, STEPS)
    torch.manual_seed(2 + rank)
    random.seed(2 + rank)
    numpy.random.seed(2 + rank)
    run = ddp_state.nothing_lost(model=parallel, optimizer=optimizer, scheduler=scheduler)
    attempt = os.environ["TORCHELASTIC_RESTART_COUNT"]
    with open(folder / "begins", "a") as file:
        file.write(f"{attempt} {rank} {run.step}\n")
    for step in run.steps(STEPS):
        time.sleep(0.002)
        inputs = torch.randn(8, 16) + random.gauss(0, 1) + numpy.random.normal()  # both hold back a second number
        at("forward")
        loss = (parallel(inputs) - torch.randn(8, 4)).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        scheduler.step()
        at("finish")
        run.finish_step()
        struct.pack_into("=q", steps, rank * 8, run.step)
    digest = hashlib.sha256(torch.get_rng_state().numpy().tobytes())
    digest.update(repr((random.getstate(), numpy.random.get_state(legacy=False))).encode())
    for tensor in [*model.state_dict().values(),
                   *(tensor for state in optimizer.state.values() for tensor in state.values())]:
        digest.update(tensor.numpy().tobytes())
    print("digest", rank, digest.hexdigest(), flush=True)


def check_random(folder, numpy):
    """Checks that all generators are restored, and that draws between the two writes of a step are noticed. `numpy` is None
    if the program has no NumPy."""
    import json

    import torch

    sys.path.insert(0, folder)
    import ddp_state

    memory = os.memfd_create("states")
    os.ftruncate(memory, 1 << 42)
    os.environ.update(WORLD_SIZE="1", DDP_STATE_MEMORY=json.dumps(
        {"fd": memory, "area": 0, "areas": 1, "rank": 0, "world": 1, "attempt": 0, "may_restart": 0}))
    model = torch.nn.Linear(1, 1)
    run = ddp_state.nothing_lost(model=model, optimizer=torch.optim.SGD(model.parameters(), 0.1))
    draws = {"random": random.random, "gauss": lambda: random.gauss(0, 1), "torch": lambda: torch.rand(20).tolist(),
             "torch normal": lambda: torch.randn(1).item()}
    if numpy:
        draws |= {"numpy": numpy.random.random_sample, "numpy normal": numpy.random.normal}

    def draw(times=1):
        return [(name, call()) for _ in range(times) for name, call in draws.items()]

    def check(what):
        for number in range(1300):  # all 624 words of the generators change; normal numbers are held back or not, in turn
            if number % 94 == 0:
                states = run.random.read()
                expected = draw(3)
                draw(number)
                run.random.set(states)
                found = draw(3)
                assert found == expected, (what, number, found, expected)
            draw()
        for name, call in [("none", lambda: None), *draws.items(), *draws.items()]:  # then what was held back
            run._note(1, 1)
            call()
            run._note(2, 1)
            kind = run.memory.entry(0, 3).kind
            assert kind == (2 if name == "none" else 3), (what, name, kind)

    check("memory")
    assert run.random.words
    run.random.words = None
    if numpy:
        assert run.random.views
        if hasattr(numpy.random, "set_bit_generator"):
            usual = numpy.random.get_bit_generator()
            numpy.random.set_bit_generator(numpy.random.PCG64(3))
            check("another generator of NumPy")
            assert not run.random.views
            numpy.random.set_bit_generator(usual)
            check("the first generator of NumPy")
            assert run.random.views
        run.random.views = None
    check("functions")


def check_buffers(folder):
    """Checks that buffers are restored if the program replaces, removes and adds some."""
    import torch

    sys.path.insert(0, folder)
    import ddp_state

    def begin():
        model = torch.nn.Sequential(torch.nn.BatchNorm1d(2), torch.nn.BatchNorm1d(2), torch.nn.BatchNorm1d(2))
        model.register_buffer("mask", torch.zeros(3))
        return model, ddp_state.nothing_lost(model=model, optimizer=torch.optim.SGD(model.parameters(), 0.1))

    model, run = begin()
    model[0].running_mean = torch.tensor([[1.0, 2.0], [3.0, 4.0]]).t()[0]  # it has gaps in memory
    model[1].running_var = None
    model[1].register_buffer("late", torch.ones(5))
    model[2].running_var.fill_(7)
    model.mask = None
    run._note(2, 1)
    entry = run.memory.entry(0, 3)
    model, run = begin()
    run._load_own(pickle.loads(run.memory.read(entry, 0, bytearray(entry.bytes)))[0])
    found = [buffer.tolist() for buffer in (model[0].running_mean, model[1].running_var, model[2].running_var, model.mask)]
    assert found == [[1, 3], [1, 1], [7, 7], [0, 0, 0]], found


def main():
    modules = pathlib.Path(sys.argv[1]).resolve().parent / "ddp_python" / "modules"
    for numpy in ("with", "without"):
        subprocess.run([environments.need("pytorch"), "-W", "ignore", __file__, "--own", modules, numpy], check=True)
    faults = int(sys.argv[2]) if len(sys.argv) > 2 else 4
    seed = int(sys.argv[3]) if len(sys.argv) > 3 else random.randrange(2**32)
    program = [environments.need("pytorch"), __file__, "--train", "FOLDER"]
    Storm([sys.argv[1], "--preload=torch"], program, seed).blow(faults)


if __name__ == "__main__":
    if sys.argv[1] == "--train":
        train(pathlib.Path(sys.argv[2]))
    elif sys.argv[1] == "--own":
        if sys.argv[3] == "without":
            sys.modules["numpy"] = None  # it cannot be imported
        check_random(sys.argv[2], __import__("numpy") if sys.argv[3] == "with" else None)
        check_buffers(sys.argv[2])
    else:
        main()
