#!/usr/bin/env python3
"""record_logs.py BIN_DIR healthy|tracebacks [PATTERN]: writes healthy.tar.xz or tracebacks.tar.xz for healthy_test.py.

It runs the programs of healthy_programs.py and failing_programs.py, the examples and tutorials of this project and the
frameworks of the tests under several launchers, and adds the texts of written_logs.py. It takes half an hour. With a
pattern, only the logs with such names are made again. Names of this computer are replaced. A log is kept only if its job
ended as it should.
"""
import io
import itertools
import json
import os
import pathlib
import re
import signal
import socket
import subprocess
import sys
import tarfile
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
sys.path[:0] = [str(HERE), str(HERE.parent / "support")]
import environments  # noqa: E402
import written_logs  # noqa: E402

BIN = pathlib.Path(sys.argv[1]).resolve()
PYTHON = environments.need("pytorch")
DEBIAN = "/usr/bin/python3"
DDPLAUNCH = [str(BIN / "ddplaunch"), "--nproc-per-node=2"]
TORCHRUN = ["-m", "torch.distributed.run", "--standalone", "--nproc_per_node=2"]
MPIRUN = ["mpirun", "--allow-run-as-root", "--oversubscribe", "-n", "2"]
MOST_BYTES = 6000

# By style: the command line for a Python program. FOLDER is replaced. srun, kubectl and Docker are imitated by the tags.
STYLES = {
    "torchrun": [PYTHON, *TORCHRUN],
    "torchrun-tee": [PYTHON, *TORCHRUN, "--tee=3", "--log_dir=FOLDER/logs"],
    "torchrun-files": [PYTHON, *TORCHRUN, "--redirects=3", "--log_dir=FOLDER/logs"],
    "debian": [*DDPLAUNCH, "-q", "--no-collapse", "--tag=[default${rank}]:", DEBIAN],  # PyTorch 1.13
    "ddplaunch": [*DDPLAUNCH, PYTHON],
    "ddplaunch-time": [*DDPLAUNCH, "--tag=${time} [${rank}] ", PYTHON],
    "ddplaunch-default": [*DDPLAUNCH, "--tag=[${role}${rank}]:", PYTHON],
    "srun": [*DDPLAUNCH, "-q", "--no-collapse", "--tag=${rank}: ", PYTHON],
    "kubectl": [*DDPLAUNCH, "-q", "--no-collapse", "--tag=[pod/job-worker-${rank}/pytorch] ", PYTHON],
    "docker": [*DDPLAUNCH, "-q", "--no-collapse", "--tag=worker-${rank}  | ", PYTHON],
    "mpirun": [*MPIRUN, "--tag-output", PYTHON],
    "mpirun-time": [*MPIRUN, "--timestamp-output", "--tag-output", PYTHON],
    "alone": [PYTHON],
}
# The rank of a failure is in the log of these, as a tag or in the launcher's summary.
SHOW_RANK = {"torchrun-tee", "ddplaunch", "ddplaunch-default", "ddplaunch-time", "srun", "kubectl", "docker", "mpirun",
             "torchrun", "debian"}
TORCH_SETTINGS = [{"TORCH_DISTRIBUTED_DEBUG": "INFO", "TORCH_CPP_LOG_LEVEL": "INFO"}, {"TORCH_DISTRIBUTED_DEBUG": "DETAIL"},
                  {"TORCH_CPP_LOG_LEVEL": "INFO", "TORCH_SHOW_CPP_STACKTRACES": "1"}, {"PYTHONWARNINGS": "always"}]
UNWANTED = re.compile(r"PET_|TORCH|DDP_|PYTHON|VIRTUAL_ENV|(MASTER|LOCAL|GROUP|ROLE)_|(RANK|WORLD_SIZE)$")


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return str(probe.getsockname()[1])


class Recorder:
    """Runs jobs, and keeps their logs."""

    def __init__(self, folder, logs, pattern):
        self.folder = pathlib.Path(folder)
        self.logs = logs
        self.pattern = pattern

    def run(self, name, words, code=0, environment=None):
        """Runs a job. Returns its log if it ended with this exit code; None means any code except 0."""
        folder = self.folder / f"run{len(list(self.folder.iterdir()))}"
        folder.mkdir()
        inherited = {key: value for key, value in os.environ.items() if not UNWANTED.match(key)}
        words = [word.replace("FOLDER", str(folder)) for word in words]
        job = subprocess.Popen(
            words, cwd=folder, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, start_new_session=True,
            env=inherited | {"PYTHONDONTWRITEBYTECODE": "1", "JOB_PORT": free_port(), "HF_HUB_OFFLINE": "1", "HOME": str(folder),
                             "CUDA_VISIBLE_DEVICES": "", "TOKENIZERS_PARALLELISM": "false"} | (environment or {}))
        try:
            output = job.communicate(timeout=120)[0]
        except subprocess.TimeoutExpired:
            os.killpg(job.pid, signal.SIGKILL)
            output, job.returncode = job.communicate()[0], 1000
        files = sorted((folder / "logs").rglob("*.log")) if (folder / "logs").exists() else []
        if "--redirects=3" in words:
            output += b"".join(file.read_bytes() for file in files)
        if job.returncode != code if code is not None else job.returncode in (0, 1000):
            print(f"left out, because of exit code {job.returncode}: {name}\n{output.decode(errors='replace')[-1500:]}", flush=True)
            return None
        return self.anonymous(output, folder)

    def keep(self, name, words, **how):
        if not re.search(self.pattern, name):
            return False
        # A rank of PyTorch 2.13 sometimes aborts in destroy_process_group() with Gloo.
        log = self.run(name, words, **how) or self.run(name, words, **how)
        if log is not None:
            self.logs[name] = shortened(log)
            print(len(self.logs), name, len(self.logs[name]), flush=True)
        return log is not None

    def anonymous(self, log, folder):
        for path, name in ((folder, "/tmp/job"), (self.folder, "/tmp"), (pathlib.Path(PYTHON).parents[1], "/home/user/env"),
                           (BIN, "/usr/bin"), (ROOT, "/home/user/project"), (pathlib.Path.home(), "/home/user")):
            log = log.replace(str(path).encode(), name.encode())
        log = re.sub(rb"/tmp/tmp\w+", b"/tmp/job", log)
        log = re.sub(rb"\b" + re.escape(socket.gethostname().encode()) + rb"\b", b"node-a", log)
        own = re.search(rb".*/(?:work|root)/.*", log)
        if own:
            raise RuntimeError(f"the log still contains a path of this computer: {own.group().decode(errors='replace')}")
        return log


def shortened(log):
    if len(log) <= MOST_BYTES:
        return log
    lines, size, first = log.split(b"\n"), 0, []
    for line in lines:
        size += len(line) + 1
        if size > MOST_BYTES // 2:
            break
        first.append(line)
    rest = b"\n".join(lines[len(first):])[-MOST_BYTES // 2:]
    return b"\n".join(first) + b"\n" + rest[rest.find(b"\n") + 1:]


def functions_of(file):
    return re.findall(r"^def (\w+)\(\):", (HERE / file).read_text(encoding="utf-8"), re.MULTILINE)


def record_programs(recorder):
    script = str(HERE / "healthy_programs.py")
    programs = [name for name in functions_of("healthy_programs.py") if name != "group" and not name.startswith("restarted")]
    styles = itertools.cycle(STYLES)
    for name in programs:
        for style in itertools.islice(styles, 5):
            recorder.keep(f"{name}-{style}", [*STYLES[style], script, name])
    for name in "restarted", "restarted_after_out_of_memory":
        for style in "torchrun", "torchrun-tee", "ddplaunch", "ddplaunch-time", "srun":
            words = STYLES[style]
            words = [*words[:3], "--max_restarts=1", *words[3:]] if style.startswith("torchrun") else [
                words[0], "--max-restarts=1", *words[1:]]
            recorder.keep(f"{name}-{style}", [*words, script, name])
    for i, environment in enumerate(TORCH_SETTINGS):
        # With DETAIL, a program of PyTorch 2.13 crashes when it ends.
        styles = ("debian",) if environment.get("TORCH_DISTRIBUTED_DEBUG") == "DETAIL" else ("torchrun", "ddplaunch")
        for name, style in itertools.product(("plain_ddp", "find_unused_parameters", "subgroups"), styles):
            recorder.keep(f"{name}-settings{i}-{style}", [*STYLES[style], script, name], environment=environment)


def titled_blocks(page):
    text = (ROOT / page).read_text(encoding="utf-8")
    return re.findall(r'^```\w+ title="([^"]+)"\n(.*?)^```', text, re.MULTILINE | re.DOTALL)


def record_project(recorder):
    """Records the examples and tutorials of this project."""
    text = "--text=/usr/share/common-licenses/GPL-3"
    examples = {"charlm": ["train_charlm", text, "--steps=30"], "charlm-one-bit": ["train_charlm", text, "--steps=20", "--hook=one-bit"],
                "torch-conv": ["train_torch", "conv"], "resume": ["elastic_resume", "--directory", "FOLDER"], "all-reduce": ["c_all_reduce"],
                **{f"uneven-{mode}": ["uneven_data", mode] for mode in ("pad", "drop", "join")},
                **{f"manual-{name}": [f"manual_{name}"] for name in ("data_parallel", "collectives", "readme", "uneven_data")}}
    for name, (program, *arguments) in examples.items():
        if (BIN / program).exists():
            words = [str(BIN / program), *arguments]
            recorder.keep(f"example-{name}", [*DDPLAUNCH, *words])
            recorder.keep(f"example-{name}-srun", [*DDPLAUNCH, "--verbose", "--no-collapse", "--tag=${rank}: ", *words])
    for page, name in (("docs/tutorials/pytorch.md", "train.py"), ("docs/how-to/common-mistakes.md", "train.py")):
        for title, block in titled_blocks(page):
            if title == name:
                script = recorder.folder / f"{pathlib.Path(page).stem}-{title}"
                script.write_text(block, encoding="utf-8")
                for style in "torchrun", "ddplaunch", "torchrun-tee":
                    recorder.keep(f"manual-{script.stem}-{style}", [*STYLES[style], str(script)])
    source = dict(titled_blocks("docs/tutorials/cpp.md"))["train.cpp"]
    program = recorder.folder / "tutorial.cpp"
    program.write_text(source, encoding="utf-8")
    built = subprocess.run(["g++", "-std=c++20", f"-I{ROOT}/include", "-o", str(program.with_suffix("")), str(program),
                            f"-L{BIN.parent}/lib", "-lddp_runtime", f"-Wl,-rpath,{BIN.parent}/lib"], check=False)
    if built.returncode == 0:
        for tag in "[${rank}] ", "${rank}: ", "${time} ${rank} ":
            recorder.keep(f"tutorial-cpp-{len(recorder.logs)}", [*DDPLAUNCH, f"--tag={tag}", str(program.with_suffix(""))])


def record_frameworks(recorder):
    scripts = HERE.parent / "interop/frameworks"
    for name in "accelerate", "trainer", "lightning":
        for style in "torchrun", "ddplaunch", "torchrun-tee", "torchrun-files":
            recorder.keep(f"framework-{name}-{style}", [*STYLES[style], str(scripts / f"{name}_train.py"), "--folder=FOLDER"])


def record_healthy(recorder):
    for name, log in written_logs.all_logs():
        recorder.logs[f"written-{name}"] = log.encode()
    record_project(recorder)
    record_frameworks(recorder)
    record_programs(recorder)
    # The first third is lost. What shows that the program went on is at the end.
    whole = {name: log for name, log in sorted(recorder.logs.items()) if not name.endswith("-cut")}
    parts = {f"{name}-cut": log[len(log) // 3:] for name, log in list(whole.items())[::30]}
    recorder.logs = whole | parts
    write("healthy.tar.xz", recorder.logs)


def record_tracebacks(recorder):
    from failing_programs import FAILURES
    script = str(HERE / "failing_programs.py")
    index = json.loads(recorder.logs.pop("index.json", "{}"))
    styles = itertools.cycle(style for style in STYLES if style not in ("torchrun-files", "mpirun-time"))
    for i, (name, message) in enumerate(FAILURES.items()):
        for style in itertools.islice(styles, 2):
            rank = 0 if style == "alone" else (i + len(index)) % 2
            log = f"{name}-{style}"
            if recorder.keep(log, [*STYLES[style], script, name], code=None, environment={"FAILING_RANK": str(rank)}):
                index[log] = {"rank": rank if style in SHOW_RANK and message else None, "message": message}
    for log in [log for log, wanted in sorted(index.items()) if wanted["message"] and not log.endswith("-cut")][::6][:10]:
        text = recorder.logs[log]
        begin = text.find(b"Traceback")
        recorder.logs[f"{log}-cut"] = text[:begin + 150] if begin > 0 else text[:len(text) // 2]
        index[f"{log}-cut"] = {"rank": None, "message": None}
    write("tracebacks.tar.xz", recorder.logs, index)


def write(archive, logs, index=None):
    files = {f"{name}.log": log for name, log in sorted(logs.items())}
    if index is not None:
        files["index.json"] = json.dumps(index, indent=1, ensure_ascii=False).encode()
    with tarfile.open(HERE / archive, "w:xz") as tar:
        for name, content in files.items():
            entry = tarfile.TarInfo(name)
            entry.size, entry.mode = len(content), 0o644
            tar.addfile(entry, io.BytesIO(content))
    print(f"{archive}: {len(logs)} logs, {sum(map(len, logs.values()))} bytes, {(HERE / archive).stat().st_size} packed")


def kept_logs(archive):
    if not archive.exists():
        return {}
    with tarfile.open(archive) as tar:
        return {entry.name.removesuffix(".log"): tar.extractfile(entry).read() for entry in tar}


def main():
    kind, pattern = sys.argv[2], "".join(sys.argv[3:])
    logs = kept_logs(HERE / f"{kind}.tar.xz") if pattern else {}
    with tempfile.TemporaryDirectory(prefix="logs-", ignore_cleanup_errors=True) as folder:
        {"healthy": record_healthy, "tracebacks": record_tracebacks}[kind](Recorder(folder, logs, pattern))


if __name__ == "__main__":
    main()
