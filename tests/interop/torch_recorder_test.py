"""Runs the quick programs of torch_zoo under ddplaunch, with the PyTorch of the environment "pytorch", whose flight
recorder records Gloo.

torch_recorder_test.py DDPLAUNCH [all]. Without "all", every second of them runs, because importing PyTorch takes most of
the time. torch_zoo_table.py runs the other programs, too.
"""
import concurrent.futures
import pathlib
import shutil
import sys

from torch_zoo_table import PROGRAMS, Judgement, environment_of, run_by_launcher, version_of

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
import environments  # noqa: E402  (it is in another folder)

python = environments.need("pytorch")
version = version_of(python)
places = shutil.which("py-spy", path=environment_of(python)["PATH"]) is not None
quick = [program for program in PROGRAMS if program.quick][::1 if sys.argv[2:] == ["all"] else 2]
with concurrent.futures.ThreadPoolExecutor(3) as pool:  # a program waits most of the time
    runs = list(pool.map(lambda program: run_by_launcher(sys.argv[1], python, program, hang_timeout=6), quick))
for program, run in zip(quick, runs):
    wrong = Judgement(program, run, version, places).wrong
    print(f"{program.name}: exit code {run.code} after {run.seconds:.1f} s", flush=True)
    assert not wrong, f"{program.name}: {'; '.join(wrong)}\n{run.output}"
