# cause: no-backend-for-device
# torch: 2.13
# ranks: 1
import torch
import torch.distributed as dist

dist.init_process_group("cuda:gloo", store=dist.HashStore(), rank=0, world_size=1)
dist.all_reduce(torch.ones(2))
