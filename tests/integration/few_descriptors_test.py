#!/usr/bin/env python3
"""Tests a low limit of open files (ulimit -n). Whatever cannot be opened, the error names the limit and the remedy,
and nothing else. launched_job.py describes argv."""
import os
import pathlib
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


@test("descriptors", "with 8 and with 12 the error names the limit, what is needed, and a command that helps")
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


@test("descriptors", "as many as the error asks for are enough, with all outputs that there are")
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


@test("descriptors", "ranks whose user may have few of them under way connect to each other")
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


@test("descriptors", "a low soft limit is raised")
def soft() -> None:
    code, out, err = run_job("sh", "-c", "ulimit -Sn", via=["sh", "-c", 'ulimit -Sn 8; exec "$@"', "sh"])
    assert code == 0 and int(out) > 8, (code, out, err)


@test("descriptors", "where others are open already, the job runs, or the error names the limit")
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


if __name__ == "__main__":
    sys.exit(run_tests())
