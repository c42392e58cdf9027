#!/usr/bin/env python3
"""Tests training frameworks under ddplaunch. Each gives the same result as under PyTorch's own torchrun.

    frameworks_test.py NAME BIN_DIR       NAME: one of the keys of FRAMEWORKS

Each framework trains a tiny model with random weights on synthetic data, on two ranks with Gloo; nothing is downloaded.
The small scripts are in frameworks/. The frameworks are in the Python environments that scripts/environments makes. A test
is skipped (exit code 77) if its environment is missing.
"""
import hashlib
import os
import pathlib
import re
import signal
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
import environments  # noqa: E402
from stuck_program import run_to_end, stacks_of  # noqa: E402

SCRIPTS = pathlib.Path(__file__).resolve().parent / "frameworks"
# Limits operations that take ten seconds on an idle computer with two CPUs.
PATIENCE = 300
# These variables may be set where the tests are run, and they would change what is tested.
UNWANTED = re.compile(r"PET_|TORCH|DDP_|PYTHON|VIRTUAL_ENV|OMP_|ACCELERATE_|(MASTER|LOCAL|GROUP|ROLE)_|(RANK|WORLD_SIZE)$")
TRAINED = re.compile(r"trained: rank=(\d) world_size=(\d) attempt=(\d) resumed_at=(\d+) steps=(\d+) hash=(\w+)")
FAULT = "ValueError: the data of step 6 is gone in attempt 0"
TORCHRUN = ("-m", "torch.distributed.run")


class Bench:
    """Manages one framework's script, the programs that start it as they are in a user's PATH, and a folder for each
    run."""

    def __init__(self, name: str, bin_dir: pathlib.Path, folder: pathlib.Path) -> None:
        self.name, self.folder, self.runs = name, folder, 0
        self.script = str(SCRIPTS / f"{name}_train.py")
        self.python = environments.need("llama_factory" if name == "llama_factory" else "pytorch")
        prefix = pathlib.Path(self.python).parents[1]
        self.environment = {key: value for key, value in os.environ.items() if not UNWANTED.match(key)}
        self.environment |= {"OMP_NUM_THREADS": "1", "PYTHONWARNINGS": "ignore", "TMPDIR": str(folder), "HOME": str(folder),
                             "HF_HUB_OFFLINE": "1", "HF_HOME": str(folder / "hf"), "CUDA_VISIBLE_DEVICES": "",
                             "TOKENIZERS_PARALLELISM": "false"}
        programs = folder / "bin"
        programs.mkdir()
        for program in ("ddplaunch", "torchrun"):
            (programs / program).symlink_to(bin_dir / "ddplaunch")
        self.environment["VIRTUAL_ENV"] = str(prefix)
        self.environment["PATH"] = f"{programs}:{environments.path_with(self.python)}"

    def new_folder(self) -> pathlib.Path:
        self.runs += 1
        folder = self.folder / f"run{self.runs}"
        folder.mkdir()
        return folder

    def words(self, folder: pathlib.Path) -> list[str]:
        """Returns the script and its arguments."""
        return [self.script, f"--folder={folder}"]

    def run(self, *launcher: str, arguments: tuple = (), environment: dict | None = None,
            folder: pathlib.Path | None = None) -> subprocess.CompletedProcess:
        words = [*launcher, *self.words(folder or self.new_folder()), *arguments]
        result = run_to_end(words, PATIENCE, env=self.environment | (environment or {}))
        print(f"$ {' '.join(words)}\n{result.stdout}{result.stderr}-> exit code {result.returncode}", flush=True)
        return result

    def trains(self, *launcher: str, **how) -> str:
        """Trains with both ranks to the end, without a restart. Returns the hash of the parameters."""
        return self.trained(self.run(*launcher, **how))

    def trained(self, result: subprocess.CompletedProcess, attempt: int = 0, resumed_at: int = 0) -> str:
        assert result.returncode == 0, f"{self.name}: the job failed"
        lines = sorted(TRAINED.findall(result.stdout))
        wanted = [(str(rank), "2", str(attempt), str(resumed_at), "12") for rank in range(2)]
        assert [line[:-1] for line in lines] == wanted, f"{self.name}: wanted {wanted}, got {lines}"
        assert lines[0][-1] == lines[1][-1], f"{self.name}: the ranks have different parameters: {lines}"
        return lines[0][-1]

    def is_interrupted(self, number: signal.Signals, *launcher: str,
                       environment: dict | None = None) -> tuple[int, str, pathlib.Path]:
        """Sends the signal to the launcher after some steps. Returns the exit code, all output, and the run's folder."""
        folder = self.new_folder()
        words = [*launcher, *self.words(folder), "--steps=1000000"]
        log = folder / "output"
        # A test that runs in the background ignores SIGINT, and a launcher would inherit that.
        with open(log, "wb") as output, subprocess.Popen(
                words, env=self.environment | (environment or {}), stdout=output, stderr=output,
                preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL)) as process:
            try:
                deadline = time.monotonic() + PATIENCE
                while "step 10 is done" not in log.read_text(errors="replace"):
                    assert process.poll() is None and time.monotonic() < deadline, log.read_text(errors="replace")
                    time.sleep(0.02)
                process.send_signal(number)
                code = process.wait(PATIENCE)
            except BaseException:
                print(log.read_text(errors="replace"), stacks_of(process.pid), flush=True)
                process.kill()
                raise
        text = log.read_text(errors="replace")
        print(f"$ {' '.join(words)}  # and {number.name}\n{text}-> exit code {code}", flush=True)
        return code, text, folder


def fault_is_shown(result: subprocess.CompletedProcess) -> None:
    """The launcher names rank 1 and its exception. It does not quote the error of rank 0, which has merely lost a
    peer."""
    ours = [line for line in result.stderr.splitlines() if line.startswith("ddplaunch: ")]
    failed = [line for line in ours if " failed: " in line]
    assert failed and re.match(r"ddplaunch: error: rank 1 \(pid \d+\) failed: exit code 1", failed[0]), ours
    assert any(FAULT in line for line in ours), ours
    assert not any("Connection closed by peer" in line for line in ours), ours


FAILING = ("--failing-attempts=1",)


def trained_by_torchrun(bench: Bench) -> str:
    return bench.trains(bench.python, *TORCHRUN, "--nproc-per-node=2")


def resumed_by_torchrun(bench: Bench) -> str:
    """Trains to a failure, and again. The test does not let torchrun restart. With Gloo, a second attempt of torchrun
    2.13 finds the addresses of the first one in its store, and fails or hangs."""
    folder = bench.new_folder()
    assert bench.run(bench.python, *TORCHRUN, "--nproc-per-node=2", folder=folder, arguments=FAILING).returncode == 1
    return bench.trained(bench.run(bench.python, *TORCHRUN, "--nproc-per-node=2", folder=folder), resumed_at=4)


def check_common(bench: Bench, wanted: str) -> None:
    """Checks everything that holds for all frameworks whose script is started by a launcher. A training that fails and
    is resumed under ddplaunch, by the name of torchrun, gives the parameters `wanted`, which are torchrun's own."""
    for preload in ("off", "torch"):
        result = bench.run("torchrun", "--standalone", "--nproc_per_node", "2", "--max-restarts", "1", arguments=FAILING,
                           environment={"DDP_PRELOAD": preload})
        assert bench.trained(result, attempt=1, resumed_at=4) == wanted, preload
        fault_is_shown(result)
        assert "restart 1 of 1" in result.stderr, result.stderr
        assert ("workers are forked from pid" in result.stderr) == (preload == "torch"), result.stderr

    # The grace is long for slow computers; here a checkpoint takes milliseconds.
    code, text, folder = bench.is_interrupted(signal.SIGINT, "ddplaunch", "--nproc-per-node=2", "--grace=100", "--no-collapse")
    assert code == -signal.SIGINT, code
    assert text.count("interrupted: saved") == 2 and list(folder.glob("interrupted*")), text
    assert "ranks 0, 1 were terminated because of it (SIGINT, gone in" in text, "the workers did not end by SIGINT alone"


def check_accelerate(bench: Bench) -> None:
    reference = trained_by_torchrun(bench)
    check_common(bench, reference)
    accelerate = (bench.python, "-m", "accelerate.commands.launch")
    # `accelerate launch` starts one process per worker, so it leaves the environment of its rank unchanged.
    assert bench.trains("ddplaunch", "--nproc-per-node=2", *accelerate, "--cpu", "--num_processes=1") == reference
    # `accelerate launch` starts ddplaunch as it would start any program that is not a Python script.
    assert bench.trains(*accelerate, "--cpu", "--num_processes=1", "--no_python", "ddplaunch", "--nproc-per-node=2") == reference


def check_trainer(bench: Bench) -> None:
    check_common(bench, trained_by_torchrun(bench))
    # The script saves a checkpoint after SIGTERM, and ends.
    code, text, folder = bench.is_interrupted(signal.SIGTERM, "ddplaunch", "--nproc-per-node=2", "--grace=100")
    assert code == -signal.SIGTERM, code
    steps = {int(line[4]) for line in TRAINED.findall(text)}
    assert len(steps) == 1, text
    saved = max(folder.glob("checkpoint-*"), key=lambda path: int(path.name.rpartition("-")[2]))
    assert saved.name == f"checkpoint-{steps.pop()}" and (saved / "trainer_state.json").exists(), list(saved.iterdir())


def check_lightning(bench: Bench) -> None:
    check_common(bench, resumed_by_torchrun(bench))  # it begins an epoch again, and so trains differently
    # Lightning would start the second rank itself. Under a launcher with one worker it reports that this does not fit.
    failed = bench.run("ddplaunch", "--nproc-per-node=1")
    assert failed.returncode == 1
    report = re.search(r"^ddplaunch: .*ValueError: .*does not match the world size \(1\)", failed.stderr, re.MULTILINE)
    assert report, failed.stderr


def check_llama_factory(bench: Bench) -> None:
    """LLaMA-Factory has its own launcher, which calls `torchrun` from PATH, and it reads a file instead of options."""
    subprocess.run([bench.python, SCRIPTS / "llama_factory_files.py", bench.folder], env=bench.environment, check=True,
                   timeout=PATIENCE)
    environment = bench.environment | {"FORCE_TORCHRUN": "1", "NPROC_PER_NODE": "2"}
    theirs = bench.folder / "theirs"
    theirs.mkdir()
    (theirs / "torchrun").write_text(f'#!/bin/sh\nexec {bench.python} -m torch.distributed.run "$@"\n')
    (theirs / "torchrun").chmod(0o755)

    def train(*launcher: str, folder: pathlib.Path | None = None, **variables: str) -> tuple[subprocess.CompletedProcess, str]:
        """Returns the launcher's result, and the hash of the model that rank 0 has saved, or "" if it has saved
        none."""
        folder = folder or bench.new_folder()
        options = {"model_name_or_path": bench.folder / "model", "dataset_dir": bench.folder, "output_dir": folder / "out",
                   "stage": "pt", "do_train": "true", "finetuning_type": "full", "dataset": "rows", "cutoff_len": 16,
                   "overwrite_cache": "true", "per_device_train_batch_size": 4, "max_steps": 12, "save_steps": 4, "seed": 7,
                   "learning_rate": "1.0e-3", "use_cpu": "true", "report_to": "none", "disable_tqdm": "true",
                   # LLaMA-Factory 0.9 cannot load its optimizer's state on a CPU, because it calls the device cpu:0.
                   "save_only_model": "true"}
        (folder / "train.yaml").write_text("".join(f"{name}: {value}\n" for name, value in options.items()))
        words = [*launcher, str(folder / "train.yaml")]
        result = run_to_end(words, PATIENCE, env=environment | variables)
        print(f"$ {' '.join(words)}\n{result.stdout}{result.stderr}-> exit code {result.returncode}", flush=True)
        saved = folder / "out" / "model.safetensors"
        return result, hashlib.sha256(saved.read_bytes()).hexdigest() if saved.exists() else ""

    command = (bench.python, "-m", "llamafactory.cli", "train")
    fault = str(SCRIPTS / "llama_factory_fault")
    # LLaMA-Factory continues from the last checkpoint in its folder.
    folder, path = bench.new_folder(), f"{theirs}:{environment['PATH']}"
    assert train(*command, folder=folder, PATH=path, PYTHONPATH=fault)[0].returncode == 1
    reference, wanted = train(*command, folder=folder, PATH=path)
    assert reference.returncode == 0 and wanted, "torchrun itself cannot run this"
    for preload in ("off", "torch"):
        again, found = train(*command, PYTHONPATH=fault, MAX_RESTARTS="1", RDZV_ID="job", DDP_PRELOAD=preload)
        assert again.returncode == 0 and found == wanted, (preload, wanted, found)
        assert "world size: 2" in again.stdout + again.stderr
        assert "ddplaunch: 0." in again.stderr, "another torchrun was called"
        fault_is_shown(again)
        assert re.search(r"Loading model from \S+/checkpoint-4", again.stdout + again.stderr)
        assert ("workers are forked from pid" in again.stderr) == (preload == "torch"), again.stderr


FRAMEWORKS = {
    "accelerate": check_accelerate,
    "trainer": check_trainer,
    "lightning": check_lightning,
    "llama_factory": check_llama_factory,
}


def main() -> None:
    name, bin_dir = sys.argv[1:]
    with tempfile.TemporaryDirectory() as folder:
        FRAMEWORKS[name](Bench(name, pathlib.Path(bin_dir).resolve(), pathlib.Path(folder)))


if __name__ == "__main__":
    main()
