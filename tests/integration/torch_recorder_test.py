"""torch_recorder_test.py DDPLAUNCH: checks what ddplaunch reports of plain PyTorch programs through PyTorch's flight
recorder.

PyTorch is a fake in Python (tests/support/fake_torch). The file interop/torch_recorder_test.py tests the real one.
"""
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import time

DDPLAUNCH = sys.argv[1]
FAKE_TORCH = pathlib.Path(__file__).resolve().parent.parent / "support" / "fake_torch"
PROGRAM = """
import os, signal, subprocess, sys, time
import torch.distributed as dist
dist.init_process_group("gloo")
rank = int(os.environ["RANK"])
for _ in range(5):
    dist.all_reduce(4)
"""


# Users put such commands before their script. The last one passes only the three standard descriptors to the program.
WRAPPERS = {
    "python": [sys.executable, "-u"],
    "sh": ["sh", "-c", 'python3 -u "$0"; exit $?'],
    "conda": [sys.executable, "{folder}/conda"],
}


def start(folder, program, *options, wrapper=(), **variables):
    script = folder / "program.py"
    script.write_text(PROGRAM + program)
    meeting = folder / "meeting"
    meeting.mkdir()
    user = folder / "user"
    user.mkdir()
    (user / "sitecustomize.py").write_text("import os\nos.environ['THEIRS_RAN'] = 'yes'\n")
    (folder / "conda").write_text("import subprocess, sys\nsys.exit(subprocess.call([sys.executable, *sys.argv[1:]]))\n")
    command = [word.format(folder=folder) for word in wrapper] + [str(script)]
    environment = {**os.environ, "PYTHONPATH": f"{FAKE_TORCH}:{user}", "MEETING": str(meeting), **variables}
    return subprocess.Popen([DDPLAUNCH, "--nproc-per-node=2", "--no-tag", *options, *command], env=environment, text=True,
                            stdout=subprocess.PIPE, stderr=subprocess.STDOUT)


def run(name, expected, program, *options, says=(), never=(), meanwhile=None, **variables):
    with tempfile.TemporaryDirectory() as folder:
        logs = pathlib.Path(folder) / "logs"
        job = start(pathlib.Path(folder), program, "--log-dir", str(logs), *options, **variables)
        if meanwhile is not None:
            meanwhile(job.pid, pathlib.Path(folder))
        output = job.communicate(timeout=120)[0]
        left = list(logs.glob("**/torch*"))
        assert not left, f"{name}: {left} are left"
    assert job.returncode == expected, f"{name}: exit code {job.returncode}\n{output}"
    for words in says:
        assert words in output, f"{name}: does not say {words!r}\n{output}"
    for words in never:
        assert words not in output, f"{name}: says {words!r}\n{output}"
    print(f"{name}: ok", flush=True)


def is_below(pid, ancestor):
    while pid > 1 and pid != ancestor:
        try:
            pid = int(pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
        except OSError:
            return False
    return pid == ancestor


def reader_of(launcher):
    """Returns the pid of the launcher's ddp_torch_reader, once it runs."""
    deadline = time.monotonic() + 20
    while time.monotonic() < deadline:
        found = subprocess.run(["pgrep", "-f", "/ddp_torch_reader /"], capture_output=True, text=True).stdout
        for pid in map(int, found.split()):
            if is_below(pid, launcher):
                return pid
        time.sleep(0.05)
    raise AssertionError("ddp_torch_reader was not started")


def kill_reader(launcher, folder):
    reader = reader_of(launcher)
    time.sleep(2)  # so that it reports the rank that waits
    os.kill(reader, signal.SIGKILL)
    (folder / "reader_is_dead").touch()


CHILD = "import os, sys; print('child', os.environ.get('PYTHONPATH'), 'sitecustomize' in sys.modules)"

run("a rank that does not call is named, and ends the job at the user's limit", 124,
    "if rank == 1: time.sleep(3600)\ndist.all_reduce(8)", "--hang-timeout=8",
    says=["rank 1 has not called all_reduce f32[8] (#6 of world), in which rank 0 waits  [DDP-H03 not called]",
          "last call: all_reduce f32[4] #5, finished"])
run("ranks that call different things are named, and end the job at once", 124,
    "dist.broadcast(8) if rank == 1 else dist.all_reduce(8)\ntime.sleep(3600)", FAKE_TORCH="stuck",
    says=["as #6 of world  [DDP-H04 different collective]", "broadcast f32[8]"])
with tempfile.TemporaryDirectory() as parent:
    deep = pathlib.Path(parent, 99 * "x")
    deep.mkdir()
    run("a long TMPDIR changes nothing, and PyTorch's socket is private with --log-dir", 124,
        "assert os.stat(os.path.dirname(os.environ['DDP_TORCH_FILE'])).st_mode & 0o777 == 0o700\n"
        "dist.broadcast(8) if rank == 1 else dist.all_reduce(8)\ntime.sleep(3600)", TMPDIR=str(deep),
        FAKE_TORCH="stuck", says=["[DDP-H04 different collective]"])
run("a healthy program is left alone, its children are as without ddplaunch, and a hidden sitecustomize runs", 0,
    f"time.sleep(3)\ndist.all_reduce(8)\nsubprocess.run([sys.executable, '-c', {CHILD!r}], check=True)\n"
    "print(os.environ['THEIRS_RAN'], any(path.endswith('ddp_python') for path in sys.path))",
    says=["yes False", f"child {FAKE_TORCH}:"], never=["DDP-H", "ddp_python:"])
run("an older version that records nothing runs as without, and no file of it is left", 0,
    "time.sleep(3)\ndist.all_reduce(8)\nprint(os.listdir(os.path.dirname(os.environ['DDP_TORCH_FILE'])))",
    FAKE_TORCH="old", says=["torch.unrecorded"], never=["DDP-H", "torch.groups"])
run("a program ends although PyTorch's server has not begun to serve", 0, "print('ends')", says=["ends"],
    FAKE_TORCH="late_server")
run("a program fails although PyTorch's server has not begun to serve", 1, "raise ValueError('no label')",
    says=["ValueError: no label"], FAKE_TORCH="late_server")
# The client sends half of a request.
SLOW_CLIENT = """
import socket
client = socket.socket(socket.AF_UNIX)
client.connect(os.environ["DDP_TORCH_FILE"] + ".sock")
client.sendall(b"POST /handler/ping HTTP/1.1\\r\\n")
"""
run("a slow client of PyTorch's server delays no end", 0, SLOW_CLIENT, never=["DDP-H"])
run("a program whose PyTorch has no server goes on, and ddplaunch says so once", 0, "dist.all_reduce(8)\nprint('ends')",
    says=["ends", "warning: cannot observe the collectives of rank ",
          "so hangs in it may not be detected: RuntimeError: Error binding to /"], never=["Traceback"],
    FAKE_TORCH="no_server")
# A daemon closes all descriptors and opens its own. Then it makes a group.
DAEMON = """
os.closerange(3, 100)
files = [open(os.environ["MEETING"] + f"/theirs.{rank}.{i}", "w+") for i in range(20)]
dist.new_group([0, 1])
assert not any(os.fstat(file.fileno()).st_size for file in files)
"""
run("no descriptor of the program is written to", 0, DAEMON)
run("a program runs in a directory that does not exist any more", 0,
    "print(os.environ['THEIRS_RAN'], any(path.endswith('ddp_python') for path in sys.path))", says=["yes False"],
    never=["sitecustomize"], wrapper=["sh", "-c", 'd=$(mktemp -d); cd $d; rmdir $d; exec python3 "$0"'])
run("signals go to the program's threads only", 0,
    "tasks = [open(f'/proc/self/task/{task}/status').read() for task in os.listdir('/proc/self/task')]\n"
    "blocked = [task for task in tasks if 'SigBlk:\\t0000000000000000' not in task]\nprint(len(blocked), 'threads block')",
    says=["1 threads block"])
for name, variables in {"has no buffer": {"TORCH_FR_BUFFER_SIZE": "0"}, "is 2.5": {"FAKE_TORCH": "2.5"}}.items():
    run(f"a PyTorch that {name} records nothing", 0,
        "time.sleep(2)\nprint(os.listdir(os.path.dirname(os.environ['DDP_TORCH_FILE'])))",
        says=["torch.unrecorded"], never=["DDP-H", "torch.groups"], **variables)
run("it can be turned off", 0, "print(os.environ.get('DDP_TORCH_FILE'), os.environ['PYTHONPATH'])", DDP_TORCH="0",
    says=[f"None {FAKE_TORCH}:", "ddp_python/modules"], never=["ddp_python:"])
STEPS = """
import torch.compiler, torch.cuda, torch.optim.optimizer
dist.new_group([0, 1])
optimizers = [torch.optim.optimizer.Optimizer() for _ in range(2)]
import ddp_page

def steps():
    for optimizer in optimizers:
        optimizer.step()
    return ddp_page._mine().u64[ddp_page._PAGE_AT_OPTIMIZER_STEPS]

deadline = time.monotonic() + 20
while steps() == 0 and time.monotonic() < deadline:
    time.sleep(0.1)
before = steps()
assert steps() == before + 1
torch.compiler.is_on = True
assert steps() == before + 1
torch.compiler.is_on = False
child = os.fork()
if child == 0:
    steps()
    os._exit(0)
os.waitpid(child, 0)
assert steps() == before + 2
graph = torch.cuda.CUDAGraph()
graph.capture_begin()
assert steps() == 0
graph.capture_end()
assert steps() == 0
print("all counted")
"""
run("steps of optimizers are counted, except in what is compiled or captured", 0, STEPS, says=["all counted"])
# The reader's last report shows a rank that waits. It soon becomes too old to count. The program then computes for
# longer than the limit.
COMPUTES = """
while rank == 1 and not os.path.exists(os.environ["MEETING"] + "/../reader_is_dead"):
    time.sleep(0.05)
dist.all_reduce(8)
end = time.monotonic() + 14
while time.monotonic() < end:
    sum(range(100000))
    time.sleep(0.01)
"""
run("the death of the reader ends no job", 0, COMPUTES, "--hang-timeout=12", meanwhile=kill_reader, never=["error:"])
run("the rank that raised first is to blame, however long it takes to end", 1,
    "import atexit\nif rank == 1:\n    atexit.register(time.sleep, 60)\n    raise ValueError('no label')\n"
    "time.sleep(2)\nraise TimeoutError('waited too long')",
    says=["error: rank 1 (pid ", ") failed with an error", "its error:\nddplaunch:   | ValueError: no label\n",
          "program.py:11 in <module>"])
run("a lost connection is no cause, the only earlier end with 0 is, and the traceback is printed once", 124,
    "if rank == 1: sys.exit(0)\ntime.sleep(1)\n"
    "raise RuntimeError('[gloo/transport/tcp/pair.cc:1] Connection closed by ' + 'peer')", DDP_TORCH="0",
    says=["rank 1 has exited, and rank 0 waits for it  [DDP-H01 ended]", "rank 0 failed because of it: exit code 1"],
    never=["ddplaunch:   |   File"])
for wrapper, words in WRAPPERS.items():
    run(f"behind {wrapper} a program hangs as without", 124,
        "print('unbuffered')\nif rank == 1: time.sleep(3600)\ndist.all_reduce(8)", "--hang-timeout=8", wrapper=words,
        says=["unbuffered", "rank 1 has not called all_reduce f32[8] (#6 of world), in which rank 0 waits  [DDP-H03"])
    run(f"behind {wrapper} a program fails as without", 1,
        "if rank == 1: raise ValueError('no label')\ntime.sleep(3600)", wrapper=words,
        says=["rank 1 (pid ", "ddplaunch:   | ValueError: no label", "program.py:8 in <module>"])
