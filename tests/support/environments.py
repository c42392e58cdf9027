"""Finds the Python interpreters of the tests: Debian's, and those of the environments that scripts/environments makes.

tests/environments/NAME.txt lists what the environment NAME has. It is usable if it was made from the list as it is now.

As a program, `environments.py NAME` prints the interpreter's path. It exits with 77 and a reason if there is none.
"""
import os
import pathlib
import subprocess
import sys

LISTS = pathlib.Path(__file__).resolve().parents[1] / "environments"
_CACHE = pathlib.Path(os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache")
FOLDER = pathlib.Path(os.environ.get("DDP_TEST_ENVIRONMENTS") or _CACHE / "ddplaunch" / "test_environments").absolute()
MARK = "made_from.txt"  # a copy of the list, written when everything is installed
DEBIAN = "/usr/bin/python3"


def is_made(name: str) -> bool:
    mark = FOLDER / name / MARK
    return mark.exists() and mark.read_text() == (LISTS / f"{name}.txt").read_text()


def find(name: str) -> str | None:
    """Returns the interpreter of the environment `name`, or Debian's, which has PyTorch, for "debian". Returns None if
    there is none."""
    if name != "debian":
        return str(FOLDER / name / "bin" / "python3") if is_made(name) else None
    probe = subprocess.run([DEBIAN, "-c", "import torch"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False)
    return DEBIAN if probe.returncode == 0 else None


def need(name: str) -> str:
    """Returns the interpreter. Skips the calling test if there is none."""
    if not (python := find(name)):
        print("not installed: python3-torch" if name == "debian" else
              f"there is no Python environment {FOLDER / name}: run scripts/environments")
        sys.exit(77)
    return python


def path_with(python: str, path: str | None = None) -> str:
    """Returns PATH with the folder of the interpreter first, which has its programs, such as py-spy."""
    return f"{pathlib.Path(python).parent}:{os.environ.get('PATH', '/usr/bin:/bin') if path is None else path}"


if __name__ == "__main__":
    print(need(sys.argv[1]))
