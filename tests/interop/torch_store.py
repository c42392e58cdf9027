"""Tests PyTorch's own TCPStore client against the launcher's server. Each worker under ddplaunch runs it (2 ranks)."""
import datetime
import os

import torch.distributed as dist

rank = int(os.environ["RANK"])
world_size = int(os.environ["WORLD_SIZE"])
store = dist.TCPStore(os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"]), world_size, False,
                      timeout=datetime.timedelta(seconds=30))
prefixed = dist.PrefixStore("interop", store)

# These calls set and get empty and binary values, and values of a megabyte.
prefixed.set(f"from{rank}", f"hello {rank}")
assert prefixed.get(f"from{1 - rank}") == f"hello {1 - rank}".encode()
prefixed.set(f"empty{rank}", "")
assert prefixed.get(f"empty{1 - rank}") == b""
prefixed.set(f"big{rank}", "x" * (1 << 20))
assert len(prefixed.get(f"big{1 - rank}")) == 1 << 20

# These calls test counters and barriers.
assert prefixed.add("counter", 1) in (1, 2)
prefixed.wait([f"from{r}" for r in range(world_size)])
prefixed.add("arrived", 1)
while prefixed.add("arrived", 0) < world_size:
    pass

# A wait that times out does not corrupt the later requests.
try:
    prefixed.wait([f"never{rank}"], datetime.timedelta(milliseconds=50))
    raise AssertionError("a wait for a key that never comes returned")
except RuntimeError:
    pass
prefixed.set(f"never{rank}", "late")
assert prefixed.get(f"from{rank}") == f"hello {rank}".encode()

if rank == 0:
    assert store.compare_set("swap", "", "first") == b"first"
    assert store.compare_set("swap", "wrong", "second") == b"first"
    assert store.compare_set("swap", "first", "second") == b"second"
    assert store.num_keys() > 4
    store.set("doomed", "x")
    assert store.delete_key("doomed")
    assert not store.delete_key("doomed")
print(f"rank {rank}: store ok")
