# cause: torch-without-cuda
# torch: 1.13 2.13
# ranks: 1
import torch

torch.nn.Linear(2, 1).cuda()
