# cause: uneven-inputs
# torch: 1.13 2.13
# ranks: 2
import torch
import torch.distributed as dist

dist.init_process_group("gloo")
model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(2, 1))
with model.join(throw_on_early_termination=True):
    for _ in range(3 + dist.get_rank()):
        model(torch.ones(1, 2)).sum().backward()
