#!/usr/bin/env python3
"""lost_ranks_test.py BIN_DIR [FAULTS [SEED]]: loses ranks of a C++ training: see support/lost_ranks.py."""
import os
import pathlib
import random
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
from lost_ranks import Storm  # noqa: E402  (it is in another folder)

BIN = pathlib.Path(sys.argv[1])
FAULTS = int(sys.argv[2]) if len(sys.argv) > 2 else 10
SEED = int(sys.argv[3]) if len(sys.argv) > 3 else random.randrange(2**32)

for backend in os.environ.get("BACKENDS", "cpu gloo").split():
    is_gpu = backend == "nccl"  # each rank needs a GPU of its host, and the launcher itself finds none
    os.environ["DDP_BACKEND"] = backend
    Storm([BIN / "ddplaunch"], [BIN / "losing_ranks", "FOLDER", 2000], SEED).blow(
        FAULTS // 2, *([(1,)] if is_gpu else []))
