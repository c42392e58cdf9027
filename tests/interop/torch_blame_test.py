#!/usr/bin/env python3
"""torch_blame_test.py DDPLAUNCH [all | NAME...]: tests that the rank that failed first is named, with its first line, for
60 PyTorch programs. Each combines a way to fail with a way in which the ranks lose each other or exit. Without names,
each way to fail is combined with one of the others, because importing PyTorch takes most of the time."""
import concurrent.futures
import itertools
import pathlib
import re
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
import environments  # noqa: E402  (it is in another folder)

PYTHON = environments.need("pytorch")
BEGIN = """
import atexit, os, signal, sys, time, traceback
import torch, torch.distributed as dist
dist.init_process_group("gloo")
rank, culprit = dist.get_rank(), int(sys.argv[1])
x = torch.ones(4)

class TrainerError(Exception):
    pass

def fail():
{failure}

def train():
    for step in range(4):
        if rank == culprit and step == 2:
            fail()
        dist.all_reduce(x)
    time.sleep(60)

"""
# How the culprit fails, and the line that the report shows.
FAILURES = {
    "value_error": ("raise ValueError('bad sample 17')", "ValueError: bad sample 17"),
    "key_error": ("return {}['label']", "KeyError: 'label'"),
    "assertion": ("assert rank < 0, 'loss is nan'", "AssertionError: loss is nan"),
    "cause": ("raise RuntimeError('bad config') from KeyError('lr')", "RuntimeError: bad config"),
    "context": ("""try:
    return {}['lr']
except KeyError:
    raise RuntimeError('no learning rate')""", "RuntimeError: no learning rate"),
    "group": ("raise ExceptionGroup('readers', [OSError('shard 3 is empty')])", "readers (1 sub-exception)"),
    "lines": ("raise RuntimeError('shapes differ:\\\\n[3, 4]')", "RuntimeError: shapes differ:"),
    "printed": ("""try:
    raise ValueError('bad shard')
except ValueError:
    traceback.print_exc()
    sys.exit(3)""", "ValueError: bad shard"),
    "hard_exit": ("""try:
    raise ValueError('bad index')
except ValueError:
    traceback.print_exc()
    sys.stderr.flush()
    os._exit(5)""", "ValueError: bad index"),
    "text": ("sys.exit('no data')", "no data"),
    "killed": ("os.kill(os.getpid(), signal.SIGKILL)", "killed by SIGKILL"),
    "crash": ("os.kill(os.getpid(), signal.SIGSEGV)", "killed by SIGSEGV"),
}
# How the ranks run `train`.
WAYS = {
    "plain": "train()",
    "finally": """
if rank == culprit:
    atexit.register(time.sleep, 3)
try:
    train()
finally:
    dist.destroy_process_group()
    time.sleep(0.1)
""",
    "slow_exit": """
if rank == culprit:
    atexit.register(time.sleep, 3)
train()
""",
    "wrapped": """
try:
    train()
except RuntimeError as error:
    if rank == culprit:
        raise
    raise TrainerError("the step failed") from error
""",
    "handled": """
try:
    raise OSError("an optional file is missing")
except OSError:
    sys.excepthook(*sys.exc_info())
try:
    train()
except RuntimeError:
    if rank == culprit:
        raise
    traceback.print_exc()
    sys.exit(4)
""",
}


def indented(text):
    return "\n".join("    " + line for line in text.splitlines())


def run(launcher, folder, name, ranks, culprit):
    """Returns the rank and the line that the report names, or the whole output."""
    failure, way = name.split("+")
    way = WAYS[way]
    script = pathlib.Path(folder) / f"{name}.py"
    # A rank leaves no record of sys.exit(), so only its end shows it, if it comes in time.
    way = way.replace("3)", "1)") if failure in ("text", "printed") else way
    script.write_text(BEGIN.replace("{failure}", indented(FAILURES[failure][0])) + way)
    job = subprocess.run([launcher, f"--nproc-per-node={ranks}", PYTHON, str(script), str(culprit)], text=True,
                         errors="replace", capture_output=True, timeout=300)
    report = job.stderr[job.stderr.find("ddplaunch: error:"):]
    named = re.search(r"rank (\d+) \(pid \d+\) failed", report)
    line = FAILURES[failure][1]
    is_right = named is not None and int(named[1]) == culprit and line in job.stderr
    # Of a rank that exits with a text, the report shows the last traceback, which may be older than the text.
    if failure != "text" and line not in report:
        is_right = False
    return (int(named[1]) if named else None), line, is_right, job.stderr


def main(launcher, wanted):
    names = [f"{failure}+{way}" for failure, way in itertools.product(FAILURES, WAYS)]
    programs = [(name, 2 + (i % 5 == 1) + 2 * (i % 7 == 3), i) for i, name in enumerate(names)]
    if not wanted:
        programs = [programs[i * len(WAYS) + i % len(WAYS)] for i in range(len(FAILURES))]
    wrong = 0
    with tempfile.TemporaryDirectory() as folder, concurrent.futures.ThreadPoolExecutor(4) as pool:
        jobs = [(name, ranks, i % ranks, pool.submit(run, launcher, folder, name, ranks, i % ranks))
                for name, ranks, i in programs if wanted in ([], ["all"]) or name in wanted]
        for name, ranks, culprit, job in jobs:
            rank, line, is_right, output = job.result()
            print(f"{'ok ' if is_right else 'BAD'} {name:24} {ranks} ranks: rank {culprit} named {rank}: {line}")
            wrong += not is_right
            if not is_right:
                print(output)
    print(f"{len(jobs) - wrong} of {len(jobs)} right")
    return wrong > 0


sys.exit(main(sys.argv[1], sys.argv[2:]))
