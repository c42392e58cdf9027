#!/usr/bin/env python3
"""Starts a PyTorch training script under ddplaunch in all ways that users of torchrun know.

    torch_train_test.py GROUP BIN_DIR ENVIRONMENT       GROUP: one of the keys of GROUPS

Runs with the Python of the environment (support/environments.py). Exits with 77 if it is missing.
"""
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
import environments  # noqa: E402
from stuck_program import run_to_end  # noqa: E402

SCRIPT = pathlib.Path(__file__).resolve().with_name("torch_train.py")
PYTHON = environments.need(sys.argv[3])
# These variables may be set in the environment of the tests, and would change what is tested.
UNWANTED = re.compile(r"PET_|TORCH|DDP_|PYTHON|VIRTUAL_ENV|OMP_|(MASTER|LOCAL|GROUP|ROLE)_|(RANK|WORLD_SIZE)$")


class Launcher:
    """Provides the programs ddplaunch and torchrun in PATH, where a user has them."""

    def __init__(self, binary: pathlib.Path, folder: pathlib.Path) -> None:
        self.folder = folder
        bin_dir = folder / "bin"
        bin_dir.mkdir()
        for name in ("ddplaunch", "torchrun"):
            (bin_dir / name).symlink_to(binary)
        self.environment = {name: value for name, value in os.environ.items() if not UNWANTED.match(name)}
        self.environment |= {"OMP_NUM_THREADS": "1", "PYTHONWARNINGS": "ignore", "TMPDIR": str(folder)}
        path = [str(bin_dir), self.environment.get("PATH", "/usr/bin:/bin")]
        # The environment is like the one of a user's shell: with an activated virtual environment, or with python3 in
        # PATH.
        prefix = pathlib.Path(PYTHON).parent.parent
        if (prefix / "pyvenv.cfg").exists():
            self.environment["VIRTUAL_ENV"] = str(prefix)
        else:
            path.insert(1, str(pathlib.Path(PYTHON).parent))
        self.environment["PATH"] = ":".join(path)

    def run(self, *words, environment=None, cwd=None) -> subprocess.CompletedProcess:
        words = [str(word) for word in words]
        result = run_to_end(words, 120, env=self.environment | (environment or {}), cwd=cwd)
        print(f"$ {' '.join(words)}\n{result.stdout}{result.stderr}-> exit code {result.returncode}", flush=True)
        return result

    def trains(self, *words, workers=2, attempt=0, local_rank_argument=False, **how) -> subprocess.CompletedProcess:
        result = self.run(*words, **how)
        assert result.returncode == 0, "the job failed"
        argument = " local_rank=0" if local_rank_argument else ""
        lines = re.findall(r"^(?:\[[^]]*\]:? ?)?(trained: .*?) python=(.*)$", result.stdout, re.MULTILINE)
        wanted = f"trained: world_size={workers} attempt={attempt}{argument}"
        assert [line for line, _ in lines] == [wanted], f"wanted one line '{wanted}', got {lines}"
        prefix = pathlib.Path(lines[0][1]).parent
        assert prefix == pathlib.Path(PYTHON).parent, f"the script ran under {lines[0][1]}, not {PYTHON}"
        return result


def under_ddplaunch(launcher: Launcher) -> None:
    launcher.trains("ddplaunch", "--nproc_per_node=2", SCRIPT)
    launcher.trains("ddplaunch", "--nproc-per-node", "2", "-q", "--", SCRIPT)
    launcher.trains("ddplaunch", "--nproc-per-node=1", SCRIPT, workers=1)
    launcher.trains("ddplaunch", "--nproc-per-node=2", "--no-python", PYTHON, SCRIPT)
    # This works with the Python of Debian and with a current one. Only PYTHON_EXEC names the Python.
    launcher.trains("ddplaunch", "--nproc-per-node=2", "-m", "torch_train", cwd=SCRIPT.parent,
                    environment={"PYTHON_EXEC": PYTHON, "VIRTUAL_ENV": "/nonexistent"})


def under_torchrun(launcher: Launcher) -> None:
    launcher.trains("torchrun", "--nproc_per_node=2", SCRIPT)
    launcher.trains("torchrun", "--standalone", "--nproc-per-node=2", SCRIPT)
    launcher.trains("torchrun", "--nproc-per-node=2", "-m", "torch_train", cwd=SCRIPT.parent)
    launcher.trains("torchrun", "--rdzv-backend=c10d", "--rdzv-endpoint=localhost:0", "--nproc-per-node=2", SCRIPT)
    launcher.trains("torchrun", SCRIPT, environment={"PET_NPROC_PER_NODE": "2"})
    launcher.trains("torchrun", SCRIPT, workers=1)


def under_torchrun_called_by_a_program(launcher: Launcher) -> None:
    program = "import subprocess, sys; sys.exit(subprocess.run(['torchrun', *sys.argv[1:]]).returncode)"
    launcher.trains(PYTHON, "-c", program, "--nproc_per_node=2", SCRIPT)
    failed = launcher.run(PYTHON, "-c", program, "--nproc_per_node=2", SCRIPT, "--failing-attempts=1", "--exit-code=17")
    assert failed.returncode == 17


def as_torch_distributed_launch(launcher: Launcher) -> None:
    launcher.trains("ddplaunch", "launch", "--nproc_per_node=2", SCRIPT, local_rank_argument=True)
    launcher.trains("ddplaunch", "launch", "--nproc_per_node=2", "--use-env", SCRIPT)
    launcher.trains("ddplaunch", "launch", "--nproc_per_node=2", "--use_env", "-m", "torch_train", cwd=SCRIPT.parent)


def with_restarts(launcher: Launcher) -> None:
    for name in ("ddplaunch", "torchrun"):
        result = launcher.trains(name, "--nproc_per_node=2", "--max-restarts=2", SCRIPT, "--failing-attempts=1", attempt=1)
        assert "ValueError: the data of attempt 0 is gone" in result.stderr, "the failure of attempt 0 is not told"
        assert "restart 1 of 2" in result.stderr


def with_recorded_errors(launcher: Launcher) -> None:
    """The launcher shows the error.json of the failing rank in its summary, and passes it on to its own launcher."""
    file = launcher.folder / "error.json"
    summary = launcher.folder / "summary.json"
    failed = launcher.run("torchrun", "--nproc_per_node=2", f"--summary={summary}", SCRIPT, "--failing-attempts=1",
                          environment={"TORCHELASTIC_ERROR_FILE": str(file)})
    assert failed.returncode == 1, "Python ends with 1 after an exception"
    ours = [line for line in failed.stderr.splitlines() if line.startswith("ddplaunch: ")]
    assert any(re.match(r"ddplaunch: error: rank 1 \(pid \d+\) failed: ", line) for line in ours), ours
    # The error comes from error.json, or from Python's output if both have the same text. PyTorch 2 and newer print
    # "[rank1]: " before it.
    expected = re.compile(r"ddplaunch:   \| (\[rank1\]: )?ValueError: the data of attempt 0 is gone")
    assert any(expected.fullmatch(line) for line in ours), ours
    assert json.loads(summary.read_text())["cause"]["error"] == "ValueError: the data of attempt 0 is gone"
    handed_on = json.loads(file.read_text())
    assert "ValueError: the data of attempt 0 is gone" in handed_on["message"]["message"], handed_on

    # record() writes nothing about a deliberate exit, so only the exit code is known.
    file.unlink()
    failed = launcher.run("ddplaunch", "--nproc_per_node=2", SCRIPT, "--failing-attempts=1", "--exit-code=17")
    assert failed.returncode == 17
    assert re.search(r"^ddplaunch: error: rank 1 \(pid \d+\) failed: .*17", failed.stderr, re.MULTILINE)


GROUPS = {
    "ddplaunch": under_ddplaunch,
    "torchrun": under_torchrun,
    "subprocess": under_torchrun_called_by_a_program,
    "launch": as_torch_distributed_launch,
    "restarts": with_restarts,
    "record": with_recorded_errors,
}


def main() -> None:
    group, bin_dir = sys.argv[1:3]
    with tempfile.TemporaryDirectory() as folder:
        GROUPS[group](Launcher(pathlib.Path(bin_dir).resolve() / "ddplaunch", pathlib.Path(folder)))


if __name__ == "__main__":
    main()
