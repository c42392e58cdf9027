"""Runs the quick programs of torch_zoo under ddplaunch. PyTorch's flight recorder must record Gloo (2.12 or newer).

torch_recorder_test.py DDPLAUNCH. Uses the Python of the environment $DDP_NEW_TORCH if it is set, otherwise python3.
Skipped if its PyTorch is older. torch_zoo_table.py runs all programs.
"""
import os
import shutil
import subprocess
import sys

from torch_zoo_table import PROGRAMS, Judgement, environment_of, parts_of, run_by_launcher

python = os.environ["DDP_NEW_TORCH"] + "/bin/python3" if "DDP_NEW_TORCH" in os.environ else shutil.which("python3")
version = subprocess.run([python, "-c", "import torch; print(torch.__version__)"], capture_output=True, text=True).stdout.strip()
if not version or parts_of(version) < (2, 12):
    print(f"skipped: PyTorch is {version or 'missing'}, and 2.12 is the first to record what Gloo does. Name a newer one: DDP_NEW_TORCH")
    sys.exit(77)

places = shutil.which("py-spy", path=environment_of(python)["PATH"]) is not None
for program in PROGRAMS:
    if not program.quick:
        continue
    run = run_by_launcher(sys.argv[1], python, program, hang_timeout=6)
    wrong = Judgement(program, run, version, places).wrong
    print(f"{program.name}: exit code {run.code} after {run.seconds:.1f} s", flush=True)
    assert not wrong, f"{program.name}: {'; '.join(wrong)}\n{run.output}"
