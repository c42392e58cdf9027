# cause: batch-sampler-exclusive
# torch: 1.13 2.13
# ranks: 1
from torch.utils.data import BatchSampler, DataLoader, SequentialSampler

batches = BatchSampler(SequentialSampler(range(8607)), batch_size=12, drop_last=False)
DataLoader(range(8607), batch_size=12, batch_sampler=batches)
