"""The machine that scripts/gpu_check runs on: its libraries, its GPUs, and programs that run on it within limits."""
from __future__ import annotations

import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import time

# Folders of libraries below Python's packages and CUDA's usual folders. They come last on the loader's path.
LIBRARY_FOLDERS = ("nvidia/nccl/lib", "nvidia/cu*/lib", "nvidia/cublas/lib", "nvidia/cuda_runtime/lib")
CUDA_FOLDERS = ("/usr/local/cuda/lib64", "/usr/local/cuda/targets/*/lib")
CUDA_PROGRAMS = ("/usr/local/cuda/bin", "/usr/local/cuda/compute-sanitizer")
# Without persistence mode, the driver puts a GPU to rest that no process has open, and each start of a program then
# takes a second or two. So these files stay open. No setting is changed.
DEVICES = ("/dev/nvidiactl", "/dev/nvidia0")
LEAST = 0.5  # seconds; with less, no program is started
MARKER = "GPU_CHECK_PROGRAM"  # the variable that marks the processes of a program

# A child looks at the libraries, because a driver that crashes must not end the script.
PROBE = """
import ctypes, json
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
    maps = open("/proc/self/maps")
    found["nccl_file"] = next(line.split()[-1] for line in maps if "libnccl" in line or "fake_gpu" in line)
except (OSError, AttributeError) as error:
    found["no_nccl"] = str(error)
print(json.dumps(found))
"""

# NCCL refuses two ranks with one GPU, unless each claims a host of its own (and, from 2.30 on, the first variable is
# set). The ranks then talk over loopback sockets.
SHARED_GPU = {"NCCL_MULTI_RANK_GPU_ENABLE": "1", "NCCL_MAX_CTAS": "4", "NCCL_NET": "Socket", "NCCL_SOCKET_IFNAME": "lo",
              "NCCL_MNNVL_ENABLE": "0"}
CLAIM_HOST = ["sh", "-c", 'exec env NCCL_HOSTID=r$RANK "$0" "$@"']


class NoTimeError(Exception):
    pass


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

    def last_lines(self, count: int = 6) -> str:
        ended = f"exit code {self.code} after {self.seconds:.1f} s"
        return " | ".join([ended, *(self.out + "\n" + self.err).strip().splitlines()[-count:]])[:800]


class Machine:
    """Runs programs. At `step_end`, and at `end`, they are ended. Limits of programs are multiplied by `patience`."""

    def __init__(self, folder: pathlib.Path, seconds: float, patience: float = 1, rehearse: bool = False) -> None:
        self.folder, self.bin = folder, folder / "bin"
        self.patience, self.rehearse = patience, rehearse
        self.begin = time.monotonic()
        self.end = self.step_end = self.begin + seconds * patience
        self.files = pathlib.Path(tempfile.mkdtemp(prefix="gpu_check."))  # programs run here
        self.record = lambda words, done: None
        self.programs = 0
        self.devices = []
        for device in DEVICES:
            try:
                self.devices.append(os.open(device, os.O_RDWR | os.O_CLOEXEC))
            except OSError:
                continue
        self.packages = [pathlib.Path(path) for path in sys.path if path]
        # The packed libraries are for the packed programs only. Python and NVIDIA's tools have their own.
        self.original = dict(os.environ, PYTHONUNBUFFERED="1")
        libraries = [self.original.get("LD_LIBRARY_PATH", ""), *self.package_folders(*LIBRARY_FOLDERS)]
        libraries += [str(path) for pattern in CUDA_FOLDERS for path in sorted(pathlib.Path("/").glob(pattern[1:]))]
        self.packed = dict(self.original, LD_LIBRARY_PATH=":".join(filter(None, [str(folder / "lib"), *libraries])))
        # The packed libstdc++ would hide a newer one from programs that are built here, so it is used only if it must.
        if self.run(self.bin / "ddp_bench", "--help", seconds=10).code != 0:
            self.packed["LD_LIBRARY_PATH"] = f"{folder / 'lib_gcc'}:{self.packed['LD_LIBRARY_PATH']}"
        probe = self.run(sys.executable, "-c", PROBE, seconds=20)
        nothing = {"devices": 0, "nccl": 0, "simulated": False, "no_libraries": probe.last_lines()}
        self.found = (probe.lines() or [nothing])[0]
        self.needs: dict[str, str] = {}  # why what is needed is not there, or ""

    def package_folders(self, *patterns: str) -> list[str]:
        return [str(path) for base in self.packages for pattern in patterns for path in sorted(base.glob(pattern))]

    def find_program(self, name: str) -> str | None:
        folders = [self.original.get("PATH", ""), *CUDA_PROGRAMS, *self.package_folders("nvidia/*/bin")]
        return shutil.which(name, path=":".join(folders))

    def left(self) -> float:
        return min(self.step_end, self.end) - time.monotonic()

    # -- needs --
    def obstacle(self, need: str) -> str:
        """Returns why the machine does not have what is needed, or "". A rehearsal runs programs without it."""
        if need not in self.needs:
            self.needs[need] = {"GPU": self._no_gpu, "NCCL": self._no_nccl, "two ranks": self._no_two_ranks,
                                "PyTorch": self._no_torch}[need]()
        return "" if self.rehearse else self.needs[need]

    def _no_gpu(self) -> str:
        if "no_libraries" in self.found:
            return f"Python cannot open the driver's and NCCL's libraries: {self.found['no_libraries']}"
        if "no_cuda" in self.found:
            return f"libcuda.so.1 cannot be opened: {self.found['no_cuda']}. Is the NVIDIA driver installed?"
        return "" if self.found["devices"] else f"no GPU is visible (cuInit gave {self.found.get('cuda_status')})"

    def _no_nccl(self) -> str:
        if "no_nccl" not in self.found:
            return ""
        return f"libnccl.so.2 cannot be opened: {self.found['no_nccl']}. Install it (pip install nvidia-nccl-cu13)"

    def _no_two_ranks(self) -> str:
        done = self.launch(2, "ddp_bench", "all_reduce", "--sizes", "8", "--iterations", "2", "--json", seconds=20)
        return "" if done.code == 0 and done.lines() else f"two ranks do not work here: {done.last_lines()}"

    def _no_torch(self) -> str:
        done = self.run(*self.torch_job("facts"), seconds=30, own=False)
        self.found["torch"] = next(iter(done.lines()), {})
        if self.found["torch"]:
            return "" if self.found["torch"]["has_gpu"] else "PyTorch sees no GPU"
        return f"PyTorch cannot be imported: {(done.err.strip() or 'no answer').splitlines()[-1]}"

    # -- programs --
    def run(self, *words: object, seconds: float = 60, terminate_after: float = 0, own: bool = True,
            **variables: str) -> Done:
        """Runs a program to its end, or to its limit. With `terminate_after` it gets SIGTERM after that time. A program
        that was not packed gets the original environment. Throws NoTimeError at the end of the step's time."""
        if self.left() < LEAST:
            raise NoTimeError
        self.programs += 1
        marker = f"{os.getpid()}.{self.programs}"
        environment = {**(self.packed if own else self.original), **variables, MARKER: marker}
        limit = min(seconds * self.patience, self.left())
        with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
            begin = time.monotonic()
            try:
                # The program's children may keep its output open, so files are safer than pipes.
                child = subprocess.Popen([str(word) for word in words], stdin=subprocess.DEVNULL, stdout=out,
                                         stderr=err, env=environment, start_new_session=True, cwd=self.files)
            except OSError as error:
                return Done(127, "", str(error), 0)
            status, peak, is_late = self._wait(child, limit, terminate_after)
            seconds = time.monotonic() - begin
            end_marked(marker)
            texts = []
            for file in (out, err):
                file.seek(0)
                texts.append(file.read().decode(errors="replace"))
        if is_late:
            done = Done(124, texts[0], texts[1] + f"\ngpu_check: no end within {limit:.0f} s", seconds, peak, True)
        else:
            code = os.waitstatus_to_exitcode(status)  # negative if a signal killed the program
            done = Done(code if code >= 0 else 128 - code, *texts, seconds, peak)
        self.record(words, done)
        return done

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
                return status, usage.ru_maxrss, is_late
            elapsed = time.monotonic() - begin
            while acts and elapsed > acts[0][0]:
                act = acts.pop(0)[1]
                is_late = is_late or elapsed > limit
                if act is None:
                    child.returncode = 0
                    return 0, 0, True
                child.send_signal(act)
            time.sleep(0.01)

    def launch(self, ranks: int, program: str, *words: object, options: tuple = ("--quiet",), **settings) -> Done:
        """Runs a packed program under ddplaunch. With one GPU, two ranks share it."""
        shares = ranks > 1 and self.found["devices"] < 2
        command = [self.bin / "ddplaunch", f"--nproc_per_node={ranks}", "--oversubscribe", *options,
                   *(CLAIM_HOST if shares else []), self.bin / program, *words]
        return self.run(*command, **{"DDP_BACKEND": "nccl", **(SHARED_GPU if shares else {}), **settings})

    def torch(self, ranks: int, *words: object, options: tuple = ("--quiet",), **settings) -> Done:
        """Runs a mode of torch_job.py under ddplaunch, which needs the packed libraries, with Python's own."""
        shares = ranks > 1 and self.found["devices"] < 2
        command = [self.bin / "ddplaunch", f"--nproc_per_node={ranks}", "--oversubscribe", *options, "env",
                   f"LD_LIBRARY_PATH={self.original.get('LD_LIBRARY_PATH', '')}", *(CLAIM_HOST if shares else []),
                   *self.torch_job(*words)]
        return self.run(*command, **{**(SHARED_GPU if shares else {}), **self.torch_variables(), **settings})

    def torch_job(self, *words: object) -> list[object]:
        return [sys.executable, "-B", "-W", "ignore", pathlib.Path(__file__).with_name("torch_job.py"), *words]

    def torch_variables(self) -> dict[str, str]:
        return {"GPU_CHECK_CPU": "1"} if self.rehearse and self._no_gpu() else {}


def end_marked(marker: str) -> None:
    """Kills the processes that are left of a program. One that the driver holds does not end, and is left behind."""
    word = f"{MARKER}={marker}".encode()
    until = time.monotonic() + 2
    while time.monotonic() < until:
        found = []
        for entry in pathlib.Path("/proc").iterdir():
            try:
                if entry.name.isdigit() and word in (entry / "environ").read_bytes().split(b"\0"):
                    os.kill(int(entry.name), signal.SIGKILL)
                    found.append(entry.name)
            except OSError:
                continue
        if not found:
            return
        time.sleep(0.02)
