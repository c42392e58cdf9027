"""Compares forked workers (--preload) with started ones: what process_properties.py sees, in several kinds of jobs.

preload_likeness_test.py DDPLAUNCH ENVIRONMENT|PYTHON. The environments are "debian" and "pytorch".
"""
import contextlib
import json
import os
import pathlib
import pty
import re
import sys
import tempfile

from preloaded_job import ROOT, environments, run, start

PROBE = ROOT / "tests/interop/process_properties.py"
# docs/how-to/start-faster.md lists these differences.
DIFFERENCES = {"frozen objects"}
# In "differences" below are threads of BLAS: some start at the import, if they may use several CPUs.
RANDOM = {"random state differs", "numpy random state differs", "seed of torch"}
PREPARED = "ulimit -c 0; ulimit -Sn 512; umask 027; trap '' USR1 PIPE; "
OPTIONS = ("-X", "dev", "-W", "ignore::UserWarning", "-O", "-B")


def program(python: str) -> dict[str, dict]:
    """Returns how the probe is started: words for the launcher, the program, and variables."""
    return {
        "a script": {},
        "torch, if the script imports it": {"preload": "auto"},
        "a module": {"program": ("-m", PROBE.stem), "variables": {"PYTHONPATH": str(PROBE.parent)}},
        "options of Python": {"program": (python, *OPTIONS, PROBE)},
        "variables": {"differences": {"threads"}, "variables": {"PYTHONHASHSEED": "5", "OMP_NUM_THREADS": "3", "LC_ALL": "C", "PYTHONFAULTHANDLER": "1",
                                    "PYTHONUTF8": "1", "EMPTY": "", "LINES": "1\n2", "TORCH_SHOW_CPP_STACKTRACES": "1"}},
        "one worker at a terminal": {"differences": {"threads"}, "terminal": True, "ranks": 1},
        "two workers at a terminal": {"terminal": True},
        "bound to CPUs": {"words": ("--numa-binding=exclusive",), "variables": {"OMP_NUM_THREADS": "1"}},
        "limits and signals": {"via": ("sh", "-c", PREPARED + 'exec "$@"', "sh")},
    }


def run_at_terminal(python: str, folder: pathlib.Path, *words: object, **how: object) -> str:
    own, other = pty.openpty()
    job = start(python, folder, *words, output=other, **how)
    os.close(other)
    printed = b""
    with contextlib.suppress(OSError):  # the job has ended
        while part := os.read(own, 4096):
            printed += part
    os.close(own)
    assert job.wait() == 0, printed
    return printed.decode()


def properties(python: str, folder: pathlib.Path, name: str, way: dict, *words: object) -> list[dict]:
    """Runs the probe on each rank, and returns what it has written."""
    words = ("--rdzv-id=probe", f"--log-dir={folder}/{name}.d", *words, *way.get("words", ()), *way.get("program", (PROBE,)),
             f"{folder}/{name}")
    ranks = way.get("ranks", 2)
    how = {"ranks": ranks, "via": way.get("via", ()), **way.get("variables", {})}
    printed = (run_at_terminal if way.get("terminal") else run)(python, folder, *words, **how)
    assert ("workers are forked from pid" in printed) == (name == "forked"), printed
    return [json.loads((folder / f"{name}{rank}").read_text()) for rank in range(ranks)]


def without_names(value: object, name: str) -> str:
    """Replaces names of this job, its port, numbers of terminals, and addresses of objects."""
    text = json.dumps(value).replace(name, "NAME")
    return re.sub(r"ddp-run-\w+|probe_\w+|ddplaunch-job-\w+-\d+|(?<=MASTER_PORT=)\d+|(?<= at )0x\w+|(?<=/dev/pts/)\d+", "RUN", text)


def differing_words(one: str, other: str) -> tuple[set[str], set[str]]:
    one, other = set(one.split(", ")), set(other.split(", "))
    return one - other, other - one


def compare(python: str, folder: pathlib.Path, way: dict) -> None:
    started = properties(python, folder, "started", way)
    forked = properties(python, folder, "forked", way, f"--preload={way.get('preload', 'torch')}")
    assert len(started[0]) >= 60, len(started[0])
    for one, other in zip(started, forked):
        sides = {key: (without_names(one[key], "started"), without_names(other[key], "forked")) for key in one}
        different = {key: values for key, values in sides.items() if values[0] != values[1] and key not in RANDOM}
        unlike = set(different) - way.get("differences", set())
        assert unlike == DIFFERENCES, {key: differing_words(*values) for key, values in different.items()}
    for key in RANDOM:
        assert len(forked) == 1 or forked[0][key] != forked[1][key], key


def main() -> None:
    wanted = sys.argv[2]
    python = wanted if "/" in wanted else environments.need(wanted)
    for name, way in program(python).items():
        with tempfile.TemporaryDirectory() as folder:
            compare(python, pathlib.Path(folder), way)
        print(f"{name}: alike", flush=True)


main()
