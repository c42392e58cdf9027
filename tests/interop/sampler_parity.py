"""Our DistributedSampler against PyTorch's: argv[1] prints our indices (see sampler_indices.cpp)."""
import subprocess
import sys

from torch.utils.data import DistributedSampler

CASES = [(n, world, epoch, seed, drop, shuffle)
         for n, world in ((1, 1), (10, 4), (3, 8), (8607, 4), (100, 3))
         for epoch, seed in ((0, 0), (5, 0), (2, 12345678901))
         for drop in (False, True) for shuffle in (False, True)
         if not (drop and n < world)]

count = 0
for n, world, epoch, seed, drop, shuffle in CASES:
    for rank in range(world):
        sampler = DistributedSampler(range(n), num_replicas=world, rank=rank, shuffle=shuffle, seed=seed, drop_last=drop)
        sampler.set_epoch(epoch)
        words = [sys.argv[1], n, world, rank, epoch, seed, int(drop), int(shuffle)]
        ours = subprocess.run([str(word) for word in words], capture_output=True, text=True, check=True).stdout.split()
        assert [int(index) for index in ours] == list(sampler), words
        count += 1
print(f"{count} samplers are equal to PyTorch's")
