# cause: shared-memory-full
# torch: 1.13 2.13
# ranks: 1
import resource
import signal

import torch

signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, 1 << 20))  # a limit of files limits /dev/shm, too
torch.ones(1 << 20).share_memory_()
