# cause: launcher-missing
# torch: 1.13 2.13
# ranks: 1
import os

os.environ.pop("LOCAL_RANK", None)
local_rank = int(os.environ["LOCAL_RANK"])
