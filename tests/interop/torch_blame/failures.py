"""Ways in which a rank fails, while the others lose it in an all_reduce."""
import os
import sys

from common import SLOW_EXIT, TrainerError, failure


@failure(2, 1, "ValueError: bad sample 17")
def value_error(rank):
    raise ValueError("bad sample 17")  # fails


@failure(3, 2, "KeyError: 'label'")
def key_error_in_function(rank):
    def load(sample):
        return sample["label"]  # fails

    load({})


@failure(2, 0, "FileNotFoundError: [Errno 2] No such file or directory: '/no/checkpoint.pt'")
def missing_checkpoint(rank):
    rank.torch.load("/no/checkpoint.pt")  # fails


@failure(2, 1, "ModuleNotFoundError: No module named 'no_such_module'")
def missing_module(rank):
    import no_such_module  # noqa: F401  # fails


@failure(2, 1, "RecursionError: maximum recursion depth exceeded")
def recursion(rank):
    def again():
        again()  # fails

    again()


@failure(2, 0, "ValueError: ungültige Probe № 17")
def letters_of_other_languages(rank):
    raise ValueError("ungültige Probe № 17")  # fails


@failure(2, 1, "RuntimeError: shapes differ:")
def several_lines(rank):
    raise RuntimeError("shapes differ:\n[3, 4]\n\nand [4, 3]")  # fails


@failure(2, 1, "RuntimeError: state_dict: layer.0")
def very_long_message(rank):
    raise RuntimeError("state_dict: " + " ".join(f"layer.{i}" for i in range(20000)))  # fails


@failure(2, 0, "RuntimeError")
def no_message(rank):
    raise RuntimeError  # fails


@failure(2, 1, "UserWarning: low precision")
def warning_as_error(rank):
    import warnings

    warnings.simplefilter("error", UserWarning)
    warnings.warn("low precision")  # fails


@failure(2, 1, "CalledProcessError: Command '['false']' returned non-zero exit status 1.")
def child_command(rank):
    import subprocess

    subprocess.run(["false"], check=True)  # fails


@failure(2, 1, "ConnectionResetError: [Errno 104] Connection reset by peer")
def connection_of_its_own(rank):
    raise ConnectionResetError(104, "Connection reset by peer")  # fails


@failure(2, 0, "TimeoutError: the data server does not answer")
def timeout_of_its_own(rank):
    raise TimeoutError("the data server does not answer")  # fails


@failure(2, 1, "exit code 3")
def silent_exit(rank):
    sys.exit(3)


@failure(3, 1, "exit code 7")
def hard_exit(rank):
    os._exit(7)


@failure(2, 1, "no data")
def exit_with_text(rank):
    sys.exit("no data")


@failure(4, 3, "killed by SIGKILL")
def killed(rank):
    os.kill(os.getpid(), 9)


@failure(2, 0, "killed by SIGSEGV")
def crash_with_faulthandler(rank):
    import faulthandler

    faulthandler.enable()
    os.kill(os.getpid(), 11)


@failure(2, 1, "killed by SIGABRT")
def abort(rank):
    os.abort()


@failure(3, 2, "exit code 0")
def exit_too_early(rank):
    sys.exit(0)


@failure(2, 1, "TrainerError: step 2 failed")
def cause(rank):
    try:
        {}["lr"]
    except KeyError as error:
        raise TrainerError("step 2 failed") from error  # fails


@failure(3, 0, "RuntimeError: no learning rate")
def context(rank):
    try:
        {}["lr"]
    except KeyError:
        raise RuntimeError("no learning rate")  # fails


@failure(2, 1, "OSError: shard 3 is empty")
def exception_group(rank):
    def read():
        raise OSError("shard 3 is empty")  # fails

    errors = []
    try:
        read()
    except OSError as error:
        errors.append(error)
    raise ExceptionGroup("readers", errors)


@failure(2, 0, "ValueError: bad batch")
def tasks_of_asyncio(rank):
    import asyncio

    async def read():
        raise ValueError("bad batch")  # fails

    async def main():
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(read())

    asyncio.run(main())


@failure(3, 1, "ValueError: bad sample 17")
def thread_outlives_main(rank):
    import threading
    import time

    threading.Thread(target=time.sleep, args=(SLOW_EXIT,)).start()
    raise ValueError("bad sample 17")  # fails


@failure(2, 1, "ValueError: bad shard")
def printed_and_exit(rank):
    import traceback

    try:
        raise ValueError("bad shard")  # fails
    except ValueError:
        traceback.print_exc()
        sys.exit(3)


@failure(3, 0, "ValueError: bad shard")
def logged_to_output_and_hard_exit(rank):
    import logging

    logging.basicConfig(stream=sys.stdout)
    try:
        raise ValueError("bad shard")  # fails
    except ValueError:
        logging.exception("training failed")
        sys.stdout.flush()
        os._exit(5)


@failure(2, 1, "ValueError: bad shard")
def traceback_of_rich(rank):
    from rich.traceback import install

    install()
    raise ValueError("bad shard")  # fails


@failure(2, 0, "ValueError: bad shard")
def printed_by_rich(rank):
    from rich.console import Console

    try:
        raise ValueError("bad shard")  # fails
    except ValueError:
        Console(width=60).print_exception(show_locals=True)
        sys.exit(2)


@failure(2, 1, "ValueError: bad shard")
def exception_in_thread(rank):
    import threading

    def read():
        raise ValueError("bad shard")  # fails

    thread = threading.Thread(target=read)
    thread.start()
    thread.join()
    sys.exit(1)


class Samples:
    def __len__(self):
        return 4

    def __getitem__(self, index):
        raise OSError("cannot read sample 3")  # fails


@failure(2, 1, "OSError: cannot read sample 3")
def worker_of_data_loader(rank):
    next(iter(rank.torch.utils.data.DataLoader(Samples(), num_workers=1)))


class Deadly(Samples):
    def __getitem__(self, index):
        os.kill(os.getpid(), 9)


@failure(2, 0, "RuntimeError: DataLoader worker (pid")
def killed_worker_of_data_loader(rank):
    next(iter(rank.torch.utils.data.DataLoader(Deadly(), num_workers=1)))  # fails


def decode(number):
    return 1 // number  # fails


@failure(2, 1, "ZeroDivisionError: integer division or modulo by zero")
def pool_of_processes(rank):
    import multiprocessing

    with multiprocessing.get_context("fork").Pool(1) as pool:
        pool.map(decode, [0])  # fails
