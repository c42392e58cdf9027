# cause: output-on-cpu
# torch: 1.13 2.13
# ranks: 1
import torch

torch.nn.parallel.gather([torch.ones(2), torch.ones(2)], target_device=0)
