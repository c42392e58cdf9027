#!/usr/bin/env python3
"""Tests a low limit of open files (ulimit -n). Whatever cannot be opened, the error names the limit and the remedy,
and nothing else. launched_job.py describes argv."""
import contextlib
import os
import pathlib
import random
import re
import resource
import shutil
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
from launched_job import Skip, run_job, run_tests, test  # noqa: E402
from ports import free_port  # noqa: E402

# An error about the limit must not name these causes.
OTHERS = ("internal error", "Please report", "TMPDIR", "Another process listens", "must belong to this node",
          "takes a free port")


def limited(limit: int) -> list[str]:
    """Returns a command prefix that runs a command with this limit, soft and hard."""
    return ["sh", "-c", f'ulimit -n {limit}; exec "$@"', "sh"]


def blames_nothing_else(err: str) -> None:
    assert len(err.splitlines()) == 1 and not any(other in err for other in OTHERS), err


@test("descriptors", "with 8 or 12 file descriptors the error names the limit, the required number and a command")
def few() -> None:
    for limit in (8, 12):
        for words, what, needed in ((["true"], "1 worker", 40), (["--nproc-per-node=4", "true"], "4 workers", 64),
                                    (["--nnodes=2", f"--rdzv-endpoint=127.0.0.1:{free_port()}", "true"], "1 worker", 40),
                                    (["--hosts=a,b", "true"], "2 hosts", 48), (["store", "--port=0"], "the store command", 32)):
            launcher = [os.path.abspath(sys.argv[1])]
            code, out, err = run_job(*words, via=limited(limit), launcher=launcher)
            assert code == 125 and out == "", (limit, words, code, out, err)
            assert (f"the system allows only {limit} file descriptors (ulimit -Hn), but {what} may need {needed}. Raise the "
                    "limit, for example with ulimit -n 4096.") in err, (limit, words, err)
            blames_nothing_else(err)


@test("descriptors", "the number of file descriptors that the error names is enough for all outputs")
def enough() -> None:
    options = ["--nproc-per-node=6", "--tee=3", "--log-dir=logs", "--duplicate-stdout-filters=a", "--summary=summary",
               "--duplicate-stderr-filters=b", "--event-log=events"]
    code, _, err = run_job(*options, "true", via=limited(8))
    needed = int(re.search(r"may need (\d+)\.", err)[1])
    assert code == 125 and needed > 8, (code, err)
    code, out, err = run_job(*options, "sh", "-c", "echo a; echo b >&2", via=limited(needed))
    assert code == 0 and out.count("a") == 6, (code, out, err)
    assert f"only {needed} file descriptors are allowed (ulimit -Hn)" in err, err
    code, _, err = run_job(*options, "true", via=limited(needed - 1))
    assert code == 125 and f"only {needed - 1} file descriptors" in err, (code, err)


@test("descriptors", "ranks whose user may have few descriptors in flight connect to each other")
def under_way() -> None:
    # The limit does not hold for root.
    if os.geteuid() != 0 or shutil.which("setpriv") is None:
        raise Skip("this needs root, and setpriv")
    as_a_user = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"]
    worker = pathlib.Path(sys.argv[1]).with_name("c_all_reduce").resolve()
    if subprocess.run([*as_a_user, "test", "-x", str(worker)]).returncode != 0:
        raise Skip(f"other users may not run {worker}")
    with tempfile.TemporaryDirectory() as folder:
        os.chmod(folder, 0o777)
        code, out, err = run_job("-q", "--nproc-per-node=32", "--backend=cpu", str(worker), via=[*as_a_user, *limited(400)],
                                 environment={"TMPDIR": folder})
    assert code == 0, (code, out, err)


@test("descriptors", "a low soft limit of descriptors is raised")
def soft() -> None:
    code, out, err = run_job("sh", "-c", "ulimit -Sn", via=["sh", "-c", 'ulimit -Sn 8; exec "$@"', "sh"])
    assert code == 0 and int(out) > 8, (code, out, err)


@test("descriptors", "with other descriptors open the job runs, or the error names the limit")
def inherited() -> None:
    limit = 40  # this is enough for a launcher that inherits only the standard descriptors
    codes = set()
    for others in range(0, 34, 2):
        opened = [os.open("/dev/null", os.O_RDONLY) for _ in range(others)]
        try:
            code, out, err = run_job("--quiet", "true", pass_fds=opened, preexec_fn=lambda: resource.setrlimit(
                resource.RLIMIT_NOFILE, (limit, limit)))
        finally:
            for fd in opened:
                os.close(fd)
        codes.add(code)
        if code != 0:
            assert code == 125 and "ulimit -n" in err, f"with {others} open files, exit code {code}: {err}"
            blames_nothing_else(err)
    assert codes == {0, 125}, codes


# Writes the rank to both outputs. No worker ends before the last one has begun, so the launcher has all pipes open.
PRINT_RANK = """if [ $RANK = $((WORLD_SIZE - 1)) ]
then head -c $WORLD_SIZE /dev/zero > "$GATE"
else head -c 1 "$GATE" > /dev/null
fi
echo $RANK
echo $RANK >&2
"""


@contextlib.contextmanager
def gate():
    """Yields a named pipe for PRINT_RANK."""
    with tempfile.TemporaryDirectory() as folder:
        path = f"{folder}/gate"
        os.mkfifo(path)
        holder = os.open(path, os.O_RDWR)
        try:
            yield path
        finally:
            os.close(holder)


@test("descriptors", "the output of each of up to 512 workers arrives")
def many_workers() -> None:
    # Each file that the launcher inherits shifts the numbers of its pipes by one.
    for workers, others in [(1, 0), *((count, others) for count in (30, 32, 64) for others in range(4)), (512, 0)]:
        opened = [os.open("/dev/null", os.O_RDONLY) for _ in range(others)]
        try:
            with gate() as path:
                code, out, err = run_job("-q", f"--nproc-per-node={workers}", "sh", "-c", PRINT_RANK, pass_fds=opened,
                                         environment={"GATE": path})
        finally:
            for fd in opened:
                os.close(fd)
        for text in (out, err):
            ranks = sorted(int(line.split()[-1]) for line in text.splitlines())
            assert code == 0 and ranks == list(range(workers)), (workers, others, code, text)


@test("descriptors", "whichever descriptors the launcher inherits, the outputs of all workers arrive")
def any_inherited() -> None:
    seed = int(os.environ.get("DDP_TEST_SEED", random.randrange(1 << 32)))
    choose = random.Random(seed)
    sets = [range(190, 201), range(196, 198), range(3, 198), range(3, 200, 2),
            *(range(3, choose.randrange(150, 196)) for _ in range(6)),
            *(choose.sample(range(3, 260), choose.randrange(150, 240)) for _ in range(6))]
    with tempfile.TemporaryDirectory() as folder, gate() as path:
        for numbers in sets:
            closed = choose.choice(["", "0", "1", "2", "01", "02", "12", "012"])
            def open_and_close(numbers=numbers, closed=closed):
                for number in numbers:
                    os.dup2(1, number, inheritable=True)
                for number in closed:
                    os.close(int(number))
            shutil.rmtree(f"{folder}/logs", ignore_errors=True)
            job = subprocess.run([os.path.abspath(sys.argv[1]), "-q", "--nproc-per-node=8", "--tee=3",
                                  f"--log-dir={folder}/logs", "sh", "-c", PRINT_RANK + "ls /proc/$$/fd"],
                                 close_fds=False, stdout=subprocess.DEVNULL, stderr=subprocess.STDOUT, timeout=60,
                                 env=os.environ | {"GATE": path}, preexec_fn=open_and_close)
            context = f"seed {seed}, {list(numbers)} open, '{closed}' closed"
            assert job.returncode == 0, f"{context}: exit code {job.returncode}"
            for stream in ("stdout", "stderr"):
                files = [file.read_text().split() for file in pathlib.Path(folder).glob(f"logs/**/{stream}.log")]
                assert sorted(text[:1] for text in files) == [[str(rank)] for rank in range(8)], (context, stream, files)
                # The shell has no descriptor but its streams, the page and the ring.
                assert all(set(text[1:]) <= {"0", "1", "2", "196", "197"} for text in files), (context, files)


if __name__ == "__main__":
    sys.exit(run_tests())
