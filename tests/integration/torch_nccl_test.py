"""torch_nccl_test.py DDPLAUNCH SPINNING_GPU [WORDS]: checks what ddplaunch reports of PyTorch programs on NCCL, and that it disturbs none.

The programs of an older PyTorch spin on a processor for seconds. They run if WORDS choose them, as do those that resemble
others. Empty WORDS choose all.

PyTorch and the GPU are fakes in Python (tests/support/fake_torch). They have the rules of the real ones: a query of an
event breaks the capture of a graph, and the recorder's handler refuses parameters that it does not know. SPINNING_GPU
is a library that waits as CUDA does. WORDS choose the programs whose names contain them.
"""
import concurrent.futures
import os
import pathlib
import subprocess
import sys
import tempfile
from typing import NamedTuple

DDPLAUNCH, SPINNING_GPU = sys.argv[1:3]
FAKE_TORCH = pathlib.Path(__file__).resolve().parent.parent / "support" / "fake_torch"
AT_ONCE = 5
IMPORTS = """
import os, subprocess, sys, threading, time
import torch.cuda as cuda
import torch.distributed as dist
rank = int(os.environ["RANK"])

def steps(number, group=None, pause=0.01):
    for _ in range(number):
        cuda.kernel(pause)
        dist.all_reduce(4, group)
        cuda.synchronize()

def hang():
    time.sleep(3600)

"""
INIT = 'dist.init_process_group("nccl")\n'


class Job(NamedTuple):
    name: str
    program: str
    says: tuple = ()  # what the launcher reports; empty for a healthy program
    ranks: int = 2
    options: tuple = ()
    code: int = 124
    init: str = INIT
    kind: str = ""  # FAKE_TORCH


# A PyTorch that records nothing spins until its GPU is done.
OLD = f"import ctypes\nwait = ctypes.CDLL({SPINNING_GPU!r}).cudaStreamSynchronize\nwait.argtypes = [ctypes.c_double]\n"


# These show what others show as well, in another program.
AT_NIGHT = {
    "two of four ranks sleep",
    "after hundreds of fast steps",
    "a rank gathers where the other reduces",
    "the second world",
    "a program that names no backend",
    "captures of four ranks",
    "a capture beside an idle group",
    "a capture before the first collective",
    "almost always in a capture",
    "a capture that fails to end, and a later one",
    "a long kernel of all ranks",
    "split groups",
    "sends between collectives",
    "a second world",
    "no backend named",
    "an end right after a step"}


def not_called(culprits, call, waiting, group="world"):
    verb = "has" if culprits.startswith("rank ") else "have"
    wait = "waits" if waiting.startswith("rank ") else "wait"
    return (f"{culprits} {verb} not called {call} of {group}), in which {waiting} {wait}  [DDP-H03",)


HANGS = [
    Job("a rank sleeps", "steps(5)\nif rank == 1: hang()\nsteps(1)",
        not_called("rank 1", "all_reduce f32[4] (#6", "rank 0")),
    Job("a rank spins in Python", "steps(5)\nwhile rank == 1: pass\nsteps(1)",
        not_called("rank 1", "all_reduce f32[4] (#6", "rank 0")),
    Job("a rank waits for its own lock", "steps(5)\nlock = threading.Lock()\nlock.acquire()\n"
        "if rank == 0: lock.acquire()\nsteps(1)", not_called("rank 0", "all_reduce f32[4] (#6", "rank 1")),
    Job("two of four ranks sleep", "steps(3)\nif rank in (1, 3): hang()\nsteps(1)",
        not_called("ranks 1, 3", "all_reduce f32[4] (#4", "ranks 0, 2"), ranks=4),
    Job("the first collective of the job", "if rank == 1: hang()\nsteps(1)",
        not_called("rank 1", "all_reduce f32[4] (#1", "rank 0")),
    Job("after hundreds of fast steps", "steps(300, pause=0)\nif rank == 1: hang()\nsteps(1)",
        not_called("rank 1", "all_reduce f32[4] (#301", "rank 0")),
    Job("the first barrier", "if rank == 1: hang()\ndist.barrier()", not_called("rank 1", "barrier (#1", "rank 0")),
    Job("a rank calls another collective", "steps(5)\ndist.broadcast(4) if rank == 1 else dist.all_reduce(4)\n"
        "cuda.synchronize()", ("as #6 of world  [DDP-H04 different collective]", "broadcast f32[4]")),
    Job("a rank gathers where the other reduces", "steps(5)\ndist.all_gather(4) if rank == 1 else dist.all_reduce(4)\n"
        "cuda.synchronize()", ("[DDP-H04 different collective]",)),
    Job("a rank reduces another number of elements", "steps(5)\ndist.all_reduce(8 if rank == 1 else 4)\n"
        "cuda.synchronize()", ("[DDP-H05 different arguments]", "all_reduce f32[8]")),
    Job("a rank has one batch less, and meets the others' step with its barrier",
        "steps(5 if rank == 2 else 6)\ndist.barrier()\nsteps(1)", ("rank 2 called barrier as #6 of world",), ranks=3),
    Job("a rank ends early", "steps(5)\nif rank == 1: sys.exit(0)\nsteps(1)",
        ("rank 1 has exited, and rank 0 waits in all_reduce f32[4] (#6 of world)  [DDP-H01",)),
    Job("a rank of a small group sleeps", "steps(2)\npair = dist.new_group([0, 2])\nother = dist.new_group([1, 3])\n"
        "steps(3, pair or other)\nif rank == 2: hang()\nsteps(1, pair or other)",
        not_called("rank 2", "all_reduce f32[4] (#4", "rank 0", "1"), ranks=4),
    Job("the first call on a small group", "steps(2)\npair = dist.new_group([0, 1])\nif rank == 1: hang()\n"
        "if rank == 0: steps(1, pair)\nhang()", not_called("rank 1", "all_reduce f32[4] (#1", "rank 0", "1"), ranks=3),
    Job("a group that was split from the world", "steps(2)\npair = dist.split_group([0, 1])\nsteps(3, pair)\n"
        "if rank == 1: hang()\nsteps(1, pair)", not_called("rank 1", "all_reduce f32[4] (#4", "rank 0", "1")),
    Job("a group that also sends", "for _ in range(4):\n    steps(1)\n    dist.send(1) if rank == 0 else dist.recv(0)\n"
        "cuda.synchronize()\nif rank == 1: hang()\nsteps(1)", not_called("rank 1", "all_reduce f32[4] (#5", "rank 0")),
    Job("the second world", "steps(5)\ndist.destroy_process_group()\ntime.sleep(0.2)\n"
        "dist.distributed_c10d.MEETING /= 'second'\ndist.distributed_c10d.MEETING.mkdir(exist_ok=True)\n"
        'dist.init_process_group("nccl")\nsteps(2)\nif rank == 1: hang()\nsteps(1)',
        not_called("rank 1", "all_reduce f32[4] (#3", "rank 0")),
    Job("a group of Gloo beside NCCL", 'steps(5)\nhost = dist.new_group([0, 1], "gloo")\ndist.all_reduce(2, host)\n'
        "if rank == 1: hang()\ndist.all_reduce(2, host)", not_called("rank 1", "all_reduce f32[2] (#2", "rank 0", "1")),
    Job("a program that names no backend", "steps(5)\nif rank == 1: hang()\nsteps(1)",
        not_called("rank 1", "all_reduce f32[4] (#6", "rank 0"), init="dist.init_process_group()\n"),
    Job("a PyTorch that records only NCCL", "steps(5)\nif rank == 1: hang()\nsteps(1)",
        not_called("rank 1", "all_reduce f32[4] (#6", "rank 0"), kind="no_gloo"),
    Job("a kernel that never ends", "steps(5)\nif rank == 1: cuda.kernel(3600)\nsteps(1)",
        ("all ranks are in all_reduce f32[4] (#6 of world), which makes no progress  [DDP-H07",)),
    Job("a rank sleeps after a graph", "steps(5)\ngraph = cuda.CUDAGraph()\nwith cuda.graph(graph): dist.all_reduce(4)\n"
        "graph.replay()\ncuda.synchronize()\nif rank == 1: hang()\nsteps(1)",
        not_called("rank 1", "all_reduce f32[4] (#7", "rank 0")),
    Job("an older PyTorch that spins", OLD + "if rank == 0: wait(3600)\nhang()",
        ("rank 1 is in no collective; rank 0 waits in GPU synchronization", "[DDP-H03 not called]",
         "this PyTorch does not record"), options=("--hang-timeout=12",), kind="old"),
]
CAPTURE = """
for _ in range(6):
    steps(3)
    graph = cuda.CUDAGraph()
    with cuda.graph(graph):
        for _ in range(4):
            dist.all_reduce(4)
            time.sleep(0.4)
    graph.replay()
    cuda.synchronize()
"""
LIMIT = ("--hang-timeout=6",)
HEALTHY = [
    Job("quick steps", "steps(400)", options=LIMIT),
    Job("slow steps", "steps(5, pause=1.5)", options=LIMIT),
    Job("captures between steps", CAPTURE, options=LIMIT),
    Job("captures of four ranks", CAPTURE, options=LIMIT, ranks=4),
    Job("a capture of several seconds", "steps(3)\ngraph = cuda.CUDAGraph()\nwith cuda.graph(graph):\n"
        "    dist.all_reduce(4)\n    time.sleep(5)\nfor _ in range(3): graph.replay()\ncuda.synchronize()\nsteps(3)"),
    Job("a capture right after a stall", "steps(3)\nif rank == 1: time.sleep(4)\nsteps(1)\n" + CAPTURE),
    Job("a capture beside an idle group", "pair = dist.new_group([0, 1])\nsteps(2, pair)\n" + CAPTURE),
    Job("a capture before the first collective", "graph = cuda.CUDAGraph()\nwith cuda.graph(graph):\n"
        "    dist.all_reduce(4)\n    time.sleep(3)\ngraph.replay()\ncuda.synchronize()\nsteps(2)"),
    Job("a capture while a collective is in progress", "steps(3)\nif rank == 1: cuda.kernel(9)\ndist.all_reduce(4)\n"
        "graph = cuda.CUDAGraph()\ngraph.capture_begin()\ntime.sleep(8)\ngraph.capture_end()\ncuda.synchronize()\nsteps(2)"),
    Job("almost always in a capture", "for _ in range(8):\n    steps(1)\n    graph = cuda.CUDAGraph()\n"
        "    with cuda.graph(graph):\n        dist.all_reduce(4)\n        time.sleep(2.5)", options=LIMIT),
    Job("a capture that fails to end, and a later one", "steps(3)\nfor _ in range(2):\n    graph = cuda.CUDAGraph()\n"
        "    graph.capture_begin()\n    if _ == 0: graph.is_broken = True\n    try: graph.capture_end()\n"
        "    except RuntimeError: pass\nsteps(2)\n" + CAPTURE),
    Job("replays of a graph", "graph = cuda.CUDAGraph()\nwith cuda.graph(graph): dist.all_reduce(4)\n"
        "for _ in range(300):\n    graph.replay()\n    cuda.kernel(0.01)\ncuda.synchronize()", options=LIMIT),
    Job("a long kernel", "steps(3)\nif rank == 1: cuda.kernel(8)\nsteps(3)"),
    Job("a long kernel of all ranks", "steps(3)\ncuda.kernel(8)\nsteps(3)"),
    Job("a rank that loads for seconds", "steps(3)\nif rank == 0: time.sleep(8)\nsteps(3)"),
    Job("work far ahead of the GPU", "for _ in range(150):\n    cuda.kernel(0.04)\n    dist.all_reduce(4)\n"
        "cuda.synchronize()", options=LIMIT),
    Job("groups for tensors and for data", "rows = [dist.new_group([0, 1]), dist.new_group([2, 3])][rank // 2]\n"
        "columns = None\nfor i in range(2):\n    columns = dist.new_group([i, i + 2]) or columns\n"
        "for _ in range(60):\n    steps(2, rows)\n    steps(1, columns)\nsteps(2)", options=LIMIT, ranks=4),
    Job("split groups", "pair = dist.split_group([0, 1])\nsteps(3)\nsteps(200, pair)\nsteps(3)", options=LIMIT),
    Job("a pipeline of sends and receives", "for _ in range(200):\n    cuda.kernel(0.01)\n"
        "    dist.send(1) if rank == 0 else dist.recv(0)\n    cuda.synchronize()\nsteps(1)"),
    Job("sends between collectives", "for _ in range(100):\n    steps(2)\n"
        "    dist.send(1) if rank == 0 else dist.recv(0)\n    cuda.synchronize()", options=LIMIT),
    Job("a second world", "steps(20)\ndist.destroy_process_group()\ntime.sleep(1.5)\n"
        "dist.distributed_c10d.MEETING /= 'second'\ndist.distributed_c10d.MEETING.mkdir(exist_ok=True)\n"
        'dist.init_process_group("nccl")\nsteps(100)', options=LIMIT),
    Job("a world that is aborted while a call is in progress, and a second one",
        "steps(20)\nif rank == 0: dist.all_reduce(4)\ntime.sleep(1.5)\ndist.abort_process_group()\n"
        "dist.distributed_c10d.MEETING /= 'second'\ndist.distributed_c10d.MEETING.mkdir(exist_ok=True)\n"
        'dist.init_process_group("nccl")\nsteps(400)', options=LIMIT),
    Job("Gloo beside NCCL", 'host = dist.new_group([0, 1], "gloo")\nfor _ in range(80):\n    steps(2)\n'
        "    dist.all_reduce(2, host)", options=LIMIT),
    Job("a barrier that meets a reduction of one element", "steps(3)\n"
        "dist.barrier() if rank == 1 else dist.all_reduce(1)\ntime.sleep(2)\nsteps(3)"),
    Job("ranks that end at different times", "steps(5)\nif rank == 1: time.sleep(6)"),
    Job("no collective at all", "time.sleep(4)"),
    Job("an end right after a step", "steps(1)"),
    Job("no backend named", "steps(200)", init="dist.init_process_group()\n", options=LIMIT),
    Job("an older PyTorch whose ranks all spin", OLD + "wait(12)", options=LIMIT, kind="old"),
    Job("an older PyTorch that spins and sleeps", OLD + "ends = time.monotonic() + 12\n"
        "while rank == 0 and time.monotonic() < ends:\n    wait(0.2)\n    time.sleep(0.001)\n"
        "if rank == 1: time.sleep(12)", options=LIMIT, kind="old"),
    Job("an older PyTorch that records nothing", "steps(200)", kind="old", options=LIMIT),
]


def run(job):
    options = job.options or (("--hang-timeout=8",) if job.says else ())
    with tempfile.TemporaryDirectory() as folder:
        script, meeting = pathlib.Path(folder) / "program.py", pathlib.Path(folder) / "meeting"
        script.write_text(IMPORTS + job.init + job.program)
        meeting.mkdir()
        environment = {**os.environ, "PYTHONPATH": str(FAKE_TORCH), "MEETING": str(meeting), "FAKE_TORCH": job.kind}
        command = [DDPLAUNCH, f"--nproc-per-node={job.ranks}", *options, str(script)]
        try:
            done = subprocess.run(command, env=environment, text=True, timeout=300, stdout=subprocess.PIPE,
                                  stderr=subprocess.STDOUT)
        except subprocess.TimeoutExpired as late:
            return job, ["does not end in 300 s"], (late.stdout or b"").decode()
    code = job.code if job.says else 0
    wrong = [f"exit code {done.returncode}"] * (done.returncode != code)
    wrong += [f"does not say {words!r}" for words in job.says if words not in done.stdout]
    wrong += ["reports a healthy program"] * (not job.says and "DDP-H" in done.stdout)
    return job, wrong, done.stdout


chosen = [job for job in HANGS + HEALTHY
          if (sys.argv[3] in job.name if len(sys.argv) > 3 else job.kind != "old" and job.name not in AT_NIGHT)]
failed = 0
with concurrent.futures.ThreadPoolExecutor(AT_ONCE) as pool:
    for job, wrong, output in pool.map(run, chosen):
        print(f"{'hangs' if job.says else 'healthy'}: {job.name}: {'; '.join(wrong) or 'ok'}", flush=True)
        if wrong:
            failed += 1
            print(output, flush=True)
print(f"{len(chosen) - failed} of {len(chosen)} as expected")
sys.exit(1 if failed else 0)
