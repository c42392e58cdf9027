# cause: c10d-collective-mismatch
# torch: 1.13 2.13
# ranks: 2
import os

os.environ["TORCH_DISTRIBUTED_DEBUG"] = "DETAIL"
import torch
import torch.distributed as dist

dist.init_process_group("gloo")
dist.all_reduce(torch.ones(2)) if dist.get_rank() == 0 else dist.broadcast(torch.ones(2), src=0)
