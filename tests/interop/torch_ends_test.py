"""Ends PyTorch programs at random moments of their first and their last second, and checks that ddplaunch's code in
them neither delays nor changes their ends.

torch_ends_test.py DDPLAUNCH [ENDS [SEED]]. Uses the Python of the environment "pytorch" (support/environments.py). One
end is the end of one process. To import PyTorch takes longer than all else, so each rank imports it once and forks the
processes that end. Each of them makes a process group, is observed, and ends as Python does. A few jobs are ended
without that.
"""
import os
import pathlib
import random
import signal
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
import environments  # noqa: E402  (it is in another folder)

RANKS = [1, 2, 3, 4, 8]
LIMIT = 60  # seconds for one end on a busy computer; the endings take less than two
# The ways to end and the codes of their processes. A process that is terminated by a signal may have ended before.
WAYS = {
    "return": [0], "exception": [1], "sys_exit": [3], "os_exit": [7], "exit_in_thread": [0], "exception_in_thread": [0],
    "os_exit_in_thread": [7], "slow_thread": [0], "slow_atexit": [0], "failing_atexit": [0], "forked_child": [0],
    "destroyed_group": [0], "signal": [0, -signal.SIGTERM],
    # These may lose another rank first.
    "signal_while_it_begins": [1, -signal.SIGTERM], "os_exit_while_it_begins": [1, 7],
}


def later(seconds, function, daemon=True):
    import threading

    def run():
        time.sleep(seconds)
        function()

    threading.Thread(target=run, daemon=daemon).start()


def end(way, seconds, meeting, alone):
    """Returns, raises or exits in this way. The caller does nothing afterwards, so that Python ends.

    A rank that is alone has a group of its own and ends whenever it likes. If it ended while another rank connects to
    it, Gloo would wait there for long.
    """
    import atexit

    import torch.distributed as dist

    def terminate():
        os.kill(os.getpid(), signal.SIGTERM)

    if way == "signal_while_it_begins":
        later(seconds, terminate)
    if way == "os_exit_while_it_begins":
        later(seconds, lambda: os._exit(7))
    rank, size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    if alone:
        dist.init_process_group("gloo", init_method=f"file://{meeting}.{rank}", rank=0, world_size=1)
    else:
        dist.init_process_group("gloo", init_method=f"file://{meeting}", rank=rank, world_size=size)
        open(f"{meeting}.{rank}", "w").close()
        while not all(os.path.exists(f"{meeting}.{other}") for other in range(size)):
            time.sleep(0.001)
    if way.endswith("while_it_begins"):
        return time.sleep(LIMIT)
    if way == "slow_thread":
        return later(seconds, lambda: None, daemon=False)
    if way == "slow_atexit":
        return atexit.register(time.sleep, seconds)
    if way == "signal":
        later(seconds, terminate)  # often while the interpreter ends
        return time.sleep(random.random() * seconds * 2)
    if way == "os_exit_in_thread":
        later(seconds, lambda: os._exit(7))
        time.sleep(LIMIT)
    if seconds > 0:
        time.sleep(seconds)
    if way == "exception":
        raise ValueError("no label")
    if way == "sys_exit":
        sys.exit(3)
    if way == "os_exit":
        os._exit(7)
    if way == "exit_in_thread":
        later(0, sys.exit, daemon=False)
    if way == "exception_in_thread":
        later(0, lambda: [][0], daemon=False)
    if way == "failing_atexit":
        atexit.register(lambda: [][0])
    if way == "destroyed_group":
        dist.destroy_process_group()
    if way == "forked_child":
        if os.fork() == 0:
            # Without ddplaunch, too, PyTorch waits for ever if Python destroys the group in this process.
            atexit._run_exitfuncs()
            os._exit(0)
        os.wait()


def wait_for(child):
    """Returns how the child ended, or None if it did not end in time."""
    until = time.monotonic() + LIMIT
    while time.monotonic() < until:
        pid, status = os.waitpid(child, os.WNOHANG)
        if pid == child:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.005)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return None


def work(seed, ends, folder):
    """Runs in each rank. Returns only in the processes that end."""
    import torch.distributed.distributed_c10d  # noqa: F401

    rank = int(os.environ["RANK"])
    disturbed = 0
    for number in range(ends):
        chosen = random.Random(f"{seed}.{number}")
        way = chosen.choice(list(WAYS))
        alone = chosen.random() < 0.5
        chosen = random.Random(f"{seed}.{number}.{rank}")
        seconds = chosen.random() * chosen.choice([0, 0.01, 0.1, 1])
        child = os.fork()
        if child == 0:
            os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
            return end(way, seconds, f"{folder}/meeting.{number}", alone)
        code = wait_for(child)
        if code not in WAYS[way]:
            disturbed += 1
            print(f"DISTURBED {way} after {seconds:.3f} s at rank {rank}, end {number}: {code}", flush=True)
        for ending in (".sock", ".groups", ".unrecorded", ".failed"):
            path = os.environ["DDP_TORCH_FILE"] + ending
            if ending in (".unrecorded", ".failed") and os.path.exists(path):
                print(f"UNOBSERVED {path}", open(path).read(), flush=True)
                disturbed += 1
            if os.path.exists(path):
                os.unlink(path)
    print(f"ends {ends} disturbed {disturbed}", flush=True)
    os._exit(1 if disturbed else 0)


def run(python, ranks, *words):
    options = ["-q", "--no-tag", f"--nproc-per-node={ranks}"]
    command = [sys.argv[1], *options, python, __file__, "--worker", *map(str, words)]
    with subprocess.Popen(command, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT) as job:
        try:
            output = job.communicate(timeout=LIMIT * 10)[0]
            return job.returncode, output
        except subprocess.TimeoutExpired:
            job.terminate()  # the launcher ends its job
            return None, job.communicate()[0]


def main():
    python = environments.need("pytorch")
    ends = int(sys.argv[2]) if len(sys.argv) > 2 else 20
    seed = sys.argv[3] if len(sys.argv) > 3 else "1"
    print(f"seed {seed}", flush=True)
    done = disturbed = 0
    begun = time.monotonic()
    chosen = random.Random(seed)
    while done < ends:
        ranks = chosen.choice(RANKS) if ends > 100 else 2
        each = min(25, -(-(ends - done) // ranks))
        with tempfile.TemporaryDirectory() as folder:
            code, output = run(python, ranks, f"{seed}.{done}", each, folder)
        counts = [int(line.split()[3]) for line in output.splitlines() if line.startswith("ends ")]
        if code != 0 or len(counts) != ranks:
            disturbed += max(1, sum(counts))
            print(f"{ranks} ranks: exit code {code}\n{output}", flush=True)
        done += ranks * each
        print(f"{done} ends, {disturbed} disturbed, {time.monotonic() - begun:.0f} s", flush=True)
    for way in ("return", "exception", "sys_exit", "return", "exception", "return"):  # whole programs
        with tempfile.TemporaryDirectory() as folder:
            code, output = run(python, 2, "whole", way, folder)
        if code not in WAYS[way]:
            disturbed += 1
            print(f"whole program, {way}: exit code {code}\n{output}", flush=True)
    assert disturbed == 0, f"{disturbed} ends were disturbed"


if sys.argv[1] != "--worker":
    main()
elif sys.argv[2] == "whole":
    end(sys.argv[3], 0, f"{sys.argv[4]}/meeting", alone=True)
else:
    work(sys.argv[2], int(sys.argv[3]), sys.argv[4])
