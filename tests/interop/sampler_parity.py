"""Compares ddp::DistributedSampler with PyTorch's in 1000 random cases. argv[1] prints the indices of the former
(see sampler_indices.cpp)."""
import os
import random
import subprocess
import sys

from torch.utils.data import DistributedSampler

SEED = int(os.environ.get("DDP_TEST_SEED") or random.randrange(2**32))
draw = random.Random(SEED)


def random_case() -> tuple:
    world = draw.choice((1, 2, 3, 4, 7, 8, 16))
    drop = draw.random() < 0.5
    size = draw.choice((draw.randint(1, 40), draw.randint(1, 3000), 8607))
    if drop:
        size = max(size, world)
    seed = draw.choice((0, draw.randrange(2**16), draw.randrange(2**40)))
    return size, world, draw.randrange(world), draw.choice((0, draw.randrange(1000))), seed, drop, draw.random() < 0.7


def theirs(size: int, world: int, rank: int, epoch: int, seed: int, drop: bool, shuffle: bool) -> list:
    sampler = DistributedSampler(range(size), num_replicas=world, rank=rank, shuffle=shuffle, seed=seed, drop_last=drop)
    sampler.set_epoch(epoch)
    return list(sampler)


cases = [random_case() for _ in range(1000)]
text = "\n".join(" ".join(str(int(word)) for word in case) for case in cases)
lines = subprocess.run([sys.argv[1]], input=text, capture_output=True, text=True, check=True).stdout.splitlines()
assert len(lines) == len(cases), (SEED, len(lines))
for case, line in zip(cases, lines):
    assert [int(index) for index in line.split()] == theirs(*case), f"DDP_TEST_SEED={SEED}: {case}"
print(f"{len(cases)} samplers are equal to PyTorch's (DDP_TEST_SEED={SEED})")
