# cause: ddp-unused-parameters
# torch: 1.13 2.13
# ranks: 1
import torch
import torch.distributed as dist


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.used, self.unused = torch.nn.Linear(2, 1), torch.nn.Linear(2, 1)

    def forward(self, x):
        return self.used(x)


dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
model = torch.nn.parallel.DistributedDataParallel(Net())
for _ in range(2):
    model(torch.ones(1, 2)).sum().backward()
