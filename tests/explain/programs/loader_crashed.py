# cause: loader-worker-crashed
# torch: 1.13 2.13
# ranks: 1
import ctypes

from torch.utils.data import DataLoader, Dataset


class Samples(Dataset):
    def __len__(self):
        return 8

    def __getitem__(self, index):
        return ctypes.string_at(0)


list(DataLoader(Samples(), num_workers=1))
