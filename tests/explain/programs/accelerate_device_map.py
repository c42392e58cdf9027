# cause: accelerate-device-map
# torch: 2.13
# ranks: 2
import accelerate
import torch

model = torch.nn.Sequential(torch.nn.Linear(2, 1), torch.nn.Linear(1, 1))
model.hf_device_map = {"0": 0, "1": 1}  # as from_pretrained(device_map="auto") sets it on two GPUs
accelerate.Accelerator(cpu=True).prepare(model)
