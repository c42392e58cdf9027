"""failing_programs.py NAME: one rank of a program that fails for a reason of its own. record_logs.py records its log.

The rank in FAILING_RANK fails, and the others print steps until they are terminated. FAILURES has for each program the
message that a reader would call the failure, and a part of its place.
"""
import asyncio
import ctypes
import faulthandler
import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
import warnings

RANK = int(os.environ.get("RANK", os.environ.get("OMPI_COMM_WORLD_RANK", "0")))
FAILING_RANK = int(os.environ.get("FAILING_RANK", "0"))


class DataError(Exception):
    """The error of a package, whose name has a dot."""


DataError.__module__ = "mypackage.errors"


def collate(samples):
    return sum(sample["tokens"] for sample in samples)


def type_error():
    collate([{"tokens": "abc"}])


def key_error():
    collate([{"token": 1}])


def assertion_with_message():
    batch, world = 30, 4
    assert batch % world == 0, f"the batch of {batch} cannot be divided by {world}"


def assertion_without_message():
    assert not [1, 2]


def zero_division():
    samples = 0
    print("mean", 1 / samples)


def json_error():
    json.loads('{"lr": 0.1,\n "epochs": }')


def custom_exception():
    raise DataError("shard 17 has 3 columns, 4 were expected")


def exception_without_message():
    raise DataError


def chained():
    try:
        int("12x")
    except ValueError as error:
        raise DataError("line 7 of train.csv is damaged") from error


def chained_implicitly():
    try:
        {}["vocab"]
    except KeyError:
        open("vocab/none.txt", encoding="utf-8")


def exception_group():
    raise ExceptionGroup("2 shards failed", [ValueError("shard 1 is empty"), DataError("shard 2 has no header")])


def index_error():
    [1, 2, 3][5]


def attribute_error():
    import types
    types.SimpleNamespace(hidden=3).hiden_size


def file_not_found():
    open("data/train.jsonl", encoding="utf-8")


def unicode_error():
    b"caf\xe9 \xff".decode()


def name_error():
    print(undefined_variable)  # noqa: F821


def recursion_error():
    def depth(node):
        return 1 + depth(node)
    depth("root")


def not_implemented():
    raise NotImplementedError("attention of kind 'ring' is not implemented for this model")


def stop_iteration():
    next(iter([]))


def long_message():
    raise ValueError("the configuration has these faults:\n  - lr: must be positive\n  - epochs: 'ten' is no number\n"
                     "See the manual of the program.")


def message_that_quotes_another_error():
    raise ValueError("unknown policy 'on CUDA out of memory', the policies are: raise, skip")


def exit_code():
    print("error: the license of the data set was not accepted", file=sys.stderr)
    sys.exit(3)


def exit_message():
    sys.exit("train.py: no GPU of at least 40 GB was requested, giving up")


def exit_at_once():
    print("fatal: cannot continue", flush=True)
    os._exit(4)


def argparse_error():
    import argparse
    parser = argparse.ArgumentParser(prog="train.py")
    parser.add_argument("--batch-size", type=int, required=True)
    parser.parse_args(["--bacth-size", "8"])


def argparse_value():
    import argparse
    parser = argparse.ArgumentParser(prog="train.py")
    parser.add_argument("--lr", type=float)
    parser.parse_args(["--lr", "fast"])


def syntax_error():
    compile("def f(:\n    pass\n", "model.py", "exec")


def thread_error():
    failed = []

    def load():
        failed.append(True)
        raise DataError("the loader's thread found a damaged record")
    thread = threading.Thread(target=load, name="loader-0")
    thread.start()
    thread.join()
    if failed:
        sys.exit(1)


def asyncio_error():
    async def fetch():
        await asyncio.sleep(0.01)
        raise DataError("the feature store answered 404 for 'age'")
    asyncio.run(fetch())


def warnings_before():
    for text in ("lr_scheduler.step() was called first", "NCCL is not available, gloo is used", "8 workers are too many"):
        warnings.warn(text)
    collate([{"tokens": None}])


def handled_before():
    import logging
    import traceback
    try:
        raise ConnectionResetError(104, "Connection reset by peer")
    except OSError:
        traceback.print_exc()
    logging.error("the tracker is offline, metrics are kept locally")
    key_error()


def numpy_error():
    import numpy
    numpy.ones((4, 3)) @ numpy.ones((4, 3))


def loader_worker():
    import torch

    class Samples(torch.utils.data.Dataset):
        def __len__(self):
            return 8

        def __getitem__(self, index):
            return {"tokens": 1}["token"]
    list(torch.utils.data.DataLoader(Samples(), num_workers=1))


def shape_error():
    import torch
    torch.nn.Linear(8, 4)(torch.ones(2, 9))


def in_training():
    """A rank fails between two collectives, in which the other one waits."""
    import torch
    import torch.distributed as dist
    dist.init_process_group("gloo")
    for step in range(4):
        if step == 2 and RANK == FAILING_RANK:
            collate([{"token": 1}])
        dist.all_reduce(torch.ones(1))
        print(f"step {step} done", flush=True)


def rich_traceback():
    from rich.console import Console
    try:
        custom_exception()
    except DataError:
        Console(file=sys.stderr, force_terminal=True, width=100).print_exception()
        sys.exit(1)


def rich_traceback_plain():
    from rich.console import Console
    try:
        zero_division()
    except ZeroDivisionError:
        Console(file=sys.stderr, width=88).print_exception()
        sys.exit(1)


def coloured_traceback():
    """As IPython prints it."""
    red, green, off = "\x1b[0;31m", "\x1b[0;32m", "\x1b[0m"
    print(f"{red}{'-' * 75}{off}\n{red}KeyError{off}{' ' * 34}Traceback (most recent call last)\n"
          f"Cell {green}In[4], line 12{off}\n     10 {green}for{off} sample {green}in{off} samples:\n"
          f"---> 12     total += sample['tokens']\n\n{red}KeyError{off}: 'tokens'", file=sys.stderr, flush=True)
    os._exit(1)


def compile_and_run(source):
    """Compiles a C++ program and becomes it."""
    folder = tempfile.mkdtemp()
    with open(f"{folder}/loader.cpp", "w", encoding="utf-8") as file:
        file.write(source)
    subprocess.run(["g++", "-o", f"{folder}/loader", f"{folder}/loader.cpp"], check=True)
    os.chdir(folder)
    os.execv("./loader", ["./loader"])


def cxx_terminate():
    compile_and_run('#include <stdexcept>\nint main() { throw std::runtime_error("record 12 has a bad checksum"); }\n')


def cxx_terminate_other():
    compile_and_run("int main() { throw 42; }\n")


def c_assertion():
    compile_and_run("#include <cassert>\nint main() { int batch = 0; assert(batch > 0); return batch; }\n")


def segmentation_fault():
    faulthandler.enable()
    ctypes.string_at(0)


def segmentation_fault_silent():
    ctypes.string_at(0)


def killed_by_itself():
    os.kill(os.getpid(), signal.SIGTERM)
    time.sleep(5)


def spawned_process():
    import torch.multiprocessing
    torch.multiprocessing.spawn(spawned, args=("data",), nprocs=1)


def spawned(index, what):
    raise DataError(f"process {index} found no {what}")


# By program: a part of the message that the explanation must have, or None if the log has no exception.
FAILURES = {
    "type_error": "TypeError: unsupported operand type(s) for +: 'int' and 'str'",
    "key_error": "KeyError: 'tokens'",
    "assertion_with_message": "AssertionError: the batch of 30 cannot be divided by 4",
    "assertion_without_message": "AssertionError",
    "zero_division": "ZeroDivisionError: division by zero",
    "json_error": "json.decoder.JSONDecodeError: Expecting value: line 2 column 12",
    "custom_exception": "mypackage.errors.DataError: shard 17 has 3 columns",
    "exception_without_message": "mypackage.errors.DataError",
    "chained": "mypackage.errors.DataError: line 7 of train.csv is damaged",
    "chained_implicitly": "FileNotFoundError: [Errno 2] No such file or directory: 'vocab/none.txt'",
    "exception_group": "ExceptionGroup: 2 shards failed (2 sub-exceptions)",
    "index_error": "IndexError: list index out of range",
    "attribute_error": "AttributeError: 'types.SimpleNamespace' object has no attribute 'hiden_size'",
    "file_not_found": "FileNotFoundError: [Errno 2] No such file or directory: 'data/train.jsonl'",
    "unicode_error": "UnicodeDecodeError: 'utf-8' codec can't decode byte 0xe9",
    "name_error": "NameError: name 'undefined_variable' is not defined",
    "recursion_error": "RecursionError: maximum recursion depth exceeded",
    "not_implemented": "NotImplementedError: attention of kind 'ring' is not implemented",
    "stop_iteration": "StopIteration",
    "long_message": "ValueError: the configuration has these faults:",
    "message_that_quotes_another_error": "ValueError: unknown policy 'on CUDA out of memory'",
    "exit_code": None,
    "exit_message": None,
    "exit_at_once": None,
    "argparse_error": None,
    "argparse_value": None,
    "syntax_error": "SyntaxError: invalid syntax",
    "thread_error": "mypackage.errors.DataError: the loader's thread found a damaged record",
    "asyncio_error": "mypackage.errors.DataError: the feature store answered 404",
    "warnings_before": "TypeError: unsupported operand type(s) for +: 'int' and 'NoneType'",
    "handled_before": "KeyError: 'tokens'",
    "numpy_error": "ValueError: matmul: Input operand 1 has a mismatch in its core dimension 0",
    "loader_worker": "KeyError: 'token'",
    "shape_error": "RuntimeError: mat1 and mat2 shapes cannot be multiplied",
    "in_training": "KeyError: 'tokens'",
    "rich_traceback": "DataError: shard 17 has 3 columns",
    "rich_traceback_plain": "ZeroDivisionError: division by zero",
    "coloured_traceback": "KeyError: 'tokens'",
    "cxx_terminate": "std::runtime_error: record 12 has a bad checksum",
    "cxx_terminate_other": "int",
    "c_assertion": None,
    "segmentation_fault": "Fatal Python error: Segmentation fault",
    "segmentation_fault_silent": None,
    "killed_by_itself": None,
    "spawned_process": "mypackage.errors.DataError: process 0 found no data",
}

if __name__ == "__main__":
    if RANK == FAILING_RANK or sys.argv[1] == "in_training":
        time.sleep(0.3)  # so that the other rank has printed something
        globals()[sys.argv[1]]()
    for step in range(100):
        print(f"rank {RANK}: step {step} loss {2.3 / (step + 1):.3f}", flush=True)
        time.sleep(0.1 if step < 10 else 1)
