# cause: ddp-ready-twice
# torch: 1.13 2.13
# ranks: 1
import torch
import torch.distributed as dist
from torch.utils.checkpoint import checkpoint


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(2, 2)

    def forward(self, x):
        return checkpoint(self.layer, x, use_reentrant=True)


dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
model = torch.nn.parallel.DistributedDataParallel(Net(), find_unused_parameters=True)
model(torch.ones(1, 2, requires_grad=True)).sum().backward()
