# cause: ddp-different-models
# torch: 1.13 2.13
# ranks: 2
import torch
import torch.distributed as dist

dist.init_process_group("gloo")
model = torch.nn.Sequential(*[torch.nn.Linear(2, 2) for _ in range(1 + dist.get_rank())])
torch.nn.parallel.DistributedDataParallel(model)
