# cause: checkpoint-not-written
# torch: 1.13 2.13
# ranks: 1
import torch

torch.save(torch.ones(1 << 20), "/dev/full")
