# cause: ddp-mixed-devices
# torch: 1.13 2.13
# ranks: 1
import torch
import torch.distributed as dist

dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
model = torch.nn.Sequential(torch.nn.Linear(2, 1), torch.nn.Linear(1, 1, device="meta"))
torch.nn.parallel.DistributedDataParallel(model)
