# cause: iterable-dataset-shuffle
# torch: 1.13 2.13
# ranks: 1
from torch.utils.data import DataLoader, IterableDataset


class Lines(IterableDataset):
    def __iter__(self):
        return iter(range(8607))


DataLoader(Lines(), shuffle=True)
