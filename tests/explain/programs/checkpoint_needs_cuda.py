# cause: checkpoint-needs-cuda
# torch: 1.13 2.13
# ranks: 1
import io

import torch

file = io.BytesIO()
torch.serialization.register_package(0, lambda storage: "cuda:0", lambda storage, location: None)
torch.save(torch.ones(2), file)
file.seek(0)
torch.load(file)
