# cause: different-dtypes
# torch: 1.13 2.13
# ranks: 1
import torch

torch.nn.Linear(2, 1).double()(torch.ones(1, 2))
