"""Runs the programs of torch_zoo under several versions of PyTorch, and prints a Markdown table of the reports.

Each program is started by ddplaunch with --launcher, and by the Python's own torch.distributed.run with --peer. A
program that hangs gets --hang-timeout=10, a healthy one no limit. Exits with 1 if a report differs from expected.py.
"""
import argparse
import concurrent.futures
import os
import pathlib
import re
import signal
import subprocess
import sys
import threading
import time

ZOO = pathlib.Path(__file__).resolve().parent / "torch_zoo"
sys.path.insert(0, str(ZOO))
from expected import HANGING, PROGRAMS  # noqa: E402

VERDICT = re.compile(r"^ddplaunch: (note|warning|error): (.*)\[DDP-(H\d\d) ")
RANKS = re.compile(r"\branks? (\d[-\d]*(?:, \d[-\d]*)*)")
BOTH_SIDES = re.compile(r"\brank (\d+) called .*?, and rank (\d+) called ")
LAUNCHER_WORD = re.compile(r"^ddplaunch: (note|warning|error): (?!using OMP_NUM_THREADS|OMP_NUM_THREADS)")
PLACE = re.compile(r"(\w+) \((?:\S*/)?((?:hanging|failing|healthy)\.py):(\d+)\)")
ODD_ONE = re.compile(r"^ddplaunch:   ranks? [-\d, ]+ waits? neither for a message nor for another thread")
TRACEBACK = re.compile(r'(?:.*)/((?:hanging|failing|healthy)\.py)", line (\d+), in (\S+)')
# Warnings at the start, such as "[rank0]:[W1125 ...", are not about the fault.
PEER_WORD = re.compile(r"^(?!.*\bW\d{4} )(?:.*)(?:\brank\W{0,4}\d|failed \(exitcode|Root Cause|error_file|"
                       r"/(?:hanging|failing|healthy)\.py\", line \d+)")


def parts_of(version):
    return tuple(int(part) for part in re.match(r"(\d+)\.(\d+)", version).groups())


def ranks_in(words):
    """Returns the ranks that the text names first, such as [0, 2, 3] for "ranks 0, 2-3 wait". If no side of a
    difference is known to be wrong, that is both: "rank 0 called all_reduce, and rank 1 called barrier"."""
    both = BOTH_SIDES.search(words)
    named, ranks = RANKS.search(words), []
    for part in both.groups() if both else named.group(1).split(", ") if named else []:
        first, _, last = part.partition("-")
        ranks += range(int(first), int(last or first) + 1)
    return tuple(ranks)


def version_of(python):
    program = "import torch; print(torch.__version__)"
    return subprocess.run([python, "-W", "ignore", "-c", program], capture_output=True, text=True, check=True).stdout.strip()


def marked_lines(program):
    """Returns the numbers of the lines in the program's function that end with the comment "Here."."""
    lines, inside, found = (ZOO / program.file).read_text().splitlines(), False, []
    for number, line in enumerate(lines, 1):
        if line and not line.startswith((" ", ")")):
            inside = line.startswith(f"def {program.name}(")
        elif inside and line.endswith("# Here."):
            found.append(number)
    return found


class Run:
    """Runs a program once, and keeps its lines with their times. Time 0 is when the last rank has made its process
    group."""

    def __init__(self, command, environment, limit):
        self.lines = []
        begun = time.monotonic()
        self.job = subprocess.Popen(command, env=environment, text=True, errors="replace", stdin=subprocess.DEVNULL,
                                    stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        self.stopped_at = None
        timer = self.timer_of(limit)
        for line in self.job.stdout:
            self.lines.append((time.monotonic(), line.rstrip("\n")))
            if self.is_start(line):
                timer.cancel()
                timer = self.timer_of(limit)
        self.code = self.job.wait()
        timer.cancel()
        if self.stopped_at:
            # Lines that are printed because the job is stopped do not count.
            self.lines = [(at, line) for at, line in self.lines if at <= self.stopped_at]
        ended = time.monotonic()
        zero = max((at for at, line in self.lines if self.is_start(line)), default=begun)
        self.lines = [(at - zero, line) for at, line in self.lines]
        self.seconds = ended - zero
        self.output = "\n".join(f"{at:8.2f} {line}" for at, line in self.lines) + "\n"

    def timer_of(self, limit):
        timer = threading.Timer(limit, self.stop)
        timer.start()
        return timer

    @staticmethod
    def is_start(line):
        """Returns whether a rank reports here that it has made its process group. The launcher prints the last lines
        of a rank again."""
        return line.rstrip().endswith("started") and not line.startswith("ddplaunch")

    def stop(self):
        self.stopped_at = time.monotonic()
        self.job.send_signal(signal.SIGTERM)

    def first(self, pattern):
        """Returns the time and the text of the first line that contains the pattern, or None."""
        return next(((at, line) for at, line in self.lines if pattern.search(line)), None)


class Judgement:
    """Compares the launcher's report of a run with the expected one. Without py-spy the report has no places."""

    def __init__(self, program, run, version, places=True):
        self.run, self.places = run, places
        found = [(at, VERDICT.match(line)) for at, line in run.lines]
        found = [(at, match) for at, match in found if match]
        self.first = run.first(LAUNCHER_WORD)
        self.first_verdict = found[0] if found else None
        # The last verdict is the launcher's decision.
        self.severity, self.words, self.verdict = found[-1][1].groups() if found else ("", "", "")
        if not found and program.code != 0:
            error = run.first(re.compile(r"^ddplaunch: error: "))
            self.words = error[1] if error else ""
        odd = [line for _, line in run.lines if ODD_ONE.match(line)]
        self.ranks = ranks_in(odd[-1] if self.verdict == "H08" and odd else self.words)
        self.place = self.place_of(program)
        self.wrong = self.compare(program, parts_of(version) >= (2, 12))

    def stacks(self):
        """Returns each stack as one line: "rank 1: inner (file:number) ← outer (file:number)"."""
        found = []
        for _, line in self.run.lines:
            if re.match(r"ddplaunch:   ranks? [-\d, ]+: ", line):
                found.append(line.partition("ddplaunch:   ")[2])
            elif line.startswith("ddplaunch:       ← ") and found:
                found[-1] += line.partition("ddplaunch:      ")[2]
        return found

    def place_of(self, program):
        """Returns the innermost line of the script in the last stack of the first rank that is named. If none is
        named, it uses any rank."""
        for stack in reversed([stack for stack in self.stacks() if not self.ranks or self.ranks[0] in ranks_in(stack)]):
            place = PLACE.search(stack)
            if place:
                return f"{place.group(2)}:{place.group(3)} {place.group(1)}"
        tracebacks = [match for _, line in self.run.lines for match in [TRACEBACK.search(line)] if match]
        # Older versions do not print the rank in front of each line.
        prefix = f"[rank{self.ranks[0]}]" if self.ranks and "[rank" in self.run.output else ""
        for match in reversed(tracebacks):
            if program.file == "failing.py" and match.group(3) != "<module>" and prefix in match.group(0):
                return f"{match.group(1)}:{match.group(2)} {match.group(3)} (traceback)"
        return ""

    def compare(self, program, recorded):
        wrong = []
        if self.run.stopped_at:
            if program.code is not None:
                wrong.append("did not end by itself")
        elif self.run.code not in (program.code, *program.or_codes):
            wrong.append(f"exit code {self.run.code}, not {program.code}")
        if program.code == 0:
            if self.verdict and not (program.may_be_noted and self.severity == "note"):
                wrong.append(f"{self.severity} {self.verdict} about a healthy program")
            return wrong
        verdict = program.verdict if recorded or program.older_verdict is None else program.older_verdict
        if self.verdict != verdict:
            wrong.append(f"verdict {self.verdict or 'none'}, not {verdict or 'none'}")
        if recorded and program.says and program.says not in self.run.output:
            wrong.append(f"does not say {program.says!r}")
        # If the launcher reads stacks, it need not know the rank, but it must not name another one.
        if self.ranks != program.culprits and (recorded or self.ranks):
            wrong.append(f"names {list(self.ranks) or 'no rank'}, not {list(program.culprits)}")
        # If the launcher names no rank, it shows the stacks of all ranks.
        places = [self.place] if self.ranks else re.findall(r"\w+\.py:\d+", " ".join(self.stacks()))
        marked = [f"{program.file}:{number}" for number in marked_lines(program)]
        # The launcher takes no stack of a stopped rank.
        if self.places and marked and verdict != "H02" and not any(place.split(" ")[0] in marked for place in places):
            wrong.append(f"place {self.place or 'not named'}, not {marked[0]}")
        return wrong


def environment_of(python):
    return {**os.environ, "PATH": f"{pathlib.Path(python).parent}:{os.environ['PATH']}", "PYTHONUNBUFFERED": "1"}


def run_by_launcher(launcher, python, program, hang_timeout=10, limit=120):
    limit_of_program = hang_timeout if program in HANGING else program.hang_timeout
    options = [f"--hang-timeout={limit_of_program}"] if limit_of_program else []
    return Run([launcher, "--no-tag", f"--nproc-per-node={program.ranks}", *options, str(ZOO / program.file), program.name],
               environment_of(python), limit if program.code is not None else 20)


def run_by_peer(python, program, limit):
    # Each run has its own port, so that several can run at a time.
    return Run([python, "-m", "torch.distributed.run", "--standalone", f"--nproc_per_node={program.ranks}",
                str(ZOO / program.file), program.name], environment_of(python), limit)


def cell(text):
    return str(text).replace("|", "\\|")


def launcher_row(program, version, judgement):
    first, verdict = judgement.first, judgement.first_verdict
    ranks = ", ".join(map(str, judgement.ranks))
    return [program.name, version, judgement.run.code, f"{first[0]:.1f}" if first else "",
            f"{verdict[0]:.1f}" if verdict else "", f"{judgement.run.seconds:.1f}", judgement.verdict, ranks, judgement.place,
            "; ".join(judgement.wrong) or "as expected"]


def peer_row(program, version, run):
    said = run.first(PEER_WORD)
    root_cause = re.search(r"Root Cause.*?rank +: (\d+)", run.output, re.S)
    return [program.name, version, "stopped" if run.stopped_at else run.code, f"{said[0]:.1f}" if said else "",
            root_cause.group(1) if root_cause else "", f"{run.seconds:.1f}", said[1].strip()[:150] if said else "nothing"]


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--launcher", help="ddplaunch, which starts the programs")
    parser.add_argument("--peer", action="store_true", help="start the programs by torch.distributed.run")
    parser.add_argument("--python", action="append", required=True, help="a Python with PyTorch; may be repeated")
    parser.add_argument("--peer-limit", type=float, default=60, help="seconds after which a job of the peer is stopped")
    parser.add_argument("--jobs", type=int, default=1, help="how many programs run at a time")
    parser.add_argument("--only", default="", help="a regular expression for file/name, such as hanging.py/spins")
    parser.add_argument("--outputs", help="a folder for the output of each run")
    options = parser.parse_args()
    if bool(options.launcher) == options.peer:
        parser.error("give either --launcher or --peer")
    todo, rows, wrong = [], {}, 0
    for python in options.python:
        version = version_of(python)
        todo += [(python, version, program) for program in PROGRAMS
                 if re.search(options.only, f"{program.file}/{program.name}")]

    def work(python, version, program):
        if parts_of(version) < program.since:
            return None
        run = run_by_peer(python, program, options.peer_limit) if options.peer else run_by_launcher(
            options.launcher, python, program)
        if options.outputs:
            kind = "peer" if options.peer else "launcher"
            path = pathlib.Path(options.outputs) / f"{kind}_{version}" / f"{program.name}.txt"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(run.output)
        return run

    head = ["program", "version", "exit code"]
    if options.peer:
        head += ["named a rank or a place after s", "rank of the root cause", "ended after s", "first such line"]
    else:
        head += ["first word after s", "first verdict after s", "ended after s", "verdict", "ranks", "place", "as expected"]
    print("| " + " | ".join(head) + " |\n|" + "---|" * len(head), flush=True)
    with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        for (_, version, program), run in zip(todo, pool.map(lambda args: work(*args), todo)):
            if run is None:
                row = [program.name, version, "not supported"] + [""] * (len(head) - 3)
            elif options.peer:
                row = peer_row(program, version, run)
            else:
                judgement = Judgement(program, run, version)
                wrong += bool(judgement.wrong)
                row = launcher_row(program, version, judgement)
            print("| " + " | ".join(map(cell, row)) + " |", flush=True)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
