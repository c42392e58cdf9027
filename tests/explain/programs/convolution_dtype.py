# cause: different-dtypes
# torch: 1.13 2.13
# ranks: 1
import torch

torch.nn.Conv2d(1, 1, 1)(torch.ones(1, 1, 2, 2, dtype=torch.float64))
