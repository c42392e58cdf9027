# cause: c10d-collective-mismatch
# torch: 1.13 2.13
# ranks: 2
import os

os.environ["TORCH_DISTRIBUTED_DEBUG"] = "DETAIL"
import torch
import torch.distributed as dist

dist.init_process_group("gloo")
dist.all_reduce(torch.ones(2 + dist.get_rank()))
