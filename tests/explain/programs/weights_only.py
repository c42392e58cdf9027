# cause: weights-only
# torch: 2.13
# ranks: 1
import io

import torch

file = io.BytesIO()
torch.save(torch.nn.Linear(2, 1), file)
file.seek(0)
torch.load(file)
