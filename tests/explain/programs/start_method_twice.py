# cause: start-method-twice
# torch: 1.13 2.13
# ranks: 1
import torch.multiprocessing as multiprocessing

for _ in range(2):
    multiprocessing.set_start_method("spawn")
