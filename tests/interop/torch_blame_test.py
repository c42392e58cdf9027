#!/usr/bin/env python3
"""torch_blame_test.py DDPLAUNCH [all | NAME...]: tests that the report names the rank that failed first, with its error
and its line, for the 64 programs of torch_blame/. Uses the Python of the environment "pytorch".

Prints a table with the rank and the error. Without names, every eighth program runs, because importing PyTorch takes
most of the time (about two seconds of CPU time per rank).
"""
import pathlib
import re
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE / "torch_blame"), str(HERE.parent / "support")]
import environments  # noqa: E402  (these are in other folders)
import failures  # noqa: E402, F401
import losses  # noqa: E402, F401
from common import PROGRAMS  # noqa: E402
from named_runs import run_named  # noqa: E402

LIMIT = 200  # seconds for one job on a busy computer
AT_ONCE = 3


def names_failing_line(report):
    """Returns whether the report names a line with the comment "# fails"."""
    place = re.search(r"^ddplaunch:   at (\S+):(\d+) in ", report, re.M)
    if not place or not pathlib.Path(place[1]).is_file():
        return False
    return pathlib.Path(place[1]).read_text().splitlines()[int(place[2]) - 1].endswith("# fails")


def wrong_in(report, culprit, says):
    """Returns what the report does not show, or an empty string."""
    named = re.search(r"ddplaunch: error: rank (\d+) (\(pid|called)", report)
    if not named:
        return "no rank is named"
    if int(named[1]) != culprit:
        return f"rank {named[1]} is named"
    if says not in report:
        return f"the report does not show {says!r}"
    is_exception = re.match(r"\w+(Error|Warning)\b", says)
    return "the report does not name the line" if is_exception and not names_failing_line(report) else ""


def run(python, name):
    """Returns what is wrong, and the whole output."""
    program = PROGRAMS[name]
    command = [sys.argv[1], f"--nproc-per-node={program.ranks}", python, str(HERE / "torch_blame/run.py"), name]
    with subprocess.Popen(command, text=True, errors="replace", stdout=subprocess.PIPE, stderr=subprocess.PIPE) as job:
        try:
            output = job.communicate(timeout=LIMIT)
        except subprocess.TimeoutExpired:
            job.terminate()  # the launcher ends its job
            return f"the job has not ended after {LIMIT} s", "".join(job.communicate())
    report = output[1][max(output[1].find("ddplaunch: error:"), 0):]
    fault = wrong_in(report, program.culprit, program.says)
    first_line = report.split("\n", 1)[0]
    return f"{fault}; its first line: {first_line}" if fault else "", "".join(output)


def label(name):
    ranks, culprit, says = PROGRAMS[name][:3]
    return f"{name:32} {ranks} ranks, rank {culprit}: {says}"


def main():
    python = environments.need("pytorch")
    wanted = sys.argv[2:]
    names = list(PROGRAMS) if wanted == ["all"] else wanted or list(PROGRAMS)[::8]
    return run_named(names, lambda name: run(python, name), AT_ONCE, label)


sys.exit(main())
