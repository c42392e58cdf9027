#!/usr/bin/env python3
"""Tests how jobs start and end, with whole processes: the rows of docs/development/supervision.md on processes and
signals. launched_job.py describes argv."""
import contextlib
import os
import pathlib
import re
import signal
import subprocess
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
from launched_job import (HELPER, LAUNCHER, Job, Skip, cgroup_mount, eventually, processes, python, run_job, run_tests,
                          state_of, status_of, test, with_mounts)

# The script leaves an orphan (forked twice) in another session that ignores SIGTERM.
ORPHAN = "(setsid sh -c 'trap \"\" TERM; echo orphan; while :; do sleep 0.1; done' &)\n"
IGNORES_TERM = "trap '' TERM; echo ready; while :; do sleep 0.05; done\n"
WAITS_FOR_GO = "while [ ! -e go ]; do sleep 0.01; done\n"


def without_cgroup() -> list[str]:
    """Returns a command prefix that runs a command without cgroups."""
    mount = cgroup_mount("cgroup2")
    return [] if mount is None else with_mounts(f"mount -t tmpfs none {mount}")


# Row 1 tests the same cases with each way to start a process and to learn of its end.
def fails(via: list[str]) -> None:
    code, out, err = run_job("--nproc-per-node=2", "sh", "-c", '[ "$RANK" = 0 ] && exec sleep 100; exit 3', via=via)
    assert code == 3, (code, out, err)
    assert "rank 1 (pid" in err and "failed: exit code 3" in err, err
    assert "rank 0 was terminated because of it (SIGTERM" in err, err


def crashes(via: list[str]) -> None:
    code, _, err = run_job("--core=off", "--nproc-per-node=2", "sh", "-c",
                           '[ "$RANK" = 0 ] && exec sleep 100; kill -SEGV $$', via=via)
    assert code == 139 and "rank 1" in err and "killed by SIGSEGV" in err, (code, err)


def ignores_term(via: list[str]) -> None:
    script = f'[ "$RANK" = 1 ] && {{ {WAITS_FOR_GO} exit 4; }}\n{IGNORES_TERM}'
    with Job("--grace=0.2", "--nproc-per-node=2", "sh", "-c", script, via=via) as job:
        job.wait_for("ready")
        pathlib.Path(job.path("go")).touch()
        assert job.wait() == 4, job.err()
        assert "rank 0 was terminated because of it (SIGTERM, then SIGKILL after the grace period of 0.2 s" in job.err(), job.err()
        job.expect_nothing_left()


def is_stopped(via: list[str]) -> None:
    script = f'[ "$RANK" = 1 ] && {{ {WAITS_FOR_GO} exit 4; }}\necho pid $$.; kill -STOP $$; sleep 100'
    with Job("--grace=100", "--tag=", "--nproc-per-node=2", "sh", "-c", script, via=via) as job:
        job.wait_for(".")
        worker = int(re.search(r"pid (\d+)\.", job.out())[1])
        eventually("the worker has stopped", lambda: state_of(worker) == "T")
        pathlib.Path(job.path("go")).touch()
        assert job.wait() == 4, job.err()
        assert "rank 0 was terminated because of it (SIGTERM, gone in" in job.err(), job.err()
        job.expect_nothing_left()


def leaves_an_orphan(via: list[str]) -> None:
    with Job("-q", "sh", "-c", ORPHAN + WAITS_FOR_GO, via=via) as job:
        job.wait_for("orphan")
        pathlib.Path(job.path("go")).touch()
        assert job.wait() == 0, job.err()
        job.expect_nothing_left()


def leaves_an_orphan_and_is_restarted(via: list[str]) -> None:
    again = "[ $TORCHELASTIC_RESTART_COUNT = 1 ] && sleep 0.2 && echo again && exit 0\n"
    with Job("--max-restarts=1", "sh", "-c", again + ORPHAN + WAITS_FOR_GO + "exit 3", via=via) as job:
        job.wait_for("orphan")
        pathlib.Path(job.path("go")).touch()
        assert job.wait() == 0, job.err()
        job.wait_for("again")
        job.expect_nothing_left()


def cannot_be_executed(via: list[str]) -> None:
    with Job("--nproc-per-node=2", "./script", via=["sh", "-c", """
            printf '#!/no/such/interpreter\\n' > script; chmod +x script; exec "$@" """, "sh", *via]) as job:
        assert job.wait() == 127 and "interpreter" in job.err(), job.err()
        job.expect_nothing_left()


def pidfds_of(pid: int) -> int:
    links = [os.readlink(entry) for entry in pathlib.Path(f"/proc/{pid}/fd").iterdir()]
    return sum("pidfd" in link for link in links)


def check_spawn_path(lacks: list[str], pidfds: bool) -> None:
    via = [HELPER, *lacks, "--"] if lacks else []
    if lacks and subprocess.run([*via, "true"]).returncode == 77:
        raise Skip("no seccomp here")
    with Job("--nproc-per-node=2", "sh", "-c", "echo ready; sleep 100", via=via) as job:
        job.wait_for("ready", 2)
        assert (pidfds_of(job.supervisor()) > 0) == pidfds
    for case in (fails, crashes, ignores_term, is_stopped, leaves_an_orphan, leaves_an_orphan_and_is_restarted,
                 cannot_be_executed):
        case(via)


@test("1", "workers are started and watched by the pidfd that clone gives")
def pidfd_of_clone() -> None:
    check_spawn_path([], pidfds=True)
    check_spawn_path(["clone3"], pidfds=True)


@test("1", "workers are watched by pidfd_open if clone gives no pidfd")
def pidfd_of_open() -> None:
    check_spawn_path(["clone3", "clone-pidfd"], pidfds=True)


@test("1", "workers are watched by SIGCHLD if the kernel has no pidfds")
def no_pidfd() -> None:
    check_spawn_path(["clone3", "clone-pidfd", "pidfd-open"], pidfds=False)


@test("2", "neither guardian nor supervisor has a thread beside the one that starts the workers")
def single_threaded() -> None:
    with Job("--nproc-per-node=2", "sh", "-c", "echo ready; sleep 100") as job:
        job.wait_for("ready", 2)
        for pid in (job.pid, job.supervisor()):
            assert status_of(pid)["Threads"] == "1", status_of(pid)


def kill_with_orphans(who: str) -> tuple[int, str]:
    with Job("--nproc-per-node=2", "sh", "-c", ORPHAN + "echo $$ is ready; sleep 100", via=without_cgroup()) as job:
        job.wait_for("orphan", 2)
        job.wait_for("is ready", 2)
        supervisor = job.supervisor()
        os.kill({"guardian": job.pid, "supervisor": supervisor}[who], signal.SIGKILL)
        code = job.wait()
        job.expect_nothing_left()
        return code, job.err()


@test("5", "a killed supervisor's whole tree ends")
def supervisor_killed() -> None:
    code, err = kill_with_orphans("supervisor")
    assert code == 125 and "supervising process of ddplaunch was killed by SIGKILL" in err, (code, err)


@test("5", "a killed guardian's whole tree ends")
def guardian_killed() -> None:
    code, err = kill_with_orphans("guardian")
    assert code == -signal.SIGKILL and "the first process of ddplaunch was killed" in err, (code, err)


@test("47", "a stopped supervisor ends the job when its guardian is killed")
def guardian_killed_beside_a_stopped_supervisor() -> None:
    with Job("--nproc-per-node=2", "sh", "-c", "echo ready; sleep 100", via=without_cgroup()) as job:
        job.wait_for("ready", 2)
        supervisor = job.supervisor()
        os.kill(supervisor, signal.SIGSTOP)
        eventually("the supervisor is stopped", lambda: state_of(supervisor) == "T")
        os.kill(job.pid, signal.SIGKILL)
        job.wait()
        job.expect_nothing_left()
        assert "the first process of ddplaunch was killed" in job.err(), job.err()


@test("3 5 42", "the workers die if guardian and supervisor are killed at once, and the next launch removes the rest")
def both_killed() -> None:
    with Job("--tag=", "--nproc-per-node=2", "sh", "-c", ORPHAN + "echo worker $$.; exec sleep 100") as job:
        job.wait_for("orphan", 2)
        job.wait_for(".", 2)
        workers = [int(pid) for pid in re.findall(r"worker (\d+)\.", job.out())]
        both = (job.supervisor(), job.pid)
        os.kill(both[1], signal.SIGSTOP)  # the guardian must not see the supervisor's end
        for pid in both:
            os.kill(pid, signal.SIGKILL)
        job.wait()
        eventually("the workers are gone", lambda: not any(state_of(pid) not in ("", "Z") for pid in workers))
        left, = pathlib.Path(job.folder).glob("ddp-run-*")
        unrelated = pathlib.Path(job.folder) / "ddp-run-of-another-user"
        unrelated.mkdir()
        (unrelated / "file").touch()
        code, _, err = run_job("-q", "true", environment={"TMPDIR": job.folder})
        assert code == 0 and not left.exists() and (unrelated / "file").exists(), err
        if place_for_cgroups():
            job.expect_nothing_left()

            # A start waits only a moment for the cgroups that it has killed. If they remain, the next start removes
            # them.
            def is_removed() -> bool:
                return run_job("-q", "true")[0] == 0 and not list(place_for_cgroups().glob(f"ddplaunch-*-{both[1]}"))
            eventually("no cgroup is left", is_removed)


def place_for_cgroups() -> pathlib.Path | None:
    """Returns the directory where a launcher makes its cgroups, or None if it cannot."""
    mount = cgroup_mount("cgroup2")
    own = [line[3:] for line in pathlib.Path("/proc/self/cgroup").read_text().splitlines() if line.startswith("0::")]
    if mount is None or not own:
        return None
    trial = mount / own[0].lstrip("/") / f"ddptest-{os.getpid()}"
    try:
        trial.mkdir()
        can_kill = (trial / "cgroup.kill").exists()
        trial.rmdir()
    except OSError:
        return None
    return trial.parent if can_kill else None


@test("6", "in a cgroup all processes of a worker are killed at once, and the directory is removed")
def cgroup() -> None:
    place = place_for_cgroups()
    if place is None:
        raise Skip("no cgroup of version 2 that can be killed can be made")
    with Job("--nproc-per-node=2", "sh", "-c", ORPHAN + WAITS_FOR_GO) as job:
        job.wait_for("orphan", 2)
        folder, = place.glob(f"ddplaunch-*-{job.pid}")
        members = {int(pid) for pid in (folder / "cgroup.procs").read_text().split()}
        launcher = {job.pid, job.supervisor()}
        assert len(members) >= 4 and not members & launcher, members
        os.kill(job.supervisor(), signal.SIGKILL)
        assert job.wait() == 125
        job.expect_nothing_left()
        assert not folder.exists()


@test("7", "without a cgroup processes that a worker left in other sessions end with the job")
def subreaper() -> None:
    leaves_an_orphan(without_cgroup())


@test("8", "the process group of a failed worker is killed while others still have their grace period")
def group() -> None:
    script = ('[ "$RANK" = 0 ] && { trap "until [ -e end ]; do sleep 0.01; done; exit 0" TERM; echo ready; '
              'while :; do sleep 0.01; done; }\n'
              "for i in 1 2 3; do sh -c 'trap \"\" TERM; echo child $$.; while :; do sleep 0.05; done' & done\n"
              + WAITS_FOR_GO + "kill -KILL $$")
    with Job("--grace=100", "--tag=", "--nproc-per-node=2", "sh", "-c", script) as job:
        job.wait_for(".", 3)
        job.wait_for("ready")
        children = [int(pid) for pid in re.findall(r"child (\d+)\.", job.out())]
        pathlib.Path(job.path("go")).touch()
        eventually("the group is gone", lambda: not any(state_of(pid) not in ("", "Z") for pid in children))
        assert job.process.poll() is None, "the other worker has its grace"
        pathlib.Path(job.path("end")).touch()
        assert job.wait() == 137, job.err()


@test("9", "SIGTERM goes to the worker first and to its children when it has exited")
def leader_first() -> None:
    with Job("--tag=", "--grace=100", *python("""
if os.fork() == 0:
    signal.signal(signal.SIGTERM, lambda *_: (os.write(1, b"child asked\\n"), os._exit(0)))
    os.write(1, b"child ready\\n")
    while True: signal.pause()
def leave(*_):
    time.sleep(0.5)
    os.write(1, b"worker leaves\\n")
    os._exit(0)
signal.signal(signal.SIGTERM, leave)
os.write(1, b"worker ready\\n")
while True: signal.pause()
""")) as job:
        job.wait_for("ready", 2)
        job.signal(signal.SIGTERM)
        assert job.wait() == -signal.SIGTERM, job.err()
        assert job.out().endswith("worker leaves\nchild asked\n"), job.out()
        job.expect_nothing_left()


def time_to_end(grace: str) -> float:
    with Job(f"--grace={grace}", "sh", "-c", IGNORES_TERM) as job:
        job.wait_for("ready")
        begin = time.monotonic()
        job.signal(signal.SIGTERM)
        assert job.wait() == -signal.SIGTERM
        assert "SIGTERM, then SIGKILL after the grace period of" in job.err(), job.err()
        return time.monotonic() - begin


@test("10", "SIGKILL follows after --grace, and at once after --grace=0")
def grace() -> None:
    time_to_end("0")
    assert time_to_end("1.5") >= 1.5


@test("10", "a second request does not wait for the grace period")
def second_request() -> None:
    with Job("--grace=1000", "sh", "-c", IGNORES_TERM) as job:
        job.wait_for("ready")
        job.signal(signal.SIGTERM)
        eventually("it says what it waits for", lambda: "waiting for rank 0 to exit" in job.err())
        job.signal(signal.SIGTERM)
        assert job.wait() == -signal.SIGTERM
        assert "SIGTERM, then SIGKILL on a second request" in job.err(), job.err()


@test("11", "a program that cannot be started is distinguished from one that fails, and no rank runs")
def bad_targets() -> None:
    foreign = bytearray(pathlib.Path(LAUNCHER).read_bytes()[:64]) + bytes(4096)
    foreign[18:20] = (0x5a5a).to_bytes(2, "little")  # this field is e_machine
    with Job("-q", "true") as place:
        place.wait()
        files = {"foreign": bytes(foreign), "orphaned": b"#!/no/such/interpreter\n", "plain": b"echo hello\n"}
        for name, content in files.items():
            path = pathlib.Path(place.path(name))
            path.write_bytes(content)
            path.chmod(0o644 if name == "plain" else 0o755)
        cases = [("./missing", 127, "missing"), (place.folder, 126, "directory"), ("./plain", 126, "not executable"),
                 ("./orphaned", 127, "interpreter"), ("./foreign", 126, "another architecture")]
        for program, expected, word in cases:
            code, out, err = run_job("--nproc-per-node=3", program, cwd=place.folder)
            assert code == expected and word in err and not out, (program, code, err)
            assert "failed:" not in err and "pid" not in err, err


def descriptors(*, via: tuple[str, ...] = ()) -> None:
    ends = os.pipe()
    for end in ends:
        os.set_inheritable(end, True)
    script = "print(sorted(int(fd) for fd in os.listdir('/proc/self/fd') if os.path.lexists('/proc/self/fd/' + fd)))"
    code, out, err = run_job("--tag=", "--nproc-per-node=3", *python(script), via=via, close_fds=False)
    for end in ends:
        os.close(end)
    assert code == 0 and out == "[0, 1, 2, 196, 197]\n" * 3, (code, out, err)


@test("13", "workers inherit only the first three descriptors, the ring and the page")
def no_descriptors() -> None:
    descriptors()
    if subprocess.run([HELPER, "close-range", "--", "true"]).returncode == 0:
        descriptors(via=(HELPER, "close-range", "--"))


@test("14", "workers inherit neither blocked nor ignored signals")
def clean_signals() -> None:
    def spoil() -> None:
        for number in (signal.SIGPIPE, signal.SIGQUIT, signal.SIGUSR1, signal.SIGCHLD, signal.SIGTTIN, signal.SIGHUP):
            signal.signal(number, signal.SIG_IGN)
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM, signal.SIGUSR2, signal.SIGCHLD, signal.SIGINT})
    code, out, err = run_job("--tag=", "cat", "/proc/self/status", preexec_fn=spoil, restore_signals=False)
    assert code == 0, err
    for name in ("SigBlk", "SigIgn"):
        assert re.search(name + r":\t0+\n", out), out


@test("21", "the launcher exits with the code of the first cause")
def exit_codes() -> None:
    cases = [("exit 0", [], 0), ("exit 3", [], 3), ("exit 255", [], 255), ("kill -KILL $$", [], 137),
             ("kill -ABRT $$", ["--core=off"], 134), ("kill -TERM $$", [], 143),
             ('[ "$RANK" = 0 ] && exec sleep 100; exit 0', ["--exit-timeout=0.2"], 124),
             ('[ "$RANK" = 0 ] && { trap "exit 7" TERM; while :; do sleep 0.01; done; }; exit 9', [], 9),
             ("exit 0", ["--log-dir=/proc/no/such"], 125), ("exit 0", ["--no-such-option"], 2)]
    for script, options, expected in cases:
        code, _, err = run_job(*options, "--nproc-per-node=2", "sh", "-c", script)
        assert code == expected, (script, options, code, err)


@test("21", "the rank with the first error record is named even if its process exits slowly")
def slow_to_end() -> None:
    script = """
own = os.environ["TORCHELASTIC_ERROR_FILE"]
def write(name, text):
    with open(name + ".tmp", "w") as file: file.write('{"message": "%s"}' % text)
    os.rename(name + ".tmp", name)
if rank == 1:
    write(own, "bad batch")
    write("written", "")
    time.sleep(1000)
while not os.path.exists("written"): time.sleep(0.01)
write(own, "connection closed by peer")
while os.stat(own).st_mtime_ns <= os.stat("written").st_mtime_ns: write(own, "connection closed by peer")
sys.exit(3)
"""
    code, _, err = run_job("--nproc-per-node=2", *python(script))
    assert code == 3 and re.search(r"rank 1 \(pid \d+\) failed with an error, .*terminated", err), (code, err)
    assert "| bad batch" in err and "rank 0 failed too: exit code 3" in err, err


@test("21 22", "a launcher that a signal ends dies of that signal")
def dies_of_the_signal() -> None:
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        with Job("--nproc-per-node=2", "sh", "-c", "echo ready; exec sleep 100") as job:
            job.wait_for("ready", 2)
            job.signal(number)
            assert job.wait() == -number, (number, job.err())
            assert f"terminated by {signal.Signals(number).name}" in job.err()
            job.expect_nothing_left()


COUNTS = """
counts = {signal.SIGUSR1: 0, signal.SIGUSR2: 0}
def count(number, _):
    counts[number] += 1
    os.write(1, b"got %d\\n" % sum(counts.values()))
for number in counts: signal.signal(number, count)
if os.fork() == 0:
    while True: signal.pause()  # a child in the group: not asked, or it would say so
os.write(1, b"ready\\n")
while sum(counts.values()) < 5: signal.pause()
print("counted", *counts.values(), flush=True)
"""


@test("26", "SIGUSR1 and SIGUSR2 are passed on to the workers alone, and the job goes on")
def user_signals() -> None:
    with Job("--tag=", "--nproc-per-node=2", *python(COUNTS)) as job:
        job.wait_for("ready", 2)
        for i, number in enumerate([signal.SIGUSR1, signal.SIGUSR2, signal.SIGUSR1, signal.SIGUSR1, signal.SIGUSR2]):
            job.signal(number)
            job.wait_for(f"got {i + 1}\n", 2)
        assert job.wait() == 0, job.err()
        assert job.out().count("counted 3 2\n") == 2 and job.out().count("got") == 10, job.out()


@test("26", "a signal that comes while a job ends does not change how it ends")
def signals_at_the_end() -> None:
    for number in (signal.SIGQUIT, signal.SIGUSR1):
        for _ in range(20):
            with Job("--nproc-per-node=4", "sh", "-c", "echo ready; while [ ! -e go ]; do sleep 0.01; done") as job:
                job.wait_for("ready", 4)
                supervisor = job.supervisor()
                pathlib.Path(job.path("go")).touch()
                children = pathlib.Path(f"/proc/{supervisor}/task/{supervisor}/children")
                with contextlib.suppress(OSError):  # the supervisor has ended
                    while children.read_text():  # SIGUSR1 would terminate a worker
                        pass
                while job.process.poll() is None:
                    job.signal(number)
                assert job.wait() == 0, (number, job.err())


@test("25", "SIGHUP ends a job, but not one under nohup")
def hang_up() -> None:
    ignore = lambda: signal.signal(signal.SIGHUP, signal.SIG_IGN)
    script = "trap 'echo asked; exit 0' USR1; echo ready; while :; do sleep 0.01; done"
    with Job("sh", "-c", script, preexec_fn=ignore) as job:
        job.wait_for("ready")
        job.signal(signal.SIGHUP)
        os.kill(job.supervisor(), signal.SIGHUP)
        job.signal(signal.SIGUSR1)
        assert job.wait() == 0 and "asked" in job.out(), (job.out(), job.err())


@test("39", "killing one of two jobs with the same command line does not end the other")
def only_its_own() -> None:
    command = ["--nproc-per-node=2", "sh", "-c", ORPHAN + "echo worker $$.; sleep 100"]
    with Job(*command) as one, Job(*command) as other:
        for job in (one, other):
            job.wait_for("orphan", 2)
            job.wait_for(".", 2)
        lasting = {pid for pid in map(int, re.findall(r"worker (\d+)\.", other.out()))} | {other.pid, other.supervisor()}
        os.kill(one.supervisor(), signal.SIGKILL)
        one.wait()
        one.expect_nothing_left()
        assert other.process.poll() is None and len(lasting) == 4
        assert all(state_of(pid) not in ("", "Z") for pid in lasting), lasting
        other.signal(signal.SIGTERM)
        assert other.wait() == -signal.SIGTERM


if __name__ == "__main__":
    sys.exit(run_tests())
