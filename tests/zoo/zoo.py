#!/usr/bin/env python3
"""zoo.py NAME | list: runs a healthy program without the runtime. Some programs use PyTorch (if it is installed).
They are in Python or, as text, for a shell. Each rank ends with 0; rank 0 prints "done". A wait takes IDLE seconds."""
import importlib.util
import multiprocessing
import os
import pathlib
import sys
import time

IDLE = 8
RANK = int(os.environ.get("RANK", "0"))

SHELL = {"shell_polls": f'[ "$RANK" = 1 ] && {{ sleep {IDLE}; touch file; }}; until [ -e file ]; do sleep 0.2; done'}


def python_has_a_pool() -> None:
    with multiprocessing.Pool(2) as pool:
        pool.map(time.sleep, [IDLE, IDLE])


def python_heartbeats() -> None:
    sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "bindings/python"))
    import ddp_page
    for _ in range(20):
        ddp_page.heartbeat()
        time.sleep(0.05)
    time.sleep(IDLE if RANK == 1 else 0)  # the other rank waits for it
    ddp_page.heartbeat()


def with_torch(action) -> None:
    """Takes training steps, calls `action`, and takes more steps. A rank that is done waits for the others in the next
    all_reduce."""
    import torch
    import torch.distributed as dist
    dist.init_process_group("gloo")
    values = torch.ones(64)
    for step in range(20):
        dist.all_reduce(values)
        if step == 9:
            action(torch, dist)
    dist.barrier()
    if RANK == 0:
        print("done", flush=True)
    # Skips the interpreter's shutdown, in which PyTorch 1.13 sometimes aborts ("terminate called without an active
    # exception"), with or without ddplaunch.
    sys.stderr.flush()
    os._exit(0)


def torch_loads_data() -> None:
    def load(torch, dist):
        class Slow(torch.utils.data.Dataset):
            def __len__(self):
                return IDLE

            def __getitem__(self, index):
                time.sleep(2 if RANK == 1 else 0)
                return index

        list(torch.utils.data.DataLoader(Slow(), num_workers=2))
    with_torch(load)


def torch_computes_alone() -> None:
    def compute(torch, dist):
        end = time.monotonic() + IDLE
        matrix = torch.ones(64, 64)
        while RANK == 1 and time.monotonic() < end:
            torch.mm(matrix, matrix)
            time.sleep(0.01)
    with_torch(compute)


def torch_waits_for_a_work() -> None:
    def wait(torch, dist):
        if RANK == 1:
            time.sleep(IDLE)
        dist.all_reduce(torch.ones(8), async_op=True).wait()
    with_torch(wait)


PYTHON = {name: action for name, action in globals().items() if name.startswith(("python_", "torch_"))}
HAS_TORCH = importlib.util.find_spec("torch") is not None

if __name__ == "__main__":
    name = sys.argv[1]
    if name == "list":
        print("\n".join([*SHELL, *(one for one in PYTHON if HAS_TORCH or not one.startswith("torch_"))]))
        sys.exit()
    if name in SHELL:
        os.execvp("sh", ["sh", "-c", SHELL[name] + '; [ "$RANK" = 0 ] && echo done; true'])
    PYTHON[name]()
    if RANK == 0:
        print("done", flush=True)
