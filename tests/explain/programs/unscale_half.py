# cause: half-gradients
# torch: 2.13
# ranks: 1
import torch

model = torch.nn.Linear(2, 1).half()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
scaler = torch.amp.GradScaler("cpu")
scaler.scale(model(torch.ones(1, 2).half()).sum()).backward()
scaler.unscale_(optimizer)
