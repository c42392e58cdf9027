"""Trains PyTorch's DistributedDataParallel (Gloo) like torch_parity.cpp. The parameters of both must be equal.

    torch_parity.py FOLDER...       one rank of two; CASE/TYPE/BACKEND, with initial.safetensors and ours.safetensors
"""
import contextlib
import json
import pathlib
import struct
import sys

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DistributedSampler

SAMPLES, BATCH, STEPS = 1000, 8, 100
TYPES = {"F32": torch.float32, "F64": torch.float64, "I64": torch.int64}


def read(path: pathlib.Path) -> dict:
    """Reads the safetensors format by hand, because Debian has no reader."""
    data = path.read_bytes()
    length, = struct.unpack("<Q", data[:8])
    header = json.loads(data[8:8 + length])
    tensors = {}
    for name, entry in header.items():
        if name != "__metadata__":
            first, last = (8 + length + offset for offset in entry["data_offsets"])
            tensors[name] = torch.frombuffer(bytearray(data[first:last]), dtype=TYPES[entry["dtype"]]).reshape(entry["shape"])
    return tensors


class Net(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        # A bias before a normalisation has gradients that are only rounding errors, which Adam magnifies.
        self.first = torch.nn.Linear(16, 64, bias=False)
        self.norm = torch.nn.BatchNorm1d(64)
        self.second = torch.nn.Linear(64, 64)
        self.third = torch.nn.Linear(64, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.third(torch.tanh(self.second(torch.tanh(self.norm(self.first(x))))))


def inputs_of(indices: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    places = indices.double().unsqueeze(1) * 16 + torch.arange(16, dtype=torch.double)
    return torch.sin(places * 78.233).to(dtype)


def check(folder: pathlib.Path) -> None:
    case, type_name, backend = folder.parts[-3:]
    dtype = {"f32": torch.float32, "f64": torch.float64}[type_name]
    module = Net().to(dtype)
    module.load_state_dict(read(folder / "initial.safetensors"))
    net = DistributedDataParallel(module)
    if "adam" in case:
        optimizer = torch.optim.AdamW(net.parameters(), 3e-3, weight_decay=0.01)
    else:
        optimizer = torch.optim.SGD(net.parameters(), 0.05, momentum=0.9, weight_decay=1e-3)
    sampler = DistributedSampler(range(SAMPLES))
    order, epoch = [], 0
    window, window_size = [], 4 if case == "accumulated_sgd" else 1
    for step in range(STEPS):
        if len(order) < BATCH:
            sampler.set_epoch(epoch)
            epoch += 1
            order = list(sampler)
        indices, order = torch.tensor(order[:BATCH]), order[BATCH:]
        window.append(indices)
        if len(window) < window_size and step + 1 < STEPS:
            continue
        optimizer.zero_grad()
        for i, batch in enumerate(window):
            with net.no_sync() if i + 1 < len(window) else contextlib.nullcontext():
                loss = torch.nn.functional.cross_entropy(net(inputs_of(batch, dtype)), batch % 10)
                (loss / len(window)).backward()
        window = []
        optimizer.step()

    ours = read(folder / "ours.safetensors")
    theirs = module.state_dict()
    assert ours.keys() == theirs.keys(), (ours.keys(), theirs.keys())
    worst = 0.0
    for name, tensor in theirs.items():
        distance = (ours[name].double() - tensor.double()).abs().max() / tensor.double().abs().max()
        worst = max(worst, distance.item())
        # The last forward started with rank 0's buffers on all ranks, and changed them on each rank.
        assert distance <= 1e-6 or "running" in name and dist.get_rank() != 0, (case, backend, name, distance.item())
    if dist.get_rank() == 0:
        print(f"{case} {type_name} {backend}: after {STEPS} steps equal to PyTorch {torch.__version__}'s, to {worst:.1e} of the largest element")


dist.init_process_group("gloo")
for name in sys.argv[1:]:
    check(pathlib.Path(name))
dist.barrier()
dist.destroy_process_group()
