# cause: keys-without-module
# torch: 1.13 2.13
# ranks: 1
import torch

model = torch.nn.Linear(2, 1)
torch.nn.DataParallel(model).load_state_dict(model.state_dict())
