# cause: collective-sizes
# torch: 1.13 2.13
# ranks: 1
import torch
import torch.distributed as dist

dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
dist.all_gather([torch.ones(3)], torch.ones(2))
