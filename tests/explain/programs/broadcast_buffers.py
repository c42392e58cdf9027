# cause: changed-in-place
# torch: 1.13
# ranks: 2
import torch
import torch.distributed as dist


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(2, 2)
        self.register_buffer("scale", torch.ones(2))

    def forward(self, x):
        return self.layer(x) * self.scale


dist.init_process_group("gloo")
model = torch.nn.parallel.DistributedDataParallel(Net())
first, second = model(torch.ones(1, 2)), model(torch.ones(1, 2))
(first + second).sum().backward()
