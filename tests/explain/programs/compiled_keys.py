# cause: keys-of-compiled-model
# torch: 2.13
# ranks: 1
import torch

model = torch.nn.Linear(2, 1)
model.load_state_dict(torch.compile(model).state_dict())
