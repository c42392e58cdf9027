# cause: loader-bus-error
# torch: 1.13 2.13
# ranks: 1
import os
import signal

from torch.utils.data import DataLoader, Dataset


class Samples(Dataset):
    def __len__(self):
        return 8

    def __getitem__(self, index):
        os.kill(os.getpid(), signal.SIGBUS)  # as the kernel does when /dev/shm is full


list(DataLoader(Samples(), num_workers=1))
