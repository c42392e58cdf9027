"""Ends preloaders (--preload) in every way, and lets them refuse.

preload_test.py DDPLAUNCH. preload_likeness_test.py compares forked workers with started ones.
"""
import os
import pathlib
import re
import signal
import subprocess
import sys
import tempfile
import time

from preloaded_job import PATIENCE, environments, run, start, write


# Programs and modules wait for the test, which makes and removes a file.
HELD = """
import os, time
while os.path.exists("hold"):
    time.sleep(0.02)
"""
# It writes its attempt or rank before that.
NOTED = """
import os
open("ran", "a").write(os.environ.get({0!r}, "none") + " ")
""".format


def until_ran(folder: pathlib.Path, job: subprocess.Popen, count: int) -> None:
    """Waits until so many workers run."""
    ran = folder / "ran"
    while not ran.exists() or len(ran.read_text().split()) < count:
        assert job.poll() is None, job.communicate()
        time.sleep(0.01)


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


def a_worker_that_cannot_be_forked_is_started(folder: pathlib.Path) -> None:
    write(folder, train="print('runs', __name__)\n", reads="import os\nos.environ.get('LOCAL_RANK')\n",
          threads="import threading, time\nthreading.Thread(target=time.sleep, args=(99,), daemon=True).start()\n",
          fails="1 / 0\n", leaves="import os\nos._exit(3)\n", exits="import sys\nsys.exit('bye')\n",
          sets="import os\nos.environ['LOCAL_RANK'] = '7'\n", path="import sys\nsys.path.append('/tmp')\n",
          opens="file = open(__file__)\n", moves="import os\nos.chdir('/')\n", maps="import mmap\nkept = mmap.mmap(-1, 99)\n",
          ticks="import signal\nsignal.alarm(99)\n", child="import subprocess\nkept = subprocess.Popen(['sleep', '99'])\n", traces="import sys\nsys.settrace(lambda *words: None)\n")
    for module, why in (("reads", "reads.py:2 reads LOCAL_RANK when it is imported"), ("threads", "a module starts threads"),
                        ("sets", "a module sets LOCAL_RANK"), ("opens", "opens.py when it is imported, and keeps it open"),
                        ("moves", "a module changes the directory"), ("maps", "a module makes shared memory"),
                        ("ticks", "a module starts a timer"), ("child", "a module starts a process"), ("fails", "ZeroDivisionError"), ("leaves", "exit code 3"), ("exits", "SystemExit: bye"),
                        ("path", "a module changes sys.path"), ("traces", "a tool measures this Python"), ("absent", "No module named 'absent'")):
        printed = run(sys.executable, folder, f"--preload={module}", "train.py")
        assert f"workers are started without --preload: " in printed and why in printed, (module, printed)
        assert "runs __main__" in printed, (module, printed)


def auto_finds_imports_of_pytorch(folder: pathlib.Path) -> None:
    (folder / "package").mkdir()
    (folder / "package/__init__.py").write_text("raise SystemExit('imported')\n")
    write(folder, torch="", torchvision="", lazy="def main():\n    import torch\n    print('runs')\nmain()\n",
          wide="try:\n    from torchvision import *\nfinally:\n    print('runs')\n", none="import json\nprint('runs')\n",
          typed="import typing\nif typing.TYPE_CHECKING:\n    import torch\nprint('runs')\n", wrong="import torch\nprint(\n")
    write(folder / "package", train="import torch\nprint('runs')\n")
    (folder / "folder").mkdir()
    write(folder / "folder", __main__="import torch\nprint('runs')\n")
    forked, started = "workers are forked from pid", "without --preload"
    for words, expected in ((["lazy.py"], forked), (["wide.py"], forked), (["none.py"], ""), (["typed.py"], ""),
                            (["-m", "lazy"], forked), ([sys.executable, "-uc", "import torch; print('runs')"], forked),
                            ([sys.executable, "-cimport torch; print('runs')"], forked), ([sys.executable, "-mlazy"], forked),
                            ([sys.executable, "folder"], forked), (["echo", "runs"], "")):
        printed = run(sys.executable, folder, "--preload=auto", *words, PYTHONPATH=str(folder))
        assert "runs" in printed and started not in printed, (words, printed)
        assert (forked in printed) == (expected == forked), (words, printed)
    printed = run(sys.executable, folder, "--preload=auto", "wrong.py", code=1)
    assert "SyntaxError" in printed and "--preload" not in printed, printed
    # Only the worker imports the package.
    printed = run(sys.executable, folder, "--preload=auto", "-m", "package.train", code=1)
    assert forked in printed and "(--preload): imported" not in printed, printed


def environment_variables_of_the_program_are_respected(folder: pathlib.Path) -> None:
    write(folder, reads="import os\nos.environ.get('OWN')\nos.environ['MADE'] = 'by the import'\n")
    for line, refused in (("os.environ['OWN'] = '1'", "OWN"), ("os.environ.setdefault('OMP_NUM_THREADS', '3')", "OMP_NUM_THREADS"),
                          ("environ.update({'OWN': '1'})", "OWN"), ("os.environ |= dict(OWN='1')", "variables"),
                          ("os.environ.update(OMP_PROC_BIND='1')", "OMP_PROC_BIND"), ("os.putenv('OWN', '1')", "OWN"),
                          ("os.environ['A'], os.environ['OWN'] = '1', '2'", "OWN"), ("env = os.environ", "variables"),
                          ("del os.environ['OMP_NUM_THREADS']", "OMP_NUM_THREADS"), ("environ.pop('OWN', '')", "OWN"),
                          ("os.environ['UNREAD'] = '1'", ""), ("pass", "")):
        for late in (False, True):
            lines = ["import os", "from os import environ", *([line] if not late else []), "import reads", *([line] if late else []),
                     "print('made', os.environ['MADE'])"]
            write(folder, train="\n".join(lines) + "\n")
            printed = run(sys.executable, folder, "--preload=reads", "train.py")
            assert "made by the import" in printed, printed
            wanted = f"train.py:3 sets {refused} before the import" if refused and not late else "workers are forked"
            assert wanted in printed, (line, late, printed)


def uv_may_start_python(folder: pathlib.Path) -> None:
    """A program of that name stands in for it: a parent of Python that sets variables."""
    write(folder, train=NOTED("TORCHELASTIC_RESTART_COUNT") + HELD + """
import sys
print("ends", sys.argv, os.environ["OF_UV"])
sys.exit(os.environ["TORCHELASTIC_RESTART_COUNT"] == "0")
""")
    (folder / "uv").write_text(f'#!/bin/sh\nshift 3\n[ "$1" != python ] || shift\nexport OF_UV=set\n{sys.executable} "$@"\nexit $?\n')
    (folder / "uv").chmod(0o755)
    for is_killed in (False, True):
        (folder / "hold").touch()
        (folder / "ran").unlink(missing_ok=True)
        job = start(sys.executable, folder, "--preload=json", "--max-restarts=1", "./uv", "run", "--extra=cpu", "--", "train.py", "a")
        until_ran(folder, job, 2)
        if is_killed:
            os.kill(preloader_of(job.pid), signal.SIGKILL)
        (folder / "hold").unlink()
        printed = job.communicate(timeout=PATIENCE)[0]
        assert job.returncode == 0 and "ends ['train.py', 'a'] set" in printed, printed
        assert sorted((folder / "ran").read_text().split()) == ["0", "0", "1", "1"], printed
        assert ("without --preload" in printed) == is_killed, printed


def the_preloader_never_runs_the_program(folder: pathlib.Path) -> None:
    (folder / "other").mkdir()
    write(folder / "other", ctypes="raise ImportError('there is none')\n")
    write(folder, train=NOTED("RANK") + HELD, raises="import signal\nsignal.signal(signal.SIGUSR1, lambda *words: 1 / 0)\n",
          replaces="import sys\nclass Tee:\n    flush = lambda self: None\nsys.stdout = Tee()\n", closes="import sys\nsys.stdout.close()\n")
    (folder / "python-like").symlink_to("/bin/sh")
    (folder / "train.sh").write_text("echo -n $RANK >> ran; echo -n ' ' >> ran\n")
    for module, words, variables in (
            ("json", ["train.py"], {"PYTHONPATH": str(folder / "other")}), ("replaces", ["train.py"], {}), ("closes", ["train.py"], {}),
            ("json", ["--no-python", "./python-like", "train.sh"], {})):
        (folder / "ran").unlink(missing_ok=True)
        run(sys.executable, folder, f"--preload={module}", *words, **variables)
        assert sorted((folder / "ran").read_text().split()) == ["0", "1"], (module, words, (folder / "ran").read_text())
    ran, hold = folder / "ran", folder / "hold"
    ran.unlink()
    hold.touch()
    job = start(sys.executable, folder, "--preload=raises", "train.py")
    preloader = preloader_of(job.pid)
    until_ran(folder, job, 2)
    for _ in range(20):
        os.kill(preloader, signal.SIGUSR1)
        time.sleep(0.01)
    hold.unlink()
    printed = job.communicate(timeout=PATIENCE)[0]
    assert job.returncode == 0 and sorted(ran.read_text().split()) == ["0", "1"], (printed, ran.read_text())


def preloader_of(launcher: int) -> int:
    """Returns the pid of the preloader, when it runs."""
    until = time.monotonic() + PATIENCE
    while time.monotonic() < until:
        for entry in pathlib.Path("/proc").iterdir():
            if not entry.name.isdigit():
                continue
            try:
                is_one = re.search(rb"DDP_PRELOADER=\w", (entry / "environ").read_bytes())
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
    write(folder, slow=HELD, train=NOTED("TORCHELASTIC_RESTART_COUNT") + HELD + """
if os.environ["TORCHELASTIC_RESTART_COUNT"] == "0" and os.environ["RANK"] == "1":
    raise ValueError("again")
""")
    for number in (signal.SIGKILL, signal.SIGSTOP, signal.SIGTERM):
        for module in ("slow", "json"):  # it imports, or it has forked the first workers
            (folder / "hold").touch()
            (folder / "ran").unlink(missing_ok=True)
            job = start(sys.executable, folder, f"--preload={module}", "--max-restarts=1", "train.py")
            preloader = preloader_of(job.pid)
            if module == "json":
                until_ran(folder, job, 2)
            os.kill(preloader, number)
            if module == "slow":
                until_ran(folder, job, 2)  # they wait, too
            (folder / "hold").unlink()
            printed = job.communicate(timeout=PATIENCE)[0]
            assert job.returncode == 0 and "1" in (folder / "ran").read_text().split(), (number, module, printed)
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


for test in (a_restart_imports_nothing, a_worker_that_cannot_be_forked_is_started, a_job_goes_on_without_its_preloader,
             a_job_ends_while_it_imports, a_crash_right_after_the_start_has_its_place, uv_may_start_python,
             the_preloader_never_runs_the_program, auto_finds_imports_of_pytorch,
             environment_variables_of_the_program_are_respected):
    with tempfile.TemporaryDirectory() as scratch:
        test(pathlib.Path(scratch))
    print(f"{test.__name__}: ok", flush=True)
