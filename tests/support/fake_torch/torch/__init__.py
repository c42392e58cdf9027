"""Replaces PyTorch where it is missing. It has process groups whose calls are recorded, a simulated GPU, and the server
that reports the recorded calls. Gloo's recorder is that of PyTorch 2.13, and NCCL's that of 2.6 and newer."""
import os

__version__ = "2.5.1" if os.environ.get("FAKE_TORCH") == "2.5" else "2.13.0"

from torch import compiler, optim  # noqa: E402, F401  (as PyTorch does)
