"""Starts jobs for the tests of --preload: on two ranks, without the variables of the computer's own jobs."""
import os
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests/support"))
import environments  # noqa: E402, F401  (it is in another folder; the tests use it)

LAUNCHER = pathlib.Path(sys.argv[1]).resolve()
PATIENCE = 240  # seconds
# These may be set where the tests are run.
UNWANTED = re.compile(r"PET_|TORCH|DDP_|PYTHON|OMP_|SLURM_|(MASTER|LOCAL|GROUP|ROLE)_|(RANK|WORLD_SIZE)$")


def start(python: str, folder: pathlib.Path, *words: object, ranks: int = 2, output: int = subprocess.PIPE,
          via: tuple = (), **variables: str) -> subprocess.Popen:
    usual = {name: value for name, value in os.environ.items() if not UNWANTED.match(name)}
    return subprocess.Popen([str(word) for word in (*via, LAUNCHER, f"--nproc-per-node={ranks}", *words)], cwd=folder, text=True,
                            stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT,
                            env={**usual, "PYTHON_EXEC": python, **variables})


def run(python: str, folder: pathlib.Path, *words: object, code: int = 0, **how: object) -> str:
    job = start(python, folder, *words, **how)
    try:
        printed = job.communicate(timeout=PATIENCE)[0]
    finally:
        job.kill()
    assert job.returncode == code, (words, job.returncode, printed)
    return printed


def write(folder: pathlib.Path, **programs: str) -> None:
    for name, text in programs.items():
        (folder / f"{name}.py").write_text(text)
