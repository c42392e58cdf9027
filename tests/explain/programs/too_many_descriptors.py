# cause: open-files
# torch: 1.13 2.13
# ranks: 1
import resource

import torch
from torch.utils.data import DataLoader

resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))
kept = list(DataLoader(torch.ones(200, 2), num_workers=1))
