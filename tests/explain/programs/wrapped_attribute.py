# cause: attribute-of-wrapper
# torch: 1.13 2.13
# ranks: 1
import torch

model = torch.nn.Linear(2, 1)
print(torch.nn.DataParallel(model).in_features)
