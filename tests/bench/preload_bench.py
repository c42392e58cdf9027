"""Measures how long PyTorch ranks take to their first all_reduce: started by torchrun, by ddplaunch, and forked.

preload_bench.py DDPLAUNCH [ROUNDS [RANKS...]]. Uses the Python of the environment "pytorch". Prints one line of JSON with
medians: seconds from the start of the launcher to the end of the first all_reduce of the slowest rank, seconds from the
death of a rank to the same in the next attempt (null for torchrun), and the mean of the ranks' proportional memory (PSS) after
it. If strace is installed, one more run counts how often the job opens a file, without those of the kernel and of the run.
"""
import json
import os
import pathlib
import re
import statistics
import shutil
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
import environments  # noqa: E402  (it is in another folder)

LAUNCHER = pathlib.Path(sys.argv[1]).resolve()
ROUNDS = int(sys.argv[2]) if len(sys.argv) > 2 else 3
RANKS = [int(word) for word in sys.argv[3:]] or [2, 4, 8]
PROGRAM = """
import os, re, sys, time
import torch, torch.distributed as dist
dist.init_process_group("gloo")
dist.all_reduce(torch.ones(1))
now = time.time()
rank, attempt = os.environ["RANK"], os.environ["TORCHELASTIC_RESTART_COUNT"]
dist.barrier()
memory = int(re.search(r"^Pss: +([0-9]+)", open("/proc/self/smaps_rollup").read(), re.MULTILINE)[1])
open(f"{sys.argv[1]}/{attempt}.{rank}", "w").write(f"{now} {memory}")
dist.barrier()
if attempt == "0" and rank == "0":
    open(f"{sys.argv[1]}/death", "w").write(str(time.time()))
    os._exit(3)
if attempt == "0":
    time.sleep(60)
"""


def measure(command: list, ranks: int, python: str) -> dict:
    with tempfile.TemporaryDirectory() as folder:
        program = pathlib.Path(folder, "program.py")
        program.write_text(PROGRAM)
        begin = time.time()
        subprocess.run([*command, f"--nproc-per-node={ranks}", str(program), folder], check=False, stdout=subprocess.DEVNULL,
                       stderr=subprocess.DEVNULL, env={**os.environ, "PYTHON_EXEC": python})

        def latest(attempt: int) -> float:
            return max(float(file.read_text().split()[0]) for file in pathlib.Path(folder).glob(f"{attempt}.*"))

        memory = [int(file.read_text().split()[1]) / 1024 for file in pathlib.Path(folder).glob("0.*")]
        has_restarted = len(list(pathlib.Path(folder).glob("1.*"))) == ranks
        death = float(pathlib.Path(folder, "death").read_text())
        return {"start": latest(0) - begin, "restart": latest(1) - death if has_restarted else float("inf"),
                "mebibytes": statistics.mean(memory)}


def opened_files(command: list, ranks: int, python: str) -> int:
    """Returns how often a job opens a file of the installation in one attempt, the launcher included."""
    with tempfile.TemporaryDirectory() as folder:
        program = pathlib.Path(folder, "program.py")
        program.write_text(PROGRAM.replace('"0" and rank == "0"', '"no"').replace("time.sleep(60)", "os._exit(0)"))
        calls = pathlib.Path(folder, "calls")
        subprocess.run(["strace", "-f", "-qq", "-e", "trace=open,openat", "-e", "status=successful", "-o", str(calls), *command,
                        f"--nproc-per-node={ranks}", str(program), folder], check=True, stdout=subprocess.DEVNULL,
                       stderr=subprocess.DEVNULL, env={**os.environ, "PYTHON_EXEC": python})
        paths = re.findall(r"open(?:at\(\w+, |\()\"([^\"]*)", calls.read_text(errors="replace"))
        return sum(not re.match(r"/proc/|/sys/|/dev/|.*/ddp-run-", path) for path in paths)


python = environments.need("pytorch")
# The second attempt of torchrun with Gloo finds the addresses of the first one in its store, and fails or hangs.
commands = {"torchrun": [python, "-m", "torch.distributed.run", "--standalone"],
            "started": [str(LAUNCHER), "--max-restarts=1"],
            "forked": [str(LAUNCHER), "--max-restarts=1", "--preload=torch"]}
result = {}
for ranks in RANKS:
    rounds = [{name: measure(command, ranks, python) for name, command in commands.items()} for _ in range(ROUNDS)]
    medians = {name: {key: statistics.median(one[name][key] for one in rounds) for key in rounds[0][name]} for name in commands}
    result[ranks] = {name: {key: round(value, 2) if value < float("inf") else None for key, value in values.items()}
                     for name, values in medians.items()}
    if shutil.which("strace"):
        for name, command in commands.items():
            result[ranks][name]["files"] = opened_files(command, ranks, python)
    print(json.dumps({ranks: result[ranks]}), file=sys.stderr)
print(json.dumps({"rounds": ROUNDS, "ranks": result}))
