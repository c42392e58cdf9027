# cause: batch-size
# torch: 1.13 2.13
# ranks: 1
from torch.utils.data import DataLoader

global_batch, world_size = 3, 4
DataLoader(range(8607), batch_size=global_batch // world_size)
