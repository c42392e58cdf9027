# cause: host-memory
# torch: 1.13 2.13
# ranks: 1
import torch

torch.empty(1 << 50)
