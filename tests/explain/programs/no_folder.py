# cause: checkpoint-folder
# torch: 1.13 2.13
# ranks: 1
import torch

torch.save(torch.ones(2), "a_folder_that_is_missing/model.pt")
