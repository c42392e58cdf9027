# cause: checkpoint-of-other-model
# torch: 1.13 2.13
# ranks: 1
import torch

torch.nn.Linear(2, 1).load_state_dict(torch.nn.Linear(3, 1).state_dict())
