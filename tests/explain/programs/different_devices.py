# cause: different-devices
# torch: 1.13 2.13
# ranks: 1
import torch

torch.nn.functional.mse_loss(torch.ones(2), torch.ones(2, device="meta"))
