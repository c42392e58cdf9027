# cause: daemonic-children
# torch: 1.13 2.13
# ranks: 1
import multiprocessing

from torch.utils.data import DataLoader


def train():
    list(DataLoader(range(8), num_workers=1))


process = multiprocessing.get_context("fork").Process(target=train, daemon=True)
process.start()
process.join()
raise SystemExit(process.exitcode)
