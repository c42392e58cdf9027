# cause: checkpoint-damaged
# torch: 1.13 2.13
# ranks: 1
import os
import tempfile

import torch

path = os.path.join(tempfile.mkdtemp(), "model.pt")
torch.save(torch.ones(1000), path, _use_new_zipfile_serialization=False)
os.truncate(path, os.path.getsize(path) - 100)
torch.load(path)
