# cause: cannot-pickle
# torch: 1.13 2.13
# ranks: 1
from torch.utils.data import DataLoader

if __name__ == "__main__":
    list(DataLoader(range(8), num_workers=1, multiprocessing_context="spawn", collate_fn=lambda batch: batch))
