# cause: loss-without-gradient
# torch: 1.13 2.13
# ranks: 1
import torch

with torch.no_grad():
    loss = torch.nn.Linear(2, 1)(torch.ones(1, 2)).sum()
loss.backward()
