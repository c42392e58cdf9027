# cause: keys-with-module
# torch: 1.13 2.13
# ranks: 1
import torch

model = torch.nn.Linear(2, 1)
model.load_state_dict({"module." + name: value for name, value in model.state_dict().items()})
