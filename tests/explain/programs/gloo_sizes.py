# cause: c10d-collective-mismatch
# torch: 1.13 2.13
# ranks: 2
import torch
import torch.distributed as dist

dist.init_process_group("gloo")
dist.broadcast(torch.ones(4 - 2 * dist.get_rank()), src=0)
dist.barrier()
