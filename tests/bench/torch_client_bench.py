"""Measures PyTorch's own client against a store server, as store_client_bench measures ddp::Store.

    torch_client_bench.py PORT OPERATION CLIENTS SECONDS
"""
import datetime
import json
import mmap
import os
import struct
import sys
import time

import torch.distributed as dist

port, operation, clients, seconds = int(sys.argv[1]), sys.argv[2], int(sys.argv[3]), float(sys.argv[4])
shared = mmap.mmap(-1, 8 * (clients + 1))  # a start flag, then per client: 0 until it is ready, 1 + its operations at the end


def client(number: int) -> None:
    store = dist.TCPStore("127.0.0.1", port, None, False, timeout=datetime.timedelta(seconds=60))
    key, value = f"client/{number}", "v" * 64
    counter = key + "/count"
    store.set(key, value)
    store.get(key)
    does = {"set": lambda: store.set(key, value), "get": lambda: store.get(key), "add": lambda: store.add(counter, 1),
            "check": lambda: store.check([key])}[operation]
    clock = time.monotonic
    struct.pack_into("q", shared, 8 * (number + 1), 1)
    while not struct.unpack_from("q", shared)[0]:
        time.sleep(0.001)
    count, end = 0, clock() + seconds
    while clock() < end:
        does()
        count += 1
    if operation == "set":
        store.get(key)
    struct.pack_into("q", shared, 8 * (number + 1), 1 + count)


pids = []
for i in range(clients):
    pid = os.fork()
    if pid == 0:
        client(i)
        os._exit(0)
    pids.append(pid)
while not all(struct.unpack_from("q", shared, 8 * (i + 1))[0] for i in range(clients)):
    time.sleep(0.001)
start = time.monotonic()
struct.pack_into("q", shared, 0, 1)
for pid in pids:
    if os.waitpid(pid, 0)[1] != 0:
        sys.exit("a client failed")
took = time.monotonic() - start
operations = sum(struct.unpack_from("q", shared, 8 * (i + 1))[0] - 1 for i in range(clients))
print(json.dumps({"operations": operations, "seconds": round(took, 3), "per_second": round(operations / took)}))
