"""Compares forked workers (--preload) with started ones, and ends preloaders in every way.

preload_test.py DDPLAUNCH. The comparison uses the Pythons of the environments "debian" and "pytorch".
"""
import json
import os
import pathlib
import re
import signal
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests/support"))
import environments  # noqa: E402  (it is in another folder)

LAUNCHER = pathlib.Path(sys.argv[1]).resolve()
PROBE = ROOT / "tests/interop/process_properties.py"
PATIENCE = 240  # seconds
# docs/how-to/start-faster.md lists these differences.
DIFFERENCES = {"frozen objects"}
RANDOM = {"random state differs", "numpy random state differs", "seed of torch"}
# These may be set where the tests are run.
UNWANTED = re.compile(r"PET_|TORCH|DDP_|PYTHON|OMP_|SLURM_|(MASTER|LOCAL|GROUP|ROLE)_|(RANK|WORLD_SIZE)$")


def start(python: str, folder: pathlib.Path, *words: object, **variables: str) -> subprocess.Popen:
    usual = {name: value for name, value in os.environ.items() if not UNWANTED.match(name)}
    return subprocess.Popen([str(word) for word in (LAUNCHER, "--nproc-per-node=2", *words)], cwd=folder, text=True,
                            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                            env={**usual, "PYTHON_EXEC": python, **variables})


def run(python: str, folder: pathlib.Path, *words: object, code: int = 0, **variables: str) -> str:
    job = start(python, folder, *words, **variables)
    try:
        printed = job.communicate(timeout=PATIENCE)[0]
    finally:
        job.kill()
    assert job.returncode == code, (words, job.returncode, printed)
    return printed


def write(folder: pathlib.Path, **programs: str) -> None:
    for name, text in programs.items():
        (folder / f"{name}.py").write_text(text)


def properties(python: str, folder: pathlib.Path, name: str, *words: object) -> list:
    printed = run(python, folder, "--rdzv-id=probe", f"--log-dir={folder}/{name}.d", *words, PROBE, f"{folder}/{name}")
    assert "without --preload" not in printed, printed
    return [json.loads((folder / f"{name}{rank}").read_text()) for rank in range(2)]


def without_names(value: object, name: str) -> str:
    """Replaces the names of this job. Its port is the only other number that differs."""
    text = json.dumps(value).replace(name, "NAME")
    return re.sub(r"ddp-run-\w+|probe_\w+|ddplaunch-job-\w+-\d+|(?<=MASTER_PORT=)\d+|(?<=MASTER_PORT\": \")\d+", "RUN", text)


def a_forked_worker_is_like_a_started_one(folder: pathlib.Path) -> None:
    for name in ("debian", "pytorch"):
        python = environments.need(name)
        started = properties(python, folder, "started")
        forked = properties(python, folder, "forked", "--preload=torch")
        assert len(started[0]) >= 60, len(started[0])
        for one, other in zip(started, forked):
            sides = {key: (without_names(one[key], "started"), without_names(other[key], "forked")) for key in one}
            different = {key: values for key, values in sides.items() if values[0] != values[1] and key not in RANDOM}
            assert set(different) == DIFFERENCES, (name, different)
        for key in RANDOM:
            assert forked[0][key] != forked[1][key], (name, key)


def a_crash_right_after_the_start_has_its_place(folder: pathlib.Path) -> None:
    write(folder, train="""
import ctypes, os, time
import torch.distributed as dist
dist.init_process_group("gloo")
dist.barrier()
def crash():
    ctypes.string_at(0)
if os.environ["RANK"] == "1":
    crash()
time.sleep(99)
""")
    printed = run(environments.need("pytorch"), folder, "--preload=torch", "train.py", code=139)
    assert "train.py:7 in crash" in printed, printed


def a_restart_imports_nothing(folder: pathlib.Path) -> None:
    write(folder, slow="import time\ntime.sleep(1)\nprint('imported')\n", train="""
import os, sys, time
assert "slow" in sys.modules
print("attempt", os.environ["TORCHELASTIC_RESTART_COUNT"], flush=True)
if os.environ["TORCHELASTIC_RESTART_COUNT"] < "2" and os.environ["RANK"] == "1":
    raise ValueError("again")
""")
    printed = run(sys.executable, folder, "--preload=slow", "--max-restarts=2", "train.py")
    assert printed.count("imported") == 1 and "attempt 2" in printed, printed


def what_cannot_be_forked_is_started(folder: pathlib.Path) -> None:
    write(folder, train="print('runs', __name__)\n", reads="import os\nos.environ.get('LOCAL_RANK')\n",
          threads="import threading, time\nthreading.Thread(target=time.sleep, args=(99,), daemon=True).start()\n",
          fails="1 / 0\n", leaves="import os\nos._exit(3)\n", exits="import sys\nsys.exit('bye')\n",
          path="import sys\nsys.path.append('/tmp')\n", traces="import sys\nsys.settrace(lambda *words: None)\n")
    for module, why in (("reads", "reads.py:2 reads LOCAL_RANK when it is imported"), ("threads", "a module starts threads"),
                        ("fails", "ZeroDivisionError"), ("leaves", "exit code 3"), ("exits", "SystemExit: bye"),
                        ("path", "a module changes sys.path"), ("traces", "a tool measures this Python"), ("absent", "No module named 'absent'")):
        printed = run(sys.executable, folder, f"--preload={module}", "train.py")
        assert f"workers are started without --preload: " in printed and why in printed, (module, printed)
        assert "runs __main__" in printed, (module, printed)


def preloader_of(launcher: int) -> int:
    """Returns the pid of the preloader, when it runs."""
    until = time.monotonic() + PATIENCE
    while time.monotonic() < until:
        for entry in pathlib.Path("/proc").iterdir():
            if not entry.name.isdigit():
                continue
            try:
                is_one = b"DDP_PRELOADER=" in (entry / "environ").read_bytes()
                above = int(entry.name)
                while is_one and above not in (launcher, 0, 1):
                    above = int((pathlib.Path("/proc") / str(above) / "stat").read_text().rpartition(")")[2].split()[1])
                if is_one and above == launcher:
                    return int(entry.name)
            except (OSError, ValueError, IndexError):
                continue
        time.sleep(0.01)
    raise AssertionError("no preloader")


def a_job_goes_on_without_its_preloader(folder: pathlib.Path) -> None:
    write(folder, slow="import time\ntime.sleep(2)\n", train="""
import os, time
print("attempt", os.environ["TORCHELASTIC_RESTART_COUNT"], flush=True)
time.sleep(0.5)
if os.environ["TORCHELASTIC_RESTART_COUNT"] == "0" and os.environ["RANK"] == "1":
    raise ValueError("again")
""")
    for number in (signal.SIGKILL, signal.SIGSTOP, signal.SIGTERM):
        for module in ("slow", "json"):  # it imports, or it has forked the first workers
            job = start(sys.executable, folder, f"--preload={module}", "--max-restarts=1", "train.py")
            preloader = preloader_of(job.pid)
            if module == "json":
                while "attempt 0" not in job.stdout.readline():
                    assert job.poll() is None
            os.kill(preloader, number)
            printed = job.communicate(timeout=PATIENCE)[0]
            assert job.returncode == 0 and "attempt 1" in printed, (number, module, printed)
            assert "workers are started without --preload" in printed, (number, module, printed)
            assert not pathlib.Path(f"/proc/{preloader}").exists(), (number, module)


def a_job_ends_while_it_imports(folder: pathlib.Path) -> None:
    write(folder, hangs="import time\ntime.sleep(999)\n", train="print('runs')\n")
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGKILL):
        job = start(sys.executable, folder, "--preload=hangs", "train.py")
        preloader = preloader_of(job.pid)
        job.send_signal(number)
        printed = job.communicate(timeout=PATIENCE)[0]
        assert "runs" not in printed, printed
        until = time.monotonic() + PATIENCE
        while pathlib.Path(f"/proc/{preloader}").exists():
            assert time.monotonic() < until, number
            time.sleep(0.01)


for test in (a_restart_imports_nothing, what_cannot_be_forked_is_started, a_job_goes_on_without_its_preloader,
             a_job_ends_while_it_imports, a_crash_right_after_the_start_has_its_place, a_forked_worker_is_like_a_started_one):
    with tempfile.TemporaryDirectory() as scratch:
        test(pathlib.Path(scratch))
    print(f"{test.__name__}: ok", flush=True)
