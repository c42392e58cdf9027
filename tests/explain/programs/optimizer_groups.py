# cause: optimizer-of-other-model
# torch: 1.13 2.13
# ranks: 1
import torch

saved = torch.optim.SGD(torch.nn.Linear(2, 1).parameters(), lr=0.1).state_dict()
torch.optim.SGD(torch.nn.Linear(2, 1, bias=False).parameters(), lr=0.1).load_state_dict(saved)
