# cause: cannot-pickle
# torch: 1.13 2.13
# ranks: 1
from torch.utils.data import DataLoader, Dataset


class Samples(Dataset):
    def __init__(self):
        self.file = open(__file__)


if __name__ == "__main__":
    list(DataLoader(Samples(), batch_sampler=[[0]], num_workers=1, multiprocessing_context="spawn"))
