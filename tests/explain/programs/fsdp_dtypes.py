# cause: fsdp-dtypes
# torch: 2.13
# ranks: 1
import torch
import torch.distributed as dist
from torch.distributed.fsdp import FullyShardedDataParallel

dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
model = torch.nn.Sequential(torch.nn.Linear(2, 1), torch.nn.Linear(1, 1).half())
FullyShardedDataParallel(model, device_id=torch.device("cpu"))
