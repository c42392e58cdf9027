"""The node of scripts/gpu_check: its libraries, its GPUs, and programs that run on it within limits."""
from __future__ import annotations

import json
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import time

# Folders of libraries below Python's packages and CUDA's usual folders. They come last on the loader's path.
LIBRARY_FOLDERS = ("nvidia/nccl/lib", "nvidia/cu*/lib", "nvidia/cublas/lib", "nvidia/cuda_runtime/lib")
CUDA_FOLDERS = ("/usr/local/cuda/lib64", "/usr/local/cuda/targets/*/lib")

# A child looks at the libraries, because a driver that crashes must not end the script.
LOOK = """
import ctypes, json, os, sys
found = {"devices": 0, "nccl": 0, "simulated": False}
try:
    cuda = ctypes.CDLL("libcuda.so.1")
    count, driver = ctypes.c_int(0), ctypes.c_int(0)
    found["cuda_status"] = cuda.cuInit(0)
    cuda.cuDeviceGetCount(ctypes.byref(count))
    found["devices"] = count.value
    found["simulated"] = "fake_gpu" in open("/proc/self/maps").read()
    if hasattr(cuda, "cuDriverGetVersion"):
        cuda.cuDriverGetVersion(ctypes.byref(driver))
        found["driver_cuda"] = driver.value
except OSError as error:
    found["no_cuda"] = str(error)
try:
    nccl = ctypes.CDLL("libnccl.so.2")
    version = ctypes.c_int(0)
    nccl.ncclGetVersion(ctypes.byref(version))
    found["nccl"] = version.value
    found["nccl_file"] = next(line.split()[-1] for line in open("/proc/self/maps") if "libnccl" in line or "fake_gpu" in line)
except (OSError, AttributeError) as error:
    found["no_nccl"] = str(error)
print(json.dumps(found))
"""

# NCCL refuses two ranks with one GPU. They are allowed from 2.30 on (the variable); before, it compares the host's
# identity and the GPU's address, and each rank may claim a host of its own. The ranks then talk over loopback sockets.
ONE_GPU = {"NCCL_MULTI_RANK_GPU_ENABLE": "1", "NCCL_MAX_CTAS": "4"}
OTHER_HOSTS = {**ONE_GPU, "NCCL_NET": "Socket", "NCCL_SOCKET_IFNAME": "lo"}
CLAIM_HOST = ["sh", "-c", 'exec env NCCL_HOSTID=r$RANK "$0" "$@"']
FIRST_SHARED_NCCL = 23000


class Way:
    """How the ranks of a job get their GPUs."""

    def __init__(self, name: str, environment: dict[str, str], claims_host: bool = False) -> None:
        self.name = name
        self.environment = environment
        self.claims_host = claims_host

    def prefix(self) -> list[str]:
        return CLAIM_HOST if self.claims_host else []

    def for_rank(self, rank: int) -> dict[str, str]:
        return {**self.environment, **({"NCCL_HOSTID": f"r{rank}"} if self.claims_host else {})}


OWN_GPUS = Way("a GPU for each rank", {})
SHARED = Way("one GPU, shared (NCCL_MULTI_RANK_GPU_ENABLE)", ONE_GPU)
CLAIMED = Way("one GPU, each rank claims a host of its own (NCCL_HOSTID)", OTHER_HOSTS, claims_host=True)


def ways_of_two_ranks(devices: int, nccl: int) -> list[Way]:
    """The ways to try, the best first."""
    if devices > 1:
        return [OWN_GPUS]
    return [SHARED, CLAIMED] if nccl >= FIRST_SHARED_NCCL else [CLAIMED]


class Done:
    """How a program ended. `code` is 124 if it was ended at its limit (is_late), and 128 + n if signal n killed it."""

    def __init__(self, code: int, out: str, err: str, seconds: float, peak_kib: int = 0, is_late: bool = False) -> None:
        self.code, self.out, self.err, self.seconds = code, out, err, seconds
        self.peak_kib, self.is_late = peak_kib, is_late

    def lines(self) -> list[dict]:
        """The lines of JSON on stdout, without the launcher's prefixes."""
        result = []
        for line in self.out.splitlines():
            try:
                result.append(json.loads(line[line.index("{"):]))
            except ValueError:
                continue
        return result

    def last_lines(self, count: int = 12) -> str:
        ended = f"exit code {self.code} after {self.seconds:.1f} s"
        return "\n".join([*(self.out + self.err).strip().splitlines()[-count:], ended])


class Machine:
    """Runs programs. At `part_end`, and at `end`, they are ended. Limits of programs are multiplied by `patience`."""

    def __init__(self, folder: pathlib.Path, nccl: str | None, limit: float, patience: float = 1) -> None:
        self.bin = folder / "bin"
        self.patience = patience
        self.begin = time.monotonic()
        self.end = self.begin + limit
        self.part_end = self.end
        # The packed libraries are for the packed programs only. Python and NVIDIA's tools have their own.
        self.original = dict(os.environ)
        own = [str(folder / "lib"), *([nccl] if nccl else []), os.environ.get("LD_LIBRARY_PATH", "")]
        found = [str(path) for base in sys.path if base for pattern in LIBRARY_FOLDERS
                 for path in sorted(pathlib.Path(base).glob(pattern))]
        found += [str(path) for pattern in CUDA_FOLDERS for path in sorted(pathlib.Path("/").glob(pattern[1:]))]
        self.libraries = ":".join(path for path in own + found if path)
        self.packed = dict(os.environ, LD_LIBRARY_PATH=self.libraries)
        look = self.run(sys.executable, "-c", LOOK, seconds=20)
        self.found = (look.lines() or [{"devices": 0, "nccl": 0, "no_look": look.last_lines()}])[0]
        self.two_ranks: Way | None = None

    def left(self) -> float:
        return min(self.part_end, self.end) - time.monotonic()

    def run(self, *words: object, seconds: float = 1e9, terminate_after: float = 0, original: bool = False,
            **variables: str) -> Done:
        """Runs a program to its end, or to its limit. With `terminate_after` it gets SIGTERM after that time."""
        environment = dict(self.original if original else self.packed, **variables)
        limit = max(min(seconds * self.patience, self.left()), 0.5)
        with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
            begin = time.monotonic()
            try:
                # The program's children may keep its output open, so files are safer than pipes.
                child = subprocess.Popen([str(word) for word in words], stdin=subprocess.DEVNULL, stdout=out, stderr=err,
                                         env=environment, start_new_session=True)
            except OSError as error:
                return Done(127, "", str(error), 0)
            status, peak, is_late = self._wait(child, limit, terminate_after)
            seconds = time.monotonic() - begin
            texts = []
            for file in (out, err):
                file.seek(0)
                texts.append(file.read().decode(errors="replace"))
        if is_late:
            return Done(124, texts[0], texts[1] + f"\ngpu_check: no end within {limit:.0f} s", seconds, peak, True)
        code = os.waitstatus_to_exitcode(status)  # negative if a signal killed the program
        return Done(code if code >= 0 else 128 - code, *texts, seconds, peak)

    def _wait(self, child: subprocess.Popen, limit: float, terminate_after: float) -> tuple[int, int, bool]:
        """Returns the status, the peak memory in KiB, and whether the program had to be ended."""
        begin = time.monotonic()
        # A launcher needs a moment to end its workers. A process in the driver may not end at all.
        acts = [(limit, signal.SIGTERM), (limit + 6, signal.SIGKILL), (limit + 9, None)]
        if terminate_after:
            acts.insert(0, (min(terminate_after, limit), signal.SIGTERM))
        is_late = False
        while True:
            pid, status, usage = os.wait4(child.pid, os.WNOHANG)
            if pid != 0:
                child.returncode = status  # Popen must not wait for it
                self._kill_group(child.pid)
                return status, usage.ru_maxrss, is_late
            elapsed = time.monotonic() - begin
            while acts and elapsed > acts[0][0]:
                act = acts.pop(0)[1]
                is_late = is_late or elapsed > limit
                if act is None:
                    child.returncode = 0
                    return 0, 0, True
                if act == signal.SIGKILL:
                    self._kill_group(child.pid)
                else:
                    child.send_signal(act)
            time.sleep(0.01)

    @staticmethod
    def _kill_group(group: int) -> None:
        try:
            os.killpg(group, signal.SIGKILL)
        except ProcessLookupError:
            pass

    def launch(self, ranks: int, program: str, *words: object, options: tuple = ("--quiet",), **settings) -> Done:
        """Runs a packed program under ddplaunch, with one GPU for each rank or in the way that two ranks need."""
        way = self.way(ranks)
        command = [self.bin / "ddplaunch", f"--nproc_per_node={ranks}", "--oversubscribe", *options, *way.prefix(),
                   self.bin / program, *words]
        return self.run(*command, **{"DDP_BACKEND": "nccl", **way.environment, **settings})

    def way(self, ranks: int) -> Way:
        return OWN_GPUS if ranks == 1 or self.two_ranks is None else self.two_ranks
