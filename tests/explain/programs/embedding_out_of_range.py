# cause: index-out-of-range
# torch: 1.13 2.13
# ranks: 1
import torch

torch.nn.Embedding(10, 4)(torch.tensor([10]))
