# cause: backward-twice
# torch: 1.13 2.13
# ranks: 1
import torch

loss = torch.nn.Linear(2, 1)(torch.ones(1, 2)).square().sum()
for _ in range(2):
    loss.backward()
