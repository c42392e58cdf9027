"""doctor_test.py DDPLAUNCH: runs `ddplaunch doctor` on this machine, and on one that is made small by its limits and
mounts. What the checks find on other machines is in unit/launcher/start/doctor/checks_test.cpp."""
import json
import os
import resource
import subprocess
import sys
import tempfile
import time

LAUNCHER = sys.argv[1]
PATIENCE = 60  # seconds; the doctor itself takes eight at most


def doctor(*words: str, before=None, inside=()) -> subprocess.CompletedProcess:
    return subprocess.run([*inside, LAUNCHER, "doctor", *words], capture_output=True, text=True, timeout=PATIENCE, preexec_fn=before)


def findings(*words: str, before=None, inside=()) -> tuple[dict, int]:
    done = doctor("--json", *words, before=before, inside=inside)
    assert not done.stderr, done.stderr
    report = json.loads(done.stdout)
    assert report["exit_code"] == done.returncode, report
    found: dict = {}
    for each in report["nodes"][0]["findings"]:
        found.setdefault(each["check"], []).append(each)
    return found, done.returncode


def grades(found: dict, check: str) -> list:
    return [each["grade"] for each in found[check]]


def every_check_answers() -> None:
    began = time.monotonic()
    found, code = findings()
    print(f"{sum(map(len, found.values()))} findings after {time.monotonic() - began:.2f} s")
    for check in ("files", "processes", "memory", "shared-memory", "cpus", "interfaces", "gpus", "nccl", "variables", "diagnosis"):
        assert check in found, found
    everything = [each for some in found.values() for each in some]
    assert all(each["text"] for each in everything), everything
    assert all(each["remedy"] for each in everything if each["grade"] in ("warn", "fail")), everything
    assert (code == 2) == any(each["grade"] == "fail" for each in everything), everything


def lines_are_for_a_person() -> None:
    done = doctor()
    lines = done.stdout.splitlines()
    assert "worker" in lines[0] and lines[-1].endswith(" ok"), done.stdout
    assert all(line.startswith("  ") for line in lines[1:-1]), done.stdout


def a_low_limit_is_found() -> None:
    limit = lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (512, 512))  # noqa: E731
    found, _ = findings(before=limit)
    assert grades(found, "files") == ["warn"], found
    assert doctor("--strict", before=limit).returncode in (1, 2)
    found, code = findings("--nproc-per-node=200", before=limit)
    assert grades(found, "files") == ["fail"] and code == 2, found


def a_variable_is_found() -> None:
    os.environ["NCCL_SOCKET_IFNAM"] = "eth0"
    found, _ = findings()
    del os.environ["NCCL_SOCKET_IFNAM"]
    assert "NCCL_SOCKET_IFNAME" in found["variables"][0]["remedy"], found


def checkpoints_are_tried() -> None:
    with tempfile.TemporaryDirectory() as folder:
        found, _ = findings(f"--checkpoint-dir={folder}")
        assert grades(found, "checkpoints") in (["ok"], ["warn"]), found
        assert not os.listdir(folder), os.listdir(folder)  # nothing is left behind
    found, code = findings("--checkpoint-dir=/proc/none")
    assert grades(found, "checkpoints") == ["fail"] and code == 2, found


def a_program_is_checked() -> None:
    found, code = findings("--nproc-per-node=2", "/bin/true")
    assert found["program"][0]["text"] == "/bin/true, 2 workers" and grades(found, "program") == ["ok"], found
    found, code = findings("./none", "--lr=1")
    assert grades(found, "program") == ["fail"] and "./none" in found["program"][0]["text"] and code == 2, found


def small_mounts_are_found() -> None:
    if os.geteuid() != 0:
        return print("not root: no mounts")
    with tempfile.TemporaryDirectory() as folder:
        script = f"mount -t tmpfs -o size=64m tmpfs /dev/shm && mount -t tmpfs -o size=64k tmpfs {folder} && exec \"$@\""
        inside = ["unshare", "--mount", "sh", "-c", script, "sh"]
        found, code = findings(f"--checkpoint-dir={folder}", inside=inside)
    assert grades(found, "shared-memory") in (["warn"], ["fail"]), found
    assert grades(found, "checkpoints") == ["fail"] and "No space left" in found["checkpoints"][0]["text"], found
    assert code == 2


def a_driver_that_hangs_is_named_in_time() -> None:
    if os.geteuid() != 0:
        return print("not root: no mounts")
    gpu = "/proc/driver/nvidia/gpus/0000:01:00.0"
    script = f"mount -t tmpfs tmpfs /proc/driver && mkdir -p {gpu} && mkfifo {gpu}/information && exec \"$@\""
    inside = ["unshare", "--mount", "sh", "-c", script, "sh"]
    began = time.monotonic()
    found, code = findings("/bin/true", inside=inside)
    print(f"a driver that hangs: {time.monotonic() - began:.1f} s")
    assert grades(found, "gpus") == ["fail"] and grades(found, "program") == ["unknown"] and code == 2, found
    assert grades(found, "memory") == ["ok"] and "facts" not in found, found
    job = subprocess.run([*inside, LAUNCHER, "--check", "/bin/true"], capture_output=True, text=True, timeout=PATIENCE)
    assert job.returncode == 2 and "the files of the driver cannot be read: no answer within 5.0 s" in job.stderr, job
    # A driver that answers at last holds up a job, and does not fail it.
    job = subprocess.Popen([*inside, LAUNCHER, "echo", "it runs"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    said = job.stderr.readline()
    with open(f"/proc/{job.pid}/root{gpu}/information", "w") as information:
        information.write("Model: Slow\nGPU UUID: GPU-0\nDevice Minor: 0\n")
    output, errors = job.communicate(timeout=PATIENCE)
    assert "the files of the NVIDIA driver do not answer. Waiting for them" in said, said
    assert job.returncode == 0 and "it runs" in output and "(GPU 0)" in errors, (output, errors)


def wrong_words_are_refused() -> None:
    for words, says in ((("--jsn",), "Did you mean --json?"), (("--nnodes=2",), "--rdzv-endpoint"),
                        (("--nproc-per-node=0",), "--nproc-per-node")):
        done = doctor(*words)
        assert done.returncode == 2 and says in done.stderr, done
    with open("/dev/full", "w") as full:
        assert subprocess.run([LAUNCHER, "doctor"], stdout=full, stderr=subprocess.PIPE, timeout=PATIENCE).returncode == 125


for test in (every_check_answers, lines_are_for_a_person, a_low_limit_is_found, a_variable_is_found, a_program_is_checked, checkpoints_are_tried,
             small_mounts_are_found, a_driver_that_hangs_is_named_in_time, wrong_words_are_refused):
    test()
    print(f"{test.__name__}: ok", flush=True)
