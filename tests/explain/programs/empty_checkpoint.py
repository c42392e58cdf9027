# cause: checkpoint-empty
# torch: 1.13 2.13
# ranks: 1
import io

import torch

torch.load(io.BytesIO(), weights_only=False)
