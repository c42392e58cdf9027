# cause: empty-dataset
# torch: 1.13 2.13
# ranks: 1
from torch.utils.data import DataLoader

DataLoader([], shuffle=True)
