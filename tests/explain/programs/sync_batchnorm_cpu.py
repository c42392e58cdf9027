# cause: sync-batchnorm-on-cpu
# torch: 1.13 2.13
# ranks: 1
import torch
import torch.distributed as dist

dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
torch.nn.SyncBatchNorm(2)(torch.ones(4, 2))
