"""The programs of torch_scripts.py under ddplaunch, with a PyTorch whose flight recorder records Gloo (2.13 or newer).

torch_recorder_test.py DDPLAUNCH. Its Python is that of $DDP_NEW_TORCH, an environment, else python3's. Skipped if its
PyTorch is older.
"""
import os
import pathlib
import subprocess
import sys
import time

DDPLAUNCH = sys.argv[1]
SCRIPT = pathlib.Path(__file__).resolve().parent / "torch_scripts.py"
# What the launcher says of each, and the exit code.
HANGS = {
    "spins": (124, "rank 1 has not called all_reduce f32[1024] (#21 of world), in which rank 0 waits  [DDP-H03"),
    "sleeps": (124, "rank 1 has not called broadcast f32[1024] (#21 of world), in which rank 0 waits  [DDP-H03"),
    "waits_for_a_lock": (124, "rank 1 has not called barrier (#21 of world), in which rank 0 waits  [DDP-H03"),
    "calls_another": (124, "ranks 0, 1 called different collectives as #21 of world  [DDP-H04"),
    "rank_zero_alone_in_a_barrier": (124, "rank 1 has not called barrier (#21 of world), in which rank 0 waits  [DDP-H03"),
    "skips_a_step_of_ddp": (124, "rank 1 has not called all_reduce f32[72] ("),
    "skips_in_a_subgroup": (124, "rank 0 has not called all_reduce f32[1024] (#2 of pair), in which rank 1 waits  [DDP-H03"),
}
HEALTHY = ["computes_alone", "overlaps", "has_all_kinds", "uses_groups_alone", "makes_groups_again", "ends_late",
           "leaves_at_once", "never_waits_for_the_last", "has_children", "joins", "has_threads"]

environment = dict(os.environ)
if "DDP_NEW_TORCH" in environment:
    environment["PATH"] = environment["DDP_NEW_TORCH"] + "/bin:" + environment["PATH"]
version = subprocess.run(["python3", "-c", "import torch; print(torch.__version__)"], env=environment, capture_output=True,
                         text=True).stdout.strip()
if not version or tuple(int(part) for part in version.split("+")[0].split(".")[:2]) < (2, 13):
    print(f"skipped: PyTorch is {version or 'missing'}, and 2.13 records what Gloo does. Name a newer one: DDP_NEW_TORCH")
    sys.exit(77)


def run(name, *options):
    begun = time.monotonic()
    job = subprocess.run([DDPLAUNCH, "--nproc-per-node=2", *options, str(SCRIPT), name], env=environment, text=True,
                         stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=120)
    print(f"{name}: exit code {job.returncode} after {time.monotonic() - begun:.1f} s", flush=True)
    return job


for name, (code, words) in HANGS.items():
    job = run(name, "--hang-timeout=8")
    assert job.returncode == code and words in job.stdout, job.stdout
for name in HEALTHY:
    job = run(name)
    assert job.returncode == 0 and "DDP-H" not in job.stdout, job.stdout
