# cause: batch-size
# torch: 1.13 2.13
# ranks: 1
from torch.utils.data import DataLoader

DataLoader(range(8607), batch_size=64 / 4)
