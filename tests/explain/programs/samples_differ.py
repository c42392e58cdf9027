# cause: samples-differ-in-size
# torch: 1.13 2.13
# ranks: 1
import torch
from torch.utils.data import DataLoader

list(DataLoader([torch.ones(3), torch.ones(4)], batch_size=2))
