# cause: process-group-twice
# torch: 1.13 2.13
# ranks: 1
import torch.distributed as dist

for _ in range(2):
    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
