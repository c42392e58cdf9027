# cause: mpi-not-built
# torch: 1.13 2.13
# ranks: 1
import torch.distributed as dist

dist.init_process_group("mpi")
