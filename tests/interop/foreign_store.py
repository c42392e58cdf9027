"""foreign_store.py CLIENT: tests ddp::Store against PyTorch's own server. Serves as this PyTorch does by default
and, if it is a newer one, without libuv as well."""
import subprocess
import sys

import torch
import torch.distributed as dist

legacy = tuple(int(part) for part in torch.__version__.split(".")[:2]) < (2, 2)
for kind in ["legacy"] if legacy else ["libuv", "stock"]:
    more = {} if legacy else {"use_libuv": kind == "libuv"}
    server = dist.TCPStore("127.0.0.1", 0, None, True, wait_for_workers=False, **more)
    server.set("from Python", "hello")
    ended = subprocess.run([sys.argv[1], str(server.port), kind], timeout=120)
    assert ended.returncode == 0, f"the client fails against PyTorch {torch.__version__} ({kind})"
    # PyTorch reads the values that ddp::Store has written.
    assert server.get("large") == b"x" * (1 << 20)
    assert server.add("n", 0) == -2
    print(f"PyTorch {torch.__version__} ({kind}): ok", flush=True)
