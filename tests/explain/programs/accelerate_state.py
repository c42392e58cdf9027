# cause: accelerate-state
# torch: 2.13
# ranks: 1
import accelerate

accelerate.Accelerator()
accelerate.Accelerator(mixed_precision="bf16", cpu=True)
