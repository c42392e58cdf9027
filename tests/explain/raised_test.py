"""raised_test.py DDPLAUNCH: runs the programs in tests/explain/programs, which fail in known ways, and checks that
`ddplaunch explain` names the cause of each.

The first lines of a program say which row of src/launcher/start/causes it raises, with which versions of PyTorch, and with how
many ranks. Programs of one rank run plainly, and others under ddplaunch. To import PyTorch takes longer than all else, so
one process per version imports it and forks those of one rank, except those that must run alone.

    raised_test.py --fork FOLDER PROGRAM...    is such a process; it writes FOLDER/PROGRAM.log
"""
import atexit
import concurrent.futures
import importlib.util
import json
import os
import pathlib
import re
import signal
import subprocess
import sys
import tempfile
import types

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "support"))
import environments  # noqa: E402  (it is in another folder)

ENVIRONMENT_OF = {"1.13": "debian", "2.13": "pytorch"}
FRAMEWORKS = ("accelerate", "lightning", "transformers")
ROWS = ("programs", "data", "data_parallel", "communication", "clusters")
LIMIT = 120  # seconds for one program on a busy computer; they take less than ten
# These may be set where the tests are run, and would change what the programs print.
UNWANTED = re.compile(r"PET_|TORCH|DDP_|PYTHON|OMP_|SLURM_|ACCELERATE_|(MASTER|LOCAL|GROUP|ROLE)_|(RANK|WORLD_SIZE)$")


class Program:
    def __init__(self, path):
        self.path, self.name = path, path.stem
        lines = re.findall(r"^# (\w+): (.+)$", path.read_text(), re.MULTILINE)
        values = dict(lines)
        self.cause, self.versions, self.ranks = values["cause"], values["torch"].split(), int(values["ranks"])
        self.is_forked = self.ranks == 1 and "alone" not in values
        assert self.versions and set(self.versions) <= set(ENVIRONMENT_OF), f"{path}: {self.versions}"


def run_here(path, log):
    """Becomes the program, as if Python had started it, and exits. What Python prints at its end is printed, but it does
    not free its memory, which would take longer than most programs."""
    output = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644)
    os.dup2(output, 1)
    os.dup2(output, 2)
    signal.alarm(LIMIT)
    sys.argv = [path]
    program = types.ModuleType("__main__")
    program.__file__ = path
    sys.modules["__main__"] = program
    with open(path) as file:
        code = compile(file.read(), path, "exec")
    try:
        exec(code, program.__dict__)
    except SystemExit:
        pass
    except BaseException as error:
        # PyTorch changes the hook, so that it prints the rank.
        error = error.with_traceback(error.__traceback__.tb_next)  # without this function
        sys.excepthook(type(error), error, error.__traceback__)
    atexit._run_exitfuncs()
    sys.stdout.flush()
    os._exit(0)


def fork_all(folder, paths):
    """Runs the programs one after the other. Those that import a framework come last. PyTorch 2 imports much of itself
    when a program first needs it, so it is imported here."""
    for name in filter(importlib.util.find_spec, ("torch.distributed", "torch._dynamo")):
        importlib.import_module(name)
    texts = {path: pathlib.Path(path).read_text() for path in paths}
    used = {path: [name for name in FRAMEWORKS if f"import {name}" in text] for path, text in texts.items()}
    for path in sorted(paths, key=lambda path: used[path]):
        for name in used[path]:
            importlib.import_module(name)
        child = os.fork()
        if child == 0:
            run_here(path, os.path.join(folder, pathlib.Path(path).stem + ".log"))
        os.waitpid(child, 0)


def environment():
    variables = {name: value for name, value in os.environ.items() if not UNWANTED.match(name)}
    return {**variables, "OMP_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": "lo", "HF_HUB_OFFLINE": "1"}


def run(words, folder, log=None):
    output = open(log, "wb") if log else subprocess.DEVNULL
    return subprocess.run([str(word) for word in words], cwd=folder, env=environment(), stdin=subprocess.DEVNULL,
                          stdout=output, stderr=subprocess.STDOUT, timeout=3 * LIMIT, check=False).returncode


def start_all(ddplaunch, programs, folder):
    """Runs all programs, and returns the logs of each program and version."""
    tasks, logs = [], {}
    for version, name in ENVIRONMENT_OF.items():
        python = environments.find(name)
        if python is None:
            print(f"PyTorch {version} is not installed", flush=True)
            continue
        place = folder / name
        place.mkdir()
        forked = []
        for program in (each for each in programs if version in each.versions):
            log = place / (program.name + ".log")
            if program.is_forked:
                forked.append(program.path)
            elif program.ranks == 1:
                tasks.append(([python, program.path], place, log))
            else:
                log = place / program.name
                tasks.append(([ddplaunch, f"--nproc-per-node={program.ranks}", "--log-dir", log, python, program.path], place))
            logs[program, version] = log
        tasks.insert(0, ([python, __file__, "--fork", place, *forked], place))
    with concurrent.futures.ThreadPoolExecutor(3) as pool:
        list(pool.map(lambda task: run(*task), tasks))
    return logs


def named_by(ddplaunch, log):
    """Returns the cause that `ddplaunch explain` names. A rank that has waited in vain need not be the first that failed."""
    result = subprocess.run([ddplaunch, "explain", "--json", log], text=True, capture_output=True, check=False)
    if result.returncode not in (0, 1):
        return result.stderr.strip()
    answer = json.loads(result.stdout)
    if answer["failures"] or not answer["secondary"]:
        assert (result.returncode == 0) == (answer["cause"] is not None)
        return answer["cause"]
    return answer["secondary"][0]["cause"]


def text_of(log):
    files = [log] if log.is_file() else sorted(file for file in log.glob("**/*.log"))
    return "".join(file.read_text(errors="replace")[-3000:] for file in files)


def check_rows(programs):
    """Each row has a program that raises it, or a text that was taken from a source."""
    rows = [row for name in ROWS for row in
            re.findall(r'\.id = "([^"]+)"', (HERE.parents[1] / f"src/launcher/start/causes/causes_{name}.cpp").read_text())]
    known = [text["cause"] for file in sorted((HERE / "known").glob("*.json")) for text in json.loads(file.read_text())]
    raised = {program.cause for program in programs}
    assert rows and raised <= set(rows), f"no rows: {raised - set(rows)}"
    missing = set(rows) - raised - set(known)
    assert not missing, f"neither a program nor a text shows {sorted(missing)}"


def main():
    ddplaunch = pathlib.Path(sys.argv[1]).resolve()
    programs = [Program(path) for path in sorted((HERE / "programs").glob("*.py"))]
    check_rows(programs)
    with tempfile.TemporaryDirectory() as folder:
        logs = start_all(ddplaunch, programs, pathlib.Path(folder))
        if not logs:
            sys.exit(77)
        wrong = 0
        for (program, version), log in logs.items():
            named = named_by(ddplaunch, log)
            if named != program.cause:
                wrong += 1
                print(f"{program.name} with PyTorch {version}: {named} instead of {program.cause}\n{text_of(log)}")
    causes = {program.cause for program, _ in logs}
    print(f"{len(logs)} runs of {len(programs)} programs raise {len(causes)} causes; {wrong} are explained wrongly")
    assert wrong == 0


if __name__ == "__main__":
    if sys.argv[1] == "--fork":
        fork_all(sys.argv[2], sys.argv[3:])
    else:
        main()
