# cause: unknown-backend
# torch: 1.13 2.13
# ranks: 1
import torch.distributed as dist

dist.init_process_group("ncll", store=dist.HashStore(), rank=0, world_size=1)
