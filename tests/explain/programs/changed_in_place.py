# cause: changed-in-place
# torch: 1.13 2.13
# ranks: 1
import torch

scale = torch.ones(2)
output = (torch.ones(2, requires_grad=True) * scale).sum()
scale.add_(1)
output.backward()
