#!/usr/bin/env python3
"""Compares a worker's environment under torchrun and under ddplaunch by that name, for each set of options.

    torchrun_environment.py BIN_DIR [--all | --record]

For each rank, it compares the variables that the launcher adds or changes, and the script's arguments, with the values
of torchrun 2.13 in torchrun_environment.json. --record writes that file. If there is a Python environment "pytorch"
(support/environments.py), its torchrun is asked for every third option set, or for all with --all, because each run
takes seconds. DIFFERENCES lists the intended differences. Any other difference is a failure, and so is a row that no set of
options needs.
"""
import concurrent.futures
import dataclasses
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
import environments  # noqa: E402  (it is in another folder)
from ports import free_port  # noqa: E402

HERE = pathlib.Path(__file__).resolve().parent
RECORD = HERE / "torchrun_environment.json"
TORCHRUN = environments.find("pytorch")
PYTHON = TORCHRUN or environments.DEBIAN

SCRIPT = """#!/usr/bin/env python3
import json, os, sys
attempt = os.environ["TORCHELASTIC_RESTART_COUNT"]
files = [os.path.join(os.environ["DUMP"], f"{rank}.{attempt}") for rank in range(int(os.environ["WORLD_SIZE"]))]
own = files[int(os.environ["RANK"])]
with open(own + ".part", "w") as file:
    json.dump({"environment": dict(os.environ), "arguments": sys.argv[1:]}, file)
os.rename(own + ".part", own)
if os.environ.get("FAIL_AT") == attempt:
    # Not before the others have written theirs: they are killed as soon as one has failed.
    while not all(os.path.exists(file) for file in files):
        pass
    sys.exit(1)
"""


@dataclasses.dataclass(frozen=True)
class Case:
    """Describes a command line. {port} is a free port, {log} a folder, {script} the program. If {script} is missing,
    the path of dump.py is appended, except with -m."""
    options: str
    environment: dict = dataclasses.field(default_factory=dict)
    arguments: tuple = ("--epochs=3",)
    launch: bool = False  # python -m torch.distributed.launch
    cpus: int = 0  # number of CPUs to run on; 0 means all

    def name(self) -> str:
        variables = " ".join(f"{name}={value}" for name, value in self.environment.items())
        program = "launch" if self.launch else "torchrun"
        arguments = "" if self.arguments == ("--epochs=3",) else " : " + " ".join(self.arguments)
        return f"{variables} {program} {self.options}{arguments}".strip()


CASES = [
    Case(""),
    Case("--nproc-per-node=2"),
    Case("--nproc_per_node 3 --nnodes=1:1 --node-rank=0"),
    Case("--nproc-per-node=cpu", cpus=2),
    Case("--standalone --nproc-per-node=2"),
    Case("--standalone --rdzv-id=job7"),
    Case("--rdzv-id=job7"),
    Case("--master-port={port}"),
    Case("--master-addr=127.0.0.1"),
    Case("--rdzv-backend=static --master-addr=localhost --master-port={port} --nproc-per-node=2"),
    Case("--rdzv-backend=static --rdzv-endpoint=localhost:{port}"),
    Case("--rdzv-endpoint=127.0.0.1:{port} --rdzv-id=job7"),
    Case("--rdzv-backend=c10d --rdzv-endpoint=localhost:0 --nproc-per-node=2"),
    Case("--rdzv-backend=c10d --rdzv-endpoint=localhost:{port} --rdzv-id=job7"),
    Case("--rdzv-backend=c10d"),
    Case("--local-addr=127.0.0.1"),
    Case("--local-addr=127.0.0.1 --rdzv-backend=static --master-addr=localhost --master-port={port}"),
    Case("--local-addr=127.0.0.1 --rdzv-endpoint=localhost:{port}"),
    Case("--local-addr=127.0.0.1 --rdzv-backend=c10d --rdzv-endpoint=localhost:0"),
    Case("--role=trainer --nproc-per-node=2"),
    Case("--max-restarts=3 --monitor-interval=0.1 --start-method=fork"),
    Case("--max-restarts=2 --nproc-per-node=2 --monitor-interval=0.1", {"FAIL_AT": "0"}),
    Case("--virtual-local-rank --nproc-per-node=2"),
    Case("--virtual-local-rank --nproc-per-node=2", {"CUDA_VISIBLE_DEVICES": "4,7"}),
    Case("--nproc-per-node=2", {"CUDA_VISIBLE_DEVICES": "0,1", "OMP_NUM_THREADS": "3"}),
    Case("--nproc-per-node=2", {"TORCH_NCCL_ASYNC_ERROR_HANDLING": "0", "RANK": "9", "MASTER_ADDR": "nowhere"}),
    Case("", {"PET_NPROC_PER_NODE": "2", "PET_ROLE": "pet", "PET_MAX_RESTARTS": "1", "PET_STANDALONE": "1"}),
    Case("--nproc-per-node=1 --role=mine", {"PET_NPROC_PER_NODE": "2", "PET_ROLE": "pet"}),
    Case("--signals-to-handle=SIGTERM,SIGUSR1"),
    Case("--log-dir={log} --nproc-per-node=2"),
    Case("--log-dir={log} --tee=3 --rdzv-backend=c10d --rdzv-endpoint=localhost:0 --rdzv-id=job7 --nproc-per-node=2"),
    Case("--log-dir={log} -r 0:1,1:2 --nproc-per-node=2 --local-ranks-filter=0"),
    Case("--tee 3"),
    Case("-m dump"),
    Case("--no-python {script}"),
    Case("--run-path {script}"),
    Case("", arguments=("$local_rank", "--rank=${local_rank}", "$$HOME", "$other", "a b", "-m", "--nnodes=9")),
    Case("--nproc-per-node=2", launch=True),
    Case("--nproc-per-node=2 --use-env", launch=True),
]


@dataclasses.dataclass(frozen=True)
class Difference:
    """Describes an intended difference: `theirs` matches torchrun's whole value and `ours` ddplaunch's. None means
    that the variable is not set."""
    what: str
    theirs: str
    ours: str
    reason: str
    options: str = ".*"  # the options for which the difference is intended
    cpus: int = 1  # the difference needs at least this number of CPUs

    def explains(self, case: Case, what: str, theirs, ours) -> bool:
        def matches(pattern, value):
            return value is None if pattern is None else value is not None and re.fullmatch(pattern, value) is not None
        meant = what == self.what and re.fullmatch(self.options, case.options) is not None
        return meant and matches(self.theirs, theirs) and matches(self.ours, ours)


DIFFERENCES = [
    Difference("DDP_ATTEMPT", None, r"\d+", "ours: which attempt this is"),
    Difference("DDP_PAGE_FD", None, r"197", "ours: the status page"),
    Difference("DDP_RECORD_FD", None, r"196", "ours: the ring of records"),
    Difference("DDP_STATE_MEMORY", None, ".+", "ours: where programs keep their state for a restart"),
    Difference("TORCH_NCCL_ASYNC_ERROR_HANDLING", "1", "3",
               "a lost rank must not let the GPU change the state that is kept"),
    Difference("DDP_WATCHED", None, r"1", "ours: hangs end the job"),
    Difference("DDP_TORCH_FILE", None, ".+", "ours: where a PyTorch program shows its collectives"),
    Difference("PYTHONPATH", None, ".*/ddp_python:.*/ddp_python/modules", "ours: the folders of what does so, and of ddp_page"),
    Difference("DDP_LAST_FAILURE", None, ".+", "ours: why there was another attempt"),
    Difference("OMP_NUM_THREADS", "1", r"\d+", "CPUs divided by workers, where torchrun wastes all but one a worker",
               cpus=4),
    Difference("TORCHELASTIC_ERROR_FILE", r"<tmp>/torchelastic_<random>/<id>_<random>/(attempt_\d/\d/error.json)",
               r"<tmp>/ddp-run-<random>/attempt_\d_\d_error.json", "a temporary folder that does not stay behind"),
    Difference("TORCHELASTIC_RUN_ID", "<uuid>", "job7", "an id that was asked for is kept; torchrun drops it",
               options="--rdzv-id=job7"),
    Difference("MASTER_ADDR", "localhost", "127.0.0.1", "an address that was asked for is kept; torchrun drops it",
               options="--master-addr=127.0.0.1"),
    Difference("MASTER_PORT", "<a free port>", "<the port asked for>",
               "one store serves all; torchrun makes a second one for the workers", options=".*=c10d .*{port}.*"),
    Difference("arguments", ".*--local-rank=.*", ".*--local_rank=.*",
               "the spelling that torch.distributed.launch had before PyTorch 2; scripts of both ages take it"),
]


def normalised(variable: str, value: str, port: int, folder: pathlib.Path, run_id: str) -> str:
    """Returns the value without its random parts, and without parts that depend on the computer."""
    if variable == "MASTER_PORT":
        return "<the port asked for>" if value == str(port) else "<a free port>" if int(value) > 1023 else value
    value = value.replace(str(folder), "<tmp>")
    if variable == "TORCHELASTIC_ERROR_FILE":
        value = value.replace(f"/{run_id}_", "/<id>_")
        value = re.sub(r"(torchelastic_|ddp-run-|<id>_)[a-z0-9_]{8,12}/", r"\1<random>/", value)
    return re.sub(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", "<uuid>", value)


def run(case: Case, launcher: list) -> dict:
    """Returns the variables and arguments of every rank of every attempt, as "RANK.ATTEMPT" -> name -> value."""
    with tempfile.TemporaryDirectory() as temporary:
        folder = pathlib.Path(temporary)
        (folder / "dump").mkdir()
        script = folder / "dump.py"
        script.write_text(SCRIPT)
        script.chmod(0o755)
        port = free_port()
        base = {"PATH": f"{pathlib.Path(PYTHON).parent}:/usr/bin:/bin", "HOME": temporary, "TMPDIR": temporary,
                "LC_ALL": "C.UTF-8", "PYTHON_EXEC": PYTHON, "DUMP": str(folder / "dump"), **case.environment}
        options = case.options.format(port=port, log=folder / "log", script=script).split()
        if "-m" not in options and "{script}" not in case.options:
            options.append(str(script))
        cpus = sorted(os.sched_getaffinity(0))[:case.cpus or None]
        result = subprocess.run([*launcher, *options, *case.arguments], env=base, cwd=folder, text=True, timeout=100,
                                stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                                preexec_fn=lambda: os.sched_setaffinity(0, cpus))
        assert result.returncode == 0, f"{case.name()}: exit code {result.returncode}\n{result.stdout}"
        found = {}
        for file in sorted((folder / "dump").iterdir()):
            dump = json.loads(file.read_text())
            given = dump["environment"]
            found[file.name] = {name: normalised(name, value, port, folder, given["TORCHELASTIC_RUN_ID"])
                                for name, value in sorted(given.items()) if base.get(name) != value}
            found[file.name]["arguments"] = " ".join(dump["arguments"])
        return found


def of_torchrun(case: Case) -> dict:
    return run(case, [PYTHON, "-m", "torch.distributed.launch" if case.launch else "torch.distributed.run"])


def compare(case: Case, theirs: dict, ours: dict, needed: set) -> list:
    if sorted(theirs) != sorted(ours):
        return [f"{case.name()}: other ranks and attempts: torchrun {sorted(theirs)}, ours {sorted(ours)}"]
    problems = []
    for rank, what in ((rank, what) for rank in theirs for what in sorted(theirs[rank] | ours[rank])):
        pair = theirs[rank].get(what), ours[rank].get(what)
        if pair[0] == pair[1]:
            continue
        reasons = [difference for difference in DIFFERENCES if difference.explains(case, what, *pair)]
        needed.update(reasons)
        if not reasons:
            problems.append(f"{case.name()}: rank.attempt {rank}: {what}: torchrun {pair[0]!r}, ours {pair[1]!r}")
    return problems


def main() -> None:
    ddplaunch = pathlib.Path(sys.argv[1]).resolve() / "ddplaunch"
    if "--record" in sys.argv:
        record = {case.name(): of_torchrun(case) for case in CASES}
        RECORD.write_text(json.dumps(record, indent=1, sort_keys=True) + "\n")
        return
    record = json.loads(RECORD.read_text())
    asked = CASES[::1 if "--all" in sys.argv else 3] if TORCHRUN else []
    print(f"{len(asked)} of {len(CASES)} option sets are compared with torchrun itself, too")
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        live = dict(zip((case.name() for case in asked), pool.map(of_torchrun, asked)))
    problems = []
    needed = set()
    with tempfile.TemporaryDirectory() as folder:
        torchrun = pathlib.Path(folder) / "torchrun"
        torchrun.symlink_to(ddplaunch)
        for case in CASES:
            their = record[case.name()]
            ours = run(case, [ddplaunch, "launch"] if case.launch else [torchrun])
            problems += compare(case, their, ours, needed)
            if live.get(case.name(), their) != their:
                problems.append(f"{case.name()}: the record is out of date (--record): {live[case.name()]}")
    problems += [f"no option set needs this row: {row}" for row in DIFFERENCES
                 if row not in needed and len(os.sched_getaffinity(0)) >= row.cpus]
    print("\n".join(problems))
    assert not problems, f"{len(problems)} differences"
    print(f"{len(CASES)} option sets: the same, but for the {len(DIFFERENCES)} differences meant")


if __name__ == "__main__":
    main()
