# cause: nccl-not-built
# torch: 1.13 2.13
# ranks: 1
import torch.distributed as dist

dist.init_process_group("nccl", store=dist.HashStore(), rank=0, world_size=1)
