# cause: launcher-missing
# torch: 1.13 2.13
# ranks: 1
import os

import torch.distributed as dist

for name in "RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT", "LOCAL_RANK":
    os.environ.pop(name, None)
dist.init_process_group("gloo")
