#!/usr/bin/env python3
"""torch_lost_test.py DDPLAUNCH [FAULTS [SEED]]: loses ranks of a PyTorch training: see support/lost_ranks.py. Uses the
Python of the environment "pytorch"."""
import mmap
import os
import pathlib
import random
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
import environments  # noqa: E402  (it is in another folder)
from lost_ranks import FAULTS, PLACES, Storm  # noqa: E402

STEPS = 250


def train(folder):
    import hashlib
    import socket
    import struct

    import torch
    import torch.distributed as dist

    import ddp_state

    dist.init_process_group("gloo")
    rank = dist.get_rank()
    orders = mmap.mmap(os.open(folder / "orders", os.O_RDWR), 64)
    steps = mmap.mmap(os.open(folder / "steps", os.O_RDWR), 64 * 8)

    def at(place):
        order = orders[rank]
        if not order or PLACES[order % 8] != place:
            return
        orders[rank] = 0
        fault = FAULTS[order // 8]
        if fault == "exit":
            os._exit(3)
        if fault == "exception":
            raise ValueError("a fault")
        if fault == "sleep":
            time.sleep(1000)
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
    run = ddp_state.nothing_lost(model=parallel, optimizer=optimizer, scheduler=scheduler)
    attempt = os.environ["TORCHELASTIC_RESTART_COUNT"]
    with open(folder / "begins", "a") as file:
        file.write(f"{attempt} {rank} {run.step}\n")
    for step in run.steps(STEPS):
        time.sleep(0.002)
        inputs = torch.randn(8, 16) + random.random() * 0
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
    for tensor in [*model.state_dict().values(),
                   *(tensor for state in optimizer.state.values() for tensor in state.values())]:
        digest.update(tensor.numpy().tobytes())
    print("digest", rank, digest.hexdigest(), flush=True)


def main():
    faults = int(sys.argv[2]) if len(sys.argv) > 2 else 4
    seed = int(sys.argv[3]) if len(sys.argv) > 3 else random.randrange(2**32)
    program = [environments.need("pytorch"), __file__, "--train", "FOLDER"]
    Storm([sys.argv[1], "--preload=torch"], program, seed).blow(faults)


if __name__ == "__main__":
    if sys.argv[1] == "--train":
        train(pathlib.Path(sys.argv[2]))
    else:
        main()
