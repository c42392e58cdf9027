# cause: shuffle-with-sampler
# torch: 1.13 2.13
# ranks: 1
from torch.utils.data import DataLoader, DistributedSampler

sampler = DistributedSampler(range(8607), num_replicas=4, rank=0)
DataLoader(range(8607), sampler=sampler, shuffle=True)
