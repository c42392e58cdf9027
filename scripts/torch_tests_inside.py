"""Runs one file of PyTorch's tests in PyTorch's Python, with parts of PyTorch replaced by ddplaunch.

    torch_tests_inside.py ORDER      ORDER is JSON; see run_file in scripts/torch_tests

scripts/torch_tests starts this program. It appends each result to a file as a line of JSON, so that the results exist
even if a test ends the process.
"""
import importlib
import importlib.util
import json
import os
import re
import subprocess
import sys
import time
import traceback
import unittest

import torch.distributed as dist
import torch.distributed.launch
import torch.distributed.rendezvous
import torch.distributed.run
from torch.distributed.elastic.multiprocessing.errors import ChildFailedError, ProcessFailure

ORDER = json.loads(sys.argv[1])
TORCHRUN = ORDER["folder"] + "/torchrun"
THEIRS = dist.TCPStore


class Server:
    """Runs `ddplaunch store` as long as the object lives."""

    def __init__(self, port: int) -> None:
        self.process = subprocess.Popen([ORDER["ddplaunch"], "store", f"--port={port}"], stdout=subprocess.PIPE,
                                        stderr=subprocess.STDOUT, text=True)
        line = self.process.stdout.readline()
        found = re.search(r"listens on \S+:(\d+);", line)
        if not found:
            raise RuntimeError(f"ddplaunch store: {line}{self.process.communicate()[0]}")
        self.port = int(found[1])

    def __del__(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        self.process.stdout.close()


class Store(THEIRS):
    """Is PyTorch's client. If PyTorch would serve a store, ddplaunch serves it instead."""

    def __init__(self, host_name, port=0, world_size=None, is_master=False, *rest, **named):
        names = ("timeout", "wait_for_workers", "multi_tenant", "master_listen_fd", "use_libuv")
        named.update(zip(names, rest))
        self.server = None
        if is_master:
            self.server = Server(port)
            port = self.server.port
        named.pop("multi_tenant", None)
        named.pop("master_listen_fd", None)
        super().__init__(host_name, port, world_size, False, **named)


def run_ours(words: list) -> None:
    """Replaces torch.distributed.run.main: returns if all workers succeed, and otherwise raises the same exceptions."""
    result = subprocess.run([TORCHRUN, *words], stdin=subprocess.DEVNULL, capture_output=True, text=True,
                            env=dict(os.environ, PYTHON_EXEC=sys.executable))
    print(result.stdout, end="")
    print(result.stderr, end="", file=sys.stderr)
    if result.returncode == 2 and "ddplaunch: error: rank" not in result.stderr:
        raise ValueError(result.stderr)
    if result.returncode == 134 and "terminate called without an active exception" in result.stderr:
        raise unittest.SkipTest("PyTorch aborted at the end of a process, as it does now and then under its own torchrun")
    if result.returncode != 0:
        failure = ProcessFailure(local_rank=0, pid=0, exitcode=result.returncode, error_file="/nonexistent")
        raise ChildFailedError(" ".join(words), {0: failure})


def launch_ours(words: list) -> None:
    """Replaces torch.distributed.launch.main."""
    result = subprocess.run([ORDER["ddplaunch"], "launch", *words], stdin=subprocess.DEVNULL,
                            env=dict(os.environ, PYTHON_EXEC=sys.executable))
    assert result.returncode == 0, f"exit code {result.returncode}"


class Result(unittest.TestResult):
    def write(self, test, verdict: str, text: str = "") -> None:
        with open(ORDER["results"], "a") as file:
            file.write(json.dumps((name_of(test), verdict, text)) + "\n")

    def startTest(self, test) -> None:
        super().startTest(test)
        self.verdict = "passed", ""
        self.begun = time.monotonic()
        self.write(test, "running")
        print(f"--- {name_of(test)}", flush=True)

    def stopTest(self, test) -> None:
        self.write(test, *self.verdict)
        print(f"--- {name_of(test)}: {self.verdict[0]} after {time.monotonic() - self.begun:.1f} s", flush=True)
        super().stopTest(test)

    def addError(self, test, error) -> None:
        self.verdict = "failed", "".join(traceback.format_exception(*error))[-4000:]
        if not isinstance(test, unittest.TestCase):  # setUpClass or similar
            self.write(test, *self.verdict)

    addFailure = addError

    def addSubTest(self, test, subtest, error) -> None:
        if error is not None:
            self.addError(test, error)

    def addSkip(self, test, reason) -> None:
        self.verdict = "skipped", reason

    def addUnexpectedSuccess(self, test) -> None:
        self.verdict = "failed", "it passes, which PyTorch does not expect"


def name_of(test) -> str:
    return ".".join(test.id().split(".")[-2:])


def each(suite):
    for test in suite:
        if isinstance(test, unittest.TestSuite):
            yield from each(test)
        else:
            yield test


def main() -> None:
    os.symlink(ORDER["ddplaunch"], TORCHRUN)
    open(ORDER["results"], "x").close()
    dist.TCPStore = torch.distributed.rendezvous.TCPStore = Store
    for name in ("torch.testing._internal.common_distributed", "torch.distributed.elastic.utils.distributed",
                 "torch.distributed.elastic.rendezvous.c10d_rendezvous_backend",
                 "torch.distributed.elastic.rendezvous.static_tcp_rendezvous",
                 "torch.distributed.elastic.rendezvous.dynamic_rendezvous"):
        try:
            module = importlib.import_module(name)
        except ImportError:
            continue
        for key, value in list(vars(module).items()):
            if value is THEIRS:
                setattr(module, key, Store)
    torch.distributed.run.main = run_ours
    torch.distributed.launch.main = launch_ours
    sys.argv = [ORDER["file"]]
    sys.path.insert(0, os.path.dirname(ORDER["file"]))
    for level in range(1, 5):  # some tests import `rendezvous_backend_test` and others by its directory
        sys.path.append(os.path.normpath(os.path.join(ORDER["file"], *[".."] * level)))
    specification = importlib.util.spec_from_file_location("torch_test", ORDER["file"])
    module = importlib.util.module_from_spec(specification)
    sys.modules["torch_test"] = module
    specification.loader.exec_module(module)
    result, chosen = Result(), unittest.TestSuite()
    for test in each(unittest.TestLoader().loadTestsFromModule(module)):
        name = name_of(test)
        if ORDER["words"] and not any(word in name for word in ORDER["words"]):
            continue
        reasons = [reason for pattern, reason in ORDER["not_applicable"] if re.fullmatch(pattern, name)]
        if reasons:
            result.write(test, "not applicable", reasons[0])
        else:
            chosen.addTest(test)
    chosen.run(result)


if __name__ == "__main__":
    main()
    # The process exits without Python's cleanup, because threads of the tests' process groups may still run.
    sys.stdout.flush()
    os._exit(0)
