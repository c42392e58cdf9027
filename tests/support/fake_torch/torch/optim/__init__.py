"""Has optimizers that only call the hooks after a step."""
from torch.optim.optimizer import Optimizer  # noqa: F401
