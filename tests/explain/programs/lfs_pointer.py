# cause: not-a-checkpoint
# torch: 1.13 2.13
# ranks: 1
import io

import torch

torch.load(io.BytesIO(b"version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\nsize 12345\n"))
