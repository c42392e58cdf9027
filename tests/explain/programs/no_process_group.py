# cause: no-process-group
# torch: 1.13 2.13
# ranks: 1
import torch
import torch.distributed as dist

dist.all_reduce(torch.ones(1))
