"""Is an ordinary PyTorch training script: process group, DistributedDataParallel, DistributedSampler.

It trains a linear model, and fails unless the loss falls, the ranks share the samples and end with the same parameters.
Rank 0's last line is "trained: ..."; torch_train_test.py starts the script in all ways that users of torchrun know.
"""
import argparse
import os
import sys

import torch
import torch.distributed as dist
from torch.distributed.elastic.multiprocessing.errors import record
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, TensorDataset
from torch.utils.data.distributed import DistributedSampler

EPOCHS = 5
# KEPT holds the tensors of collectives. PyTorch 1.13 hangs at the end of a process if a thread of its process group is
# the last to release a tensor. The thread needs Python's lock, which the main thread holds while it waits for the
# thread. A thread that gets no processor time may hold the tensor of an early collective until the end. So all tensors
# are kept, and no collective is called that makes its own (all_gather_object).
KEPT = []
ATTEMPT = int(os.environ["TORCHELASTIC_RESTART_COUNT"])


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    parser.add_argument("--local_rank", "--local-rank", type=int, help="given by torch.distributed.launch")
    parser.add_argument("--failing-attempts", type=int, default=0, help="rank 1 fails in the first N attempts")
    parser.add_argument("--exit-code", type=int, help="it does so by sys.exit, not by an exception")
    return parser.parse_args()


def check_fresh_store(world_size: int) -> None:
    """Fails if the store was already used by the previous attempt, whose ranks would be counted, too."""
    store = dist.TCPStore(os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"]), world_size, False)
    assert store.add("starts of this attempt", 1) <= world_size, "this store has served another attempt"


def fail(options: argparse.Namespace) -> None:
    if options.exit_code is not None:
        sys.exit(options.exit_code)
    raise ValueError(f"the data of attempt {ATTEMPT} is gone")


def make_data() -> TensorDataset:
    generator = torch.Generator().manual_seed(1)
    inputs = torch.randn(256, 4, generator=generator)
    return TensorDataset(inputs, inputs @ torch.tensor([[1.0], [-2.0], [3.0], [0.5]]))


def check_shares(sampler: DistributedSampler, samples: int, world_size: int) -> None:
    own = torch.tensor(list(sampler))
    shares = [torch.empty_like(own) for _ in range(world_size)]
    KEPT.extend([own, *shares])
    dist.all_gather(shares, own)
    assert sorted(torch.cat(shares).tolist()) == list(range(samples)), "the ranks' shares are wrong"


def check_same_parameters(model: torch.nn.Module, world_size: int) -> None:
    own = torch.cat([parameter.detach().flatten() for parameter in model.parameters()])
    everybodys = [torch.empty_like(own) for _ in range(world_size)]
    KEPT.extend([own, *everybodys])
    dist.all_gather(everybodys, own)
    assert all(torch.equal(own, other) for other in everybodys), "the ranks' parameters differ"


def mean_over_ranks(value: torch.Tensor, world_size: int) -> float:
    mean = value.detach().clone()
    KEPT.append(mean)
    dist.all_reduce(mean)
    return mean.item() / world_size


@record
def main() -> None:
    options = parse()
    dist.init_process_group("gloo")
    rank, world_size = dist.get_rank(), dist.get_world_size()
    check_fresh_store(world_size)
    dist.barrier()
    if rank == 1 and ATTEMPT < options.failing_attempts:
        fail(options)

    torch.manual_seed(rank)  # DistributedDataParallel makes the models equal
    data = make_data()
    sampler = DistributedSampler(data, shuffle=True)
    loader = DataLoader(data, batch_size=16, sampler=sampler)
    model = DistributedDataParallel(torch.nn.Linear(4, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    losses = []
    for epoch in range(EPOCHS):
        sampler.set_epoch(epoch)
        check_shares(sampler, len(data), world_size)
        for inputs, targets in loader:
            optimizer.zero_grad()
            loss = torch.nn.functional.mse_loss(model(inputs), targets)
            loss.backward()
            optimizer.step()
            losses.append(mean_over_ranks(loss, world_size))
    assert losses[-1] < losses[0] / 100, f"the model does not learn: {losses[0]} -> {losses[-1]}"
    check_same_parameters(model, world_size)
    if rank == 0:
        argument = "" if options.local_rank is None else f" local_rank={options.local_rank}"
        print(f"trained: world_size={world_size} attempt={ATTEMPT}{argument} python={sys.executable}", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
    # Skips Python's own shutdown, in which PyTorch 2.13 sometimes aborts, also under torchrun. It prints "terminate
    # called without an active exception" if one of its threads needs Python's lock.
    sys.stdout.flush()
    os._exit(0)
