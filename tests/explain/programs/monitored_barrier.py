# cause: c10d-monitored-barrier
# torch: 1.13 2.13
# ranks: 2
import datetime
import time

import torch.distributed as dist

dist.init_process_group("gloo")
dist.barrier()
if dist.get_rank() == 0:
    dist.monitored_barrier(timeout=datetime.timedelta(seconds=1))
else:
    time.sleep(4)
