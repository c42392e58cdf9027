#!/usr/bin/env python3
"""Tests workers' input and output with whole processes: the rows of docs/development/supervision.md on streams.
launched_job.py describes argv."""
import hashlib
import os
import pathlib
import random
import re
import resource
import signal
import subprocess
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
from launched_job import LAUNCHER, Job, Skip, eventually, python, run_job, run_tests, status_of, test
from ports import free_port  # noqa: E402


@test("15", "a worker that reads its input gets the end of file at once")
def no_input() -> None:
    ours, theirs = os.pipe()  # the pipe stays open while the job runs
    try:
        code, out, err = run_job("--nproc-per-node=2", "cat", stdin=ours)
    finally:
        os.close(ours)
        os.close(theirs)
    assert code == 0 and not out, (code, out, err)


@test("15", "the worker of --stdin reads the launcher's input")
def input_of_one() -> None:
    ours, theirs = os.pipe()
    os.write(theirs, b"hello\n")
    os.close(theirs)
    try:
        code, out, err = run_job("--stdin=1", "--nproc-per-node=3", "sed", "s/^/read /", stdin=ours)
    finally:
        os.close(ours)
    assert code == 0 and out == "[1] read hello\n", (code, out, err)


WRITES_ANYTHING = """
import hashlib, random
random.seed(int(sys.argv[1]) * 100 + rank)
text = bytearray()
for i in range(20000):
    # The middle has random bytes, including NUL and invalid UTF-8, except line ends. The rank marks both ends of the line.
    middle = bytes(random.choices(ANY, k=random.randrange(60)))
    text += b"<%d %s %d>" % (rank, middle, rank) + random.choice([b"\\n", b"\\n", b"\\r\\n"])
text += b"<%d " % rank + b"x" * 3000000 + b" %d>\\n" % rank + b"no end of rank %d" % rank
for begin in range(0, len(text), 100000): os.write(1, text[begin:begin + 100000])
open(f"sum{rank}", "w").write(hashlib.sha256(text).hexdigest())
""".replace("ANY", "bytes(set(range(256)) - set(b'\\r\\n<>'))")


@test("16", "log files equal the output of the workers, and console lines are never mixed")
def whole_lines() -> None:
    seed = random.SystemRandom().randrange(10**6)
    print(f"seed {seed}")
    with Job("--tee=3", "--log-dir=logs", "--nproc-per-node=4", *python(WRITES_ANYTHING), str(seed)) as job:
        assert job.wait(60) == 0, job.err()
        for rank in range(4):
            log, = pathlib.Path(job.folder).glob(f"logs/*/attempt_0/{rank}/stdout.log")
            assert hashlib.sha256(log.read_bytes()).hexdigest() == pathlib.Path(job.path(f"sum{rank}")).read_text(), rank
        counts = [0] * 4
        for line in pathlib.Path(job.path("out")).read_bytes().split(b"\n"):
            whole = re.fullmatch(rb"\[(\d)\] <(\d) [^<>]* (\d)>\r?", line, re.DOTALL)
            if whole:
                assert len({*whole.groups()}) == 1, line
                counts[int(whole[1])] += 1
            elif len(line) < 1000:
                assert not line or re.fullmatch(rb"\[(\d)\] no end of rank \1|\[(\d)\] \.\.\. x* \2>", line), line
        assert all(20000 <= count <= 20001 for count in counts), counts


LINE = "a line of the output that says as little as the other ones do ".ljust(99, ".")


@test("17", "a console without a reader does not stop the job, and the count of lost lines is right")
def stuck_console() -> None:
    lines = 400_000
    ours, theirs = os.pipe()
    script = f"for i in range({lines}): sys.stdout.write({LINE!r} + '\\n')\nsys.stdout.flush()\nopen('done', 'w')"
    with Job("--tag=", *python(script), stdout=theirs) as job:
        os.close(theirs)
        eventually("the worker is done", lambda: os.path.exists(job.path("done")))
        assert job.wait() == 0
        # The pipe holds everything that was ever shown.
        with os.fdopen(ours, "rb") as reader:
            shown = reader.read().decode()
        reported = sum(int(count) for count in re.findall(r"(\d+) lines? (?:was|were) not shown", shown + job.err()))
        whole = shown.count(LINE + "\n")
        assert whole + reported in (lines, lines + 1), (whole, reported, job.err())
        assert reported > 100_000


@test("17", "with --lossless a slow console slows the worker down and loses no line")
def lossless_console() -> None:
    lines = 300_000
    ours, theirs = os.pipe()
    script = f"for i in range({lines}): sys.stdout.write({LINE!r} + '\\n')\nsys.stdout.flush()\nopen('done', 'w')"
    with Job("--lossless", "--tag=", *python(script), stdout=theirs) as job:
        os.close(theirs)
        with os.fdopen(ours, "rb") as reader:
            assert reader.read(1000), "the worker writes"
            time.sleep(1.5)  # a lossy console would not wait for this long
            assert not os.path.exists(job.path("done")), "the worker should wait for the console"
            rest = reader.read()
        assert job.wait() == 0, job.err()
        assert rest.count(b"\n") == lines - 10 and "not shown" not in job.err(), job.err()


def into_head(*options: str) -> tuple[int, bool]:
    """Returns the launcher's status behind `| head -1`, and whether the worker ran to its end."""
    head = subprocess.Popen(["head", "-1"], stdin=subprocess.PIPE, stdout=subprocess.DEVNULL)
    script = "trap '' PIPE\nwhile [ ! -e go ]; do echo line; sleep 0.01; done; touch done"
    with Job(*options, "-q", "sh", "-c", script, stdout=head.stdin.fileno()) as job:
        head.stdin.close()
        assert head.wait() == 0
        if not options:
            pathlib.Path(job.path("go")).touch()
        code = job.wait()
        job.expect_nothing_left()
        return code, os.path.exists(job.path("done"))


@test("18", "a console that is closed does not end the job")
def closed_console() -> None:
    assert into_head() == (0, True)


@test("18", "with --on-sigpipe=end a closed console ends the job like SIGPIPE")
def closed_console_ends() -> None:
    assert into_head("--on-sigpipe=end") == (-signal.SIGPIPE, False)


MUCH_AND_FAILS = python("""
if rank == 1: time.sleep(1000)
sys.stdout.write(('x' * 99 + chr(10)) * 3000)
sys.stdout.flush()
sys.exit(7)
""")


def job_behind_a_full_pipe(*options: str) -> tuple[Job, int]:
    """Returns a job that has failed and tries to report it, and the other end of its console, from which nothing is
    read."""
    ours, theirs = os.pipe()
    job = Job("--tag=", "--event-log=events", *options, *MUCH_AND_FAILS, stdout=theirs, stderr=theirs)
    os.close(theirs)
    eventually("the attempt's end in the event log",
               lambda: os.path.exists(job.path("events")) and '"attempt_ended"' in pathlib.Path(job.path("events")).read_text())
    time.sleep(2)
    return job, ours


@test("46", "a reader that pauses gets the reason of a failure, and a request to end does not wait for it")
def slow_reader() -> None:
    job, console = job_behind_a_full_pipe()
    with job, open(console, "rb") as reader:
        assert "rank 0 " in reader.read().decode().split("exit code 7")[0].splitlines()[-1]
        assert job.wait() == 7
    job, console = job_behind_a_full_pipe()
    with job:
        job.signal(signal.SIGTERM)
        assert job.wait() in (7, -signal.SIGTERM)
        os.close(console)


@test("46", "a reader that pauses on one of two nodes gets the reason of a failure")
def slow_reader_of_a_node() -> None:
    words = ["--nnodes=2", f"--rdzv-endpoint=127.0.0.1:{free_port()}", "--rdzv-conf=join_timeout=60"]
    with Job("--tag=", *words, "--node-rank=1", *MUCH_AND_FAILS) as other:
        job, console = job_behind_a_full_pipe(*words, "--node-rank=0")
        with job, open(console, "rb") as reader:
            assert other.wait() == 7 and "exit code 7" in other.err(), other.err()
            assert "exit code 7" in reader.read().decode()
            assert job.wait() == 7


def fill(job: Job) -> None:
    """Fills the job's console, a pipe that is not read."""
    console = os.open(f"/proc/{job.pid}/fd/2", os.O_WRONLY | os.O_NONBLOCK)
    try:
        while True:
            os.write(console, b"x" * 4095 + b"\n")
    except BlockingIOError:
        pass
    finally:
        os.close(console)


WAITS_FOR_GO = "while [ ! -e go ]; do sleep 0.01; done; "


@test("46", "a reader that pauses does not make the node lost, and gets the whole report of each attempt in its order")
def long_report_of_a_node() -> None:
    words = ["--tag=", "--nnodes=2", f"--rdzv-endpoint=127.0.0.1:{free_port()}", "--rdzv-conf=join_timeout=60",
             "--node-timeout=3", "--max-restarts=1"]
    # Many ranks fail with a line each. If each line had to wait, the report would take longer than --node-timeout.
    fails = WAITS_FOR_GO + "for i in $(seq 20); do echo line $i >&2; done; exit 9"
    aborts = "ulimit -c 0; trap 'kill -ABRT $$' TERM; sleep 1000 & wait"
    script = (f"[ $TORCHELASTIC_RESTART_COUNT = 1 ] && exit 0; touch ready.$RANK; [ $RANK = 0 ] && {{ {fails}; }}; "
              f"[ $GROUP_RANK = 0 ] && {{ {aborts}; }}; exec sleep 1000")
    ours, theirs = os.pipe()
    with Job(*words, "--node-rank=0", "--nproc-per-node=30", "sh", "-c", script, stdout=theirs, stderr=theirs) as job, \
            Job(*words, "--node-rank=1", "sh", "-c", script) as other:
        os.close(theirs)
        eventually("all ranks run", lambda: len([*pathlib.Path(job.folder).glob("ready.*"),
                                                 *pathlib.Path(other.folder).glob("ready.*")]) == 31)
        fill(job)
        pathlib.Path(job.path("go")).touch()
        assert other.wait() == 0, other.err()
        with open(ours, "rb") as reader:
            report = reader.read().decode()
        assert job.wait() == 0, report
        order = [report.find(text) for text in ("failed: exit code 9", "| line 1\n", "| line 20\n", "restart 1 of 1")]
        assert -1 not in order and order == sorted(order), report[-3000:]


@test("46", "a reader that pauses gets the reason of a failed start and the number of lost lines")
def own_lines_wait() -> None:
    ours, theirs = os.pipe()
    words = ["--nnodes=2", f"--rdzv-endpoint=127.0.0.1:{free_port()}", "--rdzv-conf=join_timeout=2", "--node-rank=0"]
    with Job(*words, "true", stdout=theirs, stderr=theirs) as job, open(ours, "rb") as reader:
        os.close(theirs)
        fill(job)
        time.sleep(4)
        assert "only 1 node of 2" in reader.read().decode()
        assert job.wait() == 125
    ours, theirs = os.pipe()
    with Job("--tag=", "--grace=1", "sh", "-c", "exec sleep 1000", stdout=theirs, stderr=theirs) as job, \
            open(ours, "rb") as reader:
        os.close(theirs)
        supervisor = job.supervisor()
        fill(job)
        os.kill(supervisor, signal.SIGKILL)
        time.sleep(1)
        assert "the supervising process of ddplaunch was killed by SIGKILL" in reader.read().decode()
        assert job.wait() == 125


@test("46", "attempts that fail alike are reported once in full, then in a line, and the last one in full")
def repeated_failures() -> None:
    code, _, err = run_job("--max-restarts=3", "sh", "-c", "echo attempt $TORCHELASTIC_RESTART_COUNT >&2; exit 9")
    report = err.split("failed: exit code 9")[1:]
    assert code == 9 and len(report) == 4, err
    assert [", as in the previous attempt\n" in part for part in report] == [False, True, True, False], err
    assert ["| attempt" in part for part in report] == [True, False, False, True], err
    assert "ddplaunch gave up after 3 restarts" in report[3], err


@test("46", "attempts that fail in different ways are all reported in full")
def different_failures() -> None:
    code, _, err = run_job("--max-restarts=2", "sh", "-c", "exit $((9 - TORCHELASTIC_RESTART_COUNT))")
    assert code == 7 and "as in the previous attempt" not in err, (code, err)


@test("18", "a reader that closes the pipe of --help causes no error")
def help_without_a_reader() -> None:
    for words in (["--help"], ["--man"], ["--completion=bash"]):
        reader, writer = os.pipe()
        os.close(reader)
        done = subprocess.run([LAUNCHER, *words], stdout=writer, stderr=subprocess.PIPE, text=True)
        os.close(writer)
        assert (done.returncode, done.stderr) == (0, ""), done


@test("46", "a line of ddplaunch that is longer than a pipe takes at once is cut")
def long_own_line() -> None:
    code, _, err = run_job("--run-path", "no" * 3000)
    assert code == 127 and all(len(line) < 4096 and line.endswith("...") for line in err.splitlines()), (code, err)


@test("45", "a log file ends at the limit of ulimit -f and the job continues, but a worker dies of its own file")
def file_size_limit() -> None:
    options = {"preexec_fn": lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (65536, 65536))}
    script = "for i in range(1000): print('x' * 99)\nopen('done', 'w').close()"
    with Job("--tag=", "--tee=3", "--log-dir=logs", *python(script), **options) as job:
        assert job.wait() == 0 and os.path.exists(job.path("done")), job.err()
        log, = pathlib.Path(job.folder).glob("logs/*/attempt_0/0/stdout.log")
        assert log.stat().st_size == 65536, log.stat()
        assert f"{log}: File too large. The file ends here; the job continues." in job.err(), job.err()
    code, _, err = run_job("--core=off", "dd", "if=/dev/zero", "of=file", "bs=1000", "count=99", **options)
    assert code == 128 + signal.SIGXFSZ and "killed by SIGXFSZ" in err, (code, err)


@test("19", "the unfinished last line of a crashed worker is shown even if another process holds its output")
def last_words() -> None:
    script = """
os.write(1, b"the last words")
if os.fork() == 0:
    os.setsid()
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    time.sleep(1000)
os.kill(os.getpid(), signal.SIGSEGV)
"""
    code, out, err = run_job("--core=off", "--nproc-per-node=2", *python("if rank == 1: time.sleep(1000)" + script))
    assert code == 139 and "[0] the last words\n" in out, (code, out, err)
    assert "killed by SIGSEGV" in err and "| the last words" in err, err


def memory_peak(reads: bool) -> int:
    """Returns the supervisor's peak memory in kilobytes while a worker writes 160 MB."""
    ours, theirs = os.pipe()
    script = f"""
for i in range(2000):
    sys.stdout.write({LINE * 4 + chr(10)!r} * 200)
sys.stdout.flush()
open('done', 'w')
while not os.path.exists('go'): time.sleep(0.01)
"""
    with Job("-q", "--tag=", *python(script), stdout=theirs) as job:
        os.close(theirs)
        if reads:
            sink = subprocess.Popen(["cat"], stdin=ours, stdout=subprocess.DEVNULL)
        eventually("the worker is done", lambda: os.path.exists(job.path("done")))
        peak = int(status_of(job.supervisor())["VmHWM"].split()[0])
        pathlib.Path(job.path("go")).touch()
        os.close(ours)
        assert job.wait() == 0, job.err()
        if reads:
            sink.wait()
        return peak


@test("44", "the launcher's memory does not grow with the output, whether it is read or not")
def bounded_memory() -> None:
    if re.search(rb"__[at]san_init", pathlib.Path(LAUNCHER).read_bytes()):
        raise Skip("a sanitizer needs memory of its own")
    for reads in (True, False):
        peak = memory_peak(reads)
        assert peak < 60_000, (reads, peak)  # up to 16 MiB may wait for a slow reader


if __name__ == "__main__":
    sys.exit(run_tests())
