"""Starts store servers for a benchmark or a test, all on loopback: ddplaunch's, PyTorch's, Redis."""
import contextlib
import dataclasses
import os
import pathlib
import shutil
import signal
import socket
import subprocess
import tempfile
import time

import environments
from ports import free_port

DEADLINE = 60
TORCH_SERVER = """
import datetime, sys
import torch.distributed as dist
store = dist.TCPStore("127.0.0.1", 0, None, True, timeout=datetime.timedelta(hours=1), wait_for_workers=False)
print(store.port, flush=True)
sys.stdin.read()
"""


@dataclasses.dataclass
class Server:
    name: str
    protocol: str  # one of the protocols that store_load knows
    port: int
    pid: int
    log: pathlib.Path | None = None  # the server's complaints; removed with the server


def wait_for_port(port: int, process: subprocess.Popen) -> None:
    end = time.monotonic() + DEADLINE
    while time.monotonic() < end and process.poll() is None:
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port)):
            return
        time.sleep(0.01)
    raise SystemExit(f"{process.args} does not listen on port {port}")


@contextlib.contextmanager
def running(command: list, **options):
    """Runs a process in a new session. Afterwards the process and all its descendants are terminated."""
    process = subprocess.Popen([str(word) for word in command], start_new_session=True,
                               **{"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL,
                                  "text": True, **options})
    try:
        yield process
    finally:
        if process.poll() is None:
            process.terminate()
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(10)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def child_of(pid: int) -> int:
    return int(pathlib.Path(f"/proc/{pid}/task/{pid}/children").read_text().split()[0])


@contextlib.contextmanager
def ours(bin_folder: pathlib.Path, protocol: str = "current", options: tuple[str, ...] = ()):
    """Serves the launcher's store, while its only worker sleeps."""
    with tempfile.TemporaryDirectory() as folder:
        fifo, log = f"{folder}/port", pathlib.Path(folder, "log")
        os.mkfifo(fifo)
        worker = ["sh", "-c", f'echo "$MASTER_PORT" > {fifo}; exec sleep 100000']
        command = [bin_folder / "ddplaunch", "--nproc-per-node=1", *options, *worker]
        with open(log, "w", encoding="utf-8") as errors, running(command, stderr=errors) as process:
            with open(fifo, encoding="ascii") as reader:
                port = int(reader.readline())
            yield Server("ddplaunch" if protocol == "current" else f"ddplaunch ({protocol})", protocol, port,
                         child_of(process.pid), log)


@contextlib.contextmanager
def torch(python: str):
    version = torch_version(python)
    with running([python, "-W", "ignore", "-c", TORCH_SERVER]) as process:
        port = int(process.stdout.readline())
        yield Server(f"torch {version}", "legacy" if version.startswith("1.") else "current", port, process.pid)


@contextlib.contextmanager
def redis():
    port = free_port()
    with running(["redis-server", "--port", str(port), "--bind", "127.0.0.1", "--save", "", "--appendonly", "no",
                  "--maxclients", "15000"], stdout=subprocess.DEVNULL) as process:
        wait_for_port(port, process)
        yield Server("redis", "resp", port, process.pid)


def torch_version(python: str) -> str:
    """Returns a version such as "1.13", or "" if this Python has no PyTorch."""
    probe = subprocess.run([python, "-W", "ignore", "-c", "import torch; print(torch.__version__)"], text=True,
                           capture_output=True, check=False)
    return ".".join(probe.stdout.split(".")[:2]) if probe.returncode == 0 else ""


def torch_pythons(current: str) -> list[str]:
    """Returns Debian's Python and the interpreter `current`, if they have PyTorch."""
    return [python for python in dict.fromkeys((environments.DEBIAN, current)) if python and torch_version(python)]


def redis_is_there() -> bool:
    return shutil.which("redis-server") is not None
