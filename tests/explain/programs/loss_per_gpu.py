# cause: loss-not-scalar
# torch: 1.13 2.13
# ranks: 1
import torch

loss_of_each_gpu = torch.ones(4, requires_grad=True) * 2
loss_of_each_gpu.backward()
