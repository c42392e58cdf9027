#!/usr/bin/env python3
"""Records the hangs of hang_programs.py with PyTorch and Gloo: record_hangs.py FOLDER [NAME...]

Each rank is a process that runs the program of the case. While it hangs, a second thread writes what the flight
recorder knows. The files of a case are in FOLDER/NAME. Then `record_hangs.py --pack FOLDER` makes hangs.tar.xz and
hangs.json.
"""
import json
import os
import pathlib
import signal
import sys
import tarfile
import threading
import time
import traceback

import hang_programs
import nccl_hangs

HERE = pathlib.Path(__file__).resolve().parent
SECONDS = 4.0  # until the ranks of a case have done all that they do


def write_dump(folder, rank, case):
    from torch._C._distributed_c10d import _dump_fr_trace, _dump_fr_trace_json
    if rank in case.get("no_dump", ()):
        return
    if case.get("json"):
        (folder / f"comm_lib_trace_rank_{rank}.json").write_bytes(_dump_fr_trace_json(True))
    else:
        (folder / f"comm_lib_trace_rank_{rank}").write_bytes(_dump_fr_trace(True, case.get("stacks", False), False))


def wait_for_open_call():
    """Returns as soon as the flight recorder shows a large call that has not ended."""
    from torch._C._distributed_c10d import _dump_fr_trace_json
    while not any(not entry["retired"] and entry["input_sizes"][0] == [50_000_000]
                  for entry in json.loads(_dump_fr_trace_json(True)).get("entries", ())):
        time.sleep(0.001)


def run_rank(name, case, rank, folder, port):
    os.environ |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), "WORLD_SIZE": str(case["world"]),
                   "RANK": str(rank), "TORCH_FR_BUFFER_SIZE": str(case.get("buffer", 2000))}
    os.environ |= {"OMP_NUM_THREADS": "1"}
    null = os.open(folder.parent / f"{name}.log", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    os.dup2(null, 1)
    os.dup2(null, 2)

    def dump_later():
        time.sleep(case.get("seconds", SECONDS))
        write_dump(folder, rank, case)
        time.sleep(1)  # until all have written: a rank that ends lets the calls of the others fail
        os._exit(0)

    threading.Thread(target=dump_later, daemon=True).start()
    import torch.distributed as dist
    dist.init_process_group("gloo")
    hang_programs.stop_here = lambda: (
        wait_for_open_call(), write_dump(folder, rank, case), os.kill(os.getpid(), signal.SIGSTOP))
    hang_programs.exit_here = lambda: (time.sleep(1), write_dump(folder, rank, case), os._exit(0))
    try:
        case["program"](rank)
    except BaseException:  # of a time-out, or of a lost peer
        traceback.print_exc()
    time.sleep(60)


def record(name, case, folder, port):
    folder.mkdir(parents=True, exist_ok=True)
    for old in folder.iterdir():
        old.unlink()
    children = []
    for rank in range(case["world"]):
        child = os.fork()
        if child == 0:
            try:
                run_rank(name, case, rank, folder, port)
            finally:
                os._exit(1)
        children.append(child)
    time.sleep(case.get("seconds", SECONDS) + 1)
    deadline = time.monotonic() + 20
    while children and time.monotonic() < deadline:
        children = [child for child in children if os.waitpid(child, os.WNOHANG)[0] == 0]
        time.sleep(0.05)
        if time.monotonic() > deadline - 19:
            for child in children:
                os.kill(child, signal.SIGKILL)
    print(name, sorted(file.name for file in folder.iterdir()), flush=True)


def pack(folder):
    import torch
    expected = {}
    with tarfile.open(HERE / "hangs.tar.xz", "w:xz", preset=9) as archive:
        def add(name, case, source, version):
            keys = ("kind", "culprits", "operation", "number", "group", "missing", "ranks_of_group")
            expected[name] = {key: case[key] for key in keys if key in case}
            world_size = case.get("known_world", case["world"])
            expected[name] |= {"world_size": world_size, "source": source, "version": version}
            if "about" in case:
                expected[name]["about"] = case["about"]
            for file in sorted((folder / name).iterdir()):
                info = archive.gettarinfo(file, f"{name}/{file.name}")
                info.mtime, info.uid, info.gid, info.uname, info.gname = 0, 0, 0, "", ""
                with file.open("rb") as content:
                    archive.addfile(info, content)
        for name, case in hang_programs.CASES.items():
            add(name, case, "recorded with Gloo", torch.__version__.split("+")[0])
        for name, case in nccl_hangs.CASES.items():
            (folder / name).mkdir(parents=True, exist_ok=True)
            for file, content in case["files"].items():
                (folder / name / file).write_bytes(content if isinstance(content, bytes) else content.encode())
            add(name, case, case["source"], case["version"])
    (HERE / "hangs.json").write_text(json.dumps(expected, indent=1) + "\n")
    print(len(expected), "cases", (HERE / "hangs.tar.xz").stat().st_size, "bytes")


def main():
    if sys.argv[1] == "--pack":
        return pack(pathlib.Path(sys.argv[2]).resolve())
    import torch.distributed  # noqa: F401  The ranks inherit it.
    folder = pathlib.Path(sys.argv[1]).resolve()
    for index, (name, case) in enumerate(hang_programs.CASES.items()):
        if sys.argv[2:] and name not in sys.argv[2:]:
            continue
        record(name, case, folder / name, 21000 + os.getpid() % 500 * 60 + index)
    return None


if __name__ == "__main__":
    main()
