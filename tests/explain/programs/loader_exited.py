# cause: loader-worker-exited
# torch: 1.13 2.13
# ranks: 1
import os

from torch.utils.data import DataLoader, Dataset


class Samples(Dataset):
    def __len__(self):
        return 8

    def __getitem__(self, index):
        os._exit(3)


list(DataLoader(Samples(), num_workers=1))
