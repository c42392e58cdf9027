# cause: lightning-no-gpu
# torch: 2.13
# ranks: 1
import lightning

lightning.Trainer(accelerator="gpu", devices=2)
