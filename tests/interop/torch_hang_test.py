#!/usr/bin/env python3
"""torch_hang_test.py DDPLAUNCH ENVIRONMENT: tests PyTorch scripts, without the runtime, that hang before a collective.
Rank 1 sleeps or computes forever, with or without heartbeats, or calls a barrier. PyTorch records nothing here, so the
stacks decide. At --hang-timeout the launcher terminates the job. It reports what all ranks do, and their Python stacks
if py-spy is present. The last script never makes a process group."""
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests/support"))
import environments  # noqa: E402  (it is in another folder)

PYTHON = environments.need(sys.argv[2])
os.environ.update(PATH=environments.path_with(PYTHON), TORCH_FR_BUFFER_SIZE="0")
SCRIPT = """
import sys, time
import torch, torch.distributed as dist
import ddp_page

dist.init_process_group("gloo")
x = torch.ones(1000)


def load_batch(step):
    while dist.get_rank() == 1 and step == 5:
        if sys.argv[1] == "calls":
            dist.barrier()
        if sys.argv[1] != "computes":
            time.sleep(1000)


for step in range(1000):
    load_batch(step)
    dist.all_reduce(x)
    if sys.argv[1] == "heartbeats":
        ddp_page.heartbeat()
"""



def run_job(command):
    """Returns the ended process. If it does not end, prints what it and its descendants do."""
    job = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                           env={**os.environ, "PYTHONPATH": str(ROOT / "bindings/python")})
    try:
        # If a stack cannot be read in time, the next attempt follows after more than a minute.
        stdout, stderr = job.communicate(timeout=400)
    except subprocess.TimeoutExpired as late:
        subprocess.run(["ps", "-eo", "pid,ppid,stat,wchan:24,etime,args", "--forest"])
        job.kill()
        raise AssertionError(f"it runs for too long, exit code {job.poll()}\n{late.stderr}") from late
    return subprocess.CompletedProcess(command, job.returncode, stdout, stderr)


with tempfile.TemporaryDirectory() as folder:
    script = pathlib.Path(folder) / "train.py"
    script.write_text(SCRIPT)
    not_called, different = ("DDP-H03", [1]), ("DDP-H04", [1])
    # Debian's libtorch 1.13 has no function names within all_reduce, so only py-spy shows that the call differs.
    unknown = [] if shutil.which("py-spy") else [("DDP-H07", [])]
    for how, expected in (("sleeps", [not_called]), ("computes", [not_called]), ("heartbeats", [not_called]),
                          ("calls", [different, *unknown])):
        log = pathlib.Path(folder) / how
        run = run_job([sys.argv[1], "--nproc-per-node=3", "--hang-timeout=8", f"--event-log={log}", "--no-python",
                       PYTHON, script, how])
        assert run.returncode == 124, (run.returncode, run.stdout, run.stderr)
        stall = [json.loads(line) for line in log.read_text().splitlines() if '"hung"' in line][0]["stall"]
        code, culprits = stall["code"], stall["culprits"]
        assert (code, culprits) in expected, stall
        assert f"[{code} " in run.stderr and 8 <= stall["age_seconds"], run.stderr
        for rank in range(3):
            assert f"rank {rank} (pid " in run.stderr, run.stderr
        if how == "heartbeats":
            assert "5 heartbeats" in run.stderr, run.stderr
        stacks = {entry["rank"]: entry for entry in stall["stacks"]}
        if shutil.which("py-spy"):
            assert stacks[1]["source"] == "py-spy", stacks[1]
            # The loop of "computes" may be seen within get_rank().
            assert how == "calls" or re.search(r"rank 1: (.* ← )?load_batch \(train\.py:", run.stderr), run.stderr
        else:
            assert any("py-spy: not found" in reason for reason in stacks[1]["missing"]), stacks[1]
        print(f"{how}: {code}, culprits {culprits}, stacks by {stacks[1]['source'] or 'nothing'}")
    script.write_text("import os, time\nimport torch.distributed as dist\n"
                      "if os.environ['RANK'] == '1':\n    time.sleep(1000)\ndist.init_process_group('gloo')\n")
    run = run_job([sys.argv[1], "--nproc-per-node=3", "--hang-timeout=16", "--no-python", PYTHON, script])
    assert run.returncode == 124, (run.returncode, run.stdout, run.stderr)
    # Debian's PyTorch uses other keys, whose meaning the launcher does not know.
    waited = "waited in the store for key" if PYTHON == environments.DEBIAN else "note: ranks 0, 2 have waited in "
    assert waited in run.stderr, run.stderr
    assert "rank 1 is not connected to the store" in run.stderr, run.stderr
    # The rank sleeps, and the stacks of the others show whom they wait for.
    suspect = "rank 1 is in no collective; ranks 0, 2 wait in init_process_group at train.py:5  [DDP-H03 not called]"
    assert not shutil.which("py-spy") or suspect in run.stderr, run.stderr
    print("a rank that never calls init_process_group: ok")
