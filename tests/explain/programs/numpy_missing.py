# cause: numpy-not-usable
# torch: 2.13
# ranks: 1
# alone: PyTorch must not have imported NumPy before
import sys

sys.modules["numpy"] = None
import torch

torch.ones(2).numpy()
