"""Runs a PyTorch job over the launcher's store: init_process_group(gloo), collectives, a sub-group,
DistributedDataParallel."""
import torch
import torch.distributed as dist

dist.init_process_group("gloo")
rank, world_size = dist.get_rank(), dist.get_world_size()

values = torch.full((1000,), float(rank + 1))
dist.all_reduce(values)
assert values.eq(world_size * (world_size + 1) / 2).all()

group = dist.new_group([0])
if rank == 0:
    dist.all_reduce(values, group=group)
dist.barrier()

torch.manual_seed(rank)
model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(4, 2))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for _ in range(3):
    optimizer.zero_grad()
    model(torch.randn(8, 4)).square().mean().backward()
    optimizer.step()
weight = model.module.weight.detach().clone()
dist.broadcast(weight, 0)
assert torch.equal(weight, model.module.weight.detach())
dist.destroy_process_group()
print(f"rank {rank}: gloo ok")
