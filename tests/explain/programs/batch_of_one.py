# cause: batch-of-one
# torch: 1.13 2.13
# ranks: 1
import torch
from torch.utils.data import DataLoader

model = torch.nn.BatchNorm1d(2)
for batch in DataLoader(torch.ones(2152, 2)[:7], batch_size=3):
    model(batch)
