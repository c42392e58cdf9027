# cause: folder-made-twice
# torch: 1.13 2.13
# ranks: 1
import os
import tempfile

folder = os.path.join(tempfile.mkdtemp(), "checkpoints")
for rank in range(2):
    os.makedirs(folder)
