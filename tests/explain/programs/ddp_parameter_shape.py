# cause: ddp-different-models
# torch: 1.13 2.13
# ranks: 2
import torch
import torch.distributed as dist

dist.init_process_group("gloo")
torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(2, 2 + dist.get_rank()))
