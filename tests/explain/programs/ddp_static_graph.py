# cause: ddp-static-graph
# torch: 1.13 2.13
# ranks: 1
import torch
import torch.distributed as dist


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = torch.nn.ModuleList(torch.nn.Linear(2, 2) for _ in range(2))

    def forward(self, x, count):
        for layer in self.layers[:count]:
            x = layer(x)
        return x


dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
model = torch.nn.parallel.DistributedDataParallel(Net(), static_graph=True)
for count in 1, 2, 2:
    model(torch.ones(1, 2), count).sum().backward()
