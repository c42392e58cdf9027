# cause: lightning-slurm-tasks
# torch: 2.13
# ranks: 1
import os

import lightning
from lightning.pytorch.demos.boring_classes import BoringModel

os.environ.update(SLURM_NTASKS="2", SLURM_NTASKS_PER_NODE="2", SLURM_JOB_NAME="train", SLURM_JOB_ID="1",
                  SLURM_PROCID="0", SLURM_LOCALID="0", SLURM_NODEID="0", SLURM_NNODES="1", SLURM_JOB_NODELIST="a")
lightning.Trainer(accelerator="cpu", devices=4, logger=False, enable_checkpointing=False).fit(BoringModel())
