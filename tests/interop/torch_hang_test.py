#!/usr/bin/env python3
"""torch_hang_test.py DDPLAUNCH: a PyTorch script, which does not use the runtime, whose rank 1 sleeps for ever before its
all-reduce. It is ended at --hang-timeout with what all ranks are at, and their Python stacks where py-spy is present; with
heartbeats rank 1 is the culprit."""
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
PYTHON = os.environ.get("DDP_TEST_PYTHON") or "/usr/bin/python3"
SCRIPT = """
import sys, time
import torch, torch.distributed as dist
import ddp_board

dist.init_process_group("gloo")
x = torch.ones(1000)


def load_batch(step):
    while dist.get_rank() == 1 and step == 5:
        time.sleep(1000)


for step in range(1000):
    load_batch(step)
    dist.all_reduce(x)
    if sys.argv[1] == "beats":
        ddp_board.heartbeat()
"""

if subprocess.run([PYTHON, "-c", "import torch.distributed"], capture_output=True).returncode != 0:
    print(f"{PYTHON} has no PyTorch")
    sys.exit(77)
with tempfile.TemporaryDirectory() as folder:
    script = pathlib.Path(folder) / "train.py"
    script.write_text(SCRIPT)
    for how, code, culprits in (("plain", "DDP-H08", []), ("beats", "DDP-H09", [1])):
        log = pathlib.Path(folder) / how
        run = subprocess.run([sys.argv[1], "--nproc-per-node=3", "--hang-timeout=8", f"--event-log={log}", "--no-python", PYTHON, script, how],
                             capture_output=True, text=True, timeout=120,
                             env={**os.environ, "PYTHONPATH": str(ROOT / "bindings/python")})
        assert run.returncode == 124, (run.returncode, run.stdout, run.stderr)
        stall = [json.loads(line) for line in log.read_text().splitlines() if '"hung"' in line][0]["stall"]
        assert stall["code"] == code and stall["culprits"] == culprits, stall
        assert f"[{code} " in run.stderr and 8 <= stall["age_seconds"] < 30, run.stderr
        for rank in range(3):
            assert f"rank {rank} (pid " in run.stderr, run.stderr
        assert "rank 1 waits for something else than the others" in run.stderr, run.stderr
        if how == "plain":
            assert "ranks 0-2 show nothing of what" in run.stderr, run.stderr
        else:
            assert "5 heartbeats" in run.stderr, run.stderr
        stacks = {entry["rank"]: entry for entry in stall["stacks"]}
        if shutil.which("py-spy"):
            assert stacks[1]["source"] == "py-spy", stacks[1]
            assert "rank 1: load_batch (train.py:" in run.stderr, run.stderr
        else:
            assert any("py-spy: not found" in reason for reason in stacks[1]["missing"]), stacks[1]
        print(f"{how}: {code}, culprits {culprits}, stacks by {stacks[1]['source'] or 'nothing'}")
