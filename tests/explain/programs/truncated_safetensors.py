# cause: checkpoint-damaged
# torch: 2.13
# ranks: 1
import safetensors.torch
import torch

safetensors.torch.load(safetensors.torch.save({"weight": torch.ones(1000)})[:-100])
