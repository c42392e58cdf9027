# cause: recomputation-differs
# torch: 2.13
# ranks: 1
import torch
from torch.utils.checkpoint import checkpoint

calls = []


def block(x):
    calls.append(x)
    return x.sin().cos() if len(calls) == 1 else x.sin()


checkpoint(block, torch.ones(2, requires_grad=True), use_reentrant=False).sum().backward()
