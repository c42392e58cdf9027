# cause: world-size-mismatch
# torch: 1.13 2.13
# ranks: 1
from torch.utils.data import DistributedSampler

DistributedSampler(range(8607), num_replicas=4, rank=4)
