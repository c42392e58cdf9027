#!/usr/bin/env python3
"""gpu_counters_test.py BIN_DIR FAKE_NVML_DIR: a rank whose GPU works is not reported as hanging, even if its
processes are idle. A rank whose GPU cannot be read is not terminated either. The GPUs are files in a mount
namespace, and their library is a fake."""
import concurrent.futures
import json
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
from event_lines import eventually_event, read_events  # noqa: E402

BIN = pathlib.Path(sys.argv[1]).resolve()
FAKE_NVML = pathlib.Path(sys.argv[2]).resolve()
SKIPPED = 77
STILL = 12  # seconds without a sign of life, instead of half an hour


class Machine:
    """Simulates a node with two GPUs: GPU-0 and GPU-1."""

    def __init__(self) -> None:
        self.folder = tempfile.TemporaryDirectory()
        self.path = pathlib.Path(self.folder.name)
        self.state = self.path / "state"
        for number in range(2):
            gpu = self.path / f"driver/nvidia/gpus/0000:0{number}:00.0"
            gpu.mkdir(parents=True)
            (gpu / "information").write_text(f"GPU UUID: \t GPU-{number}\nDevice Minor: \t {number}\n")

    def command(self, *words: object) -> list[str]:
        """Returns the command that runs `words` on this node."""
        mount = f'mount --bind {self.path}/driver /proc/driver && exec "$@"'
        return ["unshare", "--mount", "sh", "-c", mount, "sh", *map(str, words)]

    def do(self, *lines: str) -> None:
        """Sets what the GPUs do from now on: BUSY_PERCENT PCIE_BYTES NVLINK_KIB PID of each."""
        new = self.path / "new"
        new.write_text("".join(f"GPU-{number} {line}\n" for number, line in enumerate(lines)))
        new.rename(self.state)

    def environment(self, nvml: pathlib.Path = FAKE_NVML) -> dict[str, str]:
        return {**os.environ, "LD_LIBRARY_PATH": str(nvml), "FAKE_NVML": str(self.state), "DDP_TEST_STILL_LIMIT": str(STILL)}


class HangingJob:
    """Runs a job of two ranks. Rank 1, which has GPU-1, does nothing."""

    def __init__(self, machine: Machine, nvml: pathlib.Path = FAKE_NVML) -> None:
        self.log = machine.path / "events"
        command = machine.command(BIN / "ddplaunch", "--nproc-per-node=2", f"--event-log={self.log}", BIN / "hanging_worker", "pause")
        self.process = subprocess.Popen(command, env=machine.environment(nvml), stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                        text=True)

    def hangs(self) -> list[dict]:
        return [event for event in read_events(self.log) if event["event"] == "hang"]

    def is_reported(self) -> None:
        eventually_event(lambda: self.hangs(), self.process, "the note on the stall")

    def ends(self) -> str:
        _, err = self.process.communicate(timeout=120)
        assert self.process.returncode == 124, (self.process.returncode, err)
        return err

    def lives(self, seconds: float) -> None:
        time.sleep(seconds)
        assert self.process.poll() is None, self.process.communicate()

    def stop(self) -> None:
        self.process.terminate()
        self.process.communicate(timeout=60)


def a_rank_whose_gpu_works_is_alive(works: str) -> None:
    machine = Machine()
    machine.do("100 0 - -", works.format(moved=0))
    job = HangingJob(machine)
    job.is_reported()
    for second in range(2 * STILL):
        machine.do("100 0 - -", works.format(moved=second << 20))
        job.lives(1)
    machine.do("100 0 - -", "0 0 0 -")
    err = job.ends()
    assert "rank 1 has not called" in err and "no sign of life" in err, err


def nothing_is_known_of_a_gpu_that_does_not_answer() -> None:
    silent, mute, partly = Machine(), Machine(), Machine()
    nowhere = silent.path / "nothing"
    nowhere.mkdir()
    partly.do("0 0 - -", "- 0 - -")
    jobs = [HangingJob(silent), HangingJob(mute, nowhere), HangingJob(partly)]
    for job in jobs:
        job.is_reported()
    jobs[0].lives(2 * STILL)
    for job in jobs:
        job.lives(0)
        job.stop()


def the_reader_tells_what_the_driver_tells() -> None:
    machine = Machine()
    machine.do("5 100 - -", "6 200 3 4711,4712:1048576")
    with subprocess.Popen([BIN / "ddp_gpu_reader"], env=machine.environment(), stdout=subprocess.PIPE, text=True) as reader:
        gpus = json.loads(reader.stdout.readline())
        reader.stdout.close()
        assert reader.wait(60) == -signal.SIGPIPE, reader.returncode
    sees_node = os.readlink("/proc/self/ns/pid") == "pid:[4026531836]"
    common = {"has_node_pids": not sees_node}
    holders = [{"pid": 4711, "bytes": None}, {"pid": 4712, "bytes": 1048576}]
    assert gpus == [{"uuid": "GPU-0", "busy_percent": 5, "moved_bytes": 100, "processes": [], "holders": [], **common},
                    {"uuid": "GPU-1", "busy_percent": 6, "moved_bytes": 200 + 3 * 1024,
                     "processes": [4711, 4712] if sees_node else [], "holders": holders, **common}], gpus
    nothing = machine.path / "nothing"
    nothing.mkdir()
    missing = subprocess.run([BIN / "ddp_gpu_reader"], env=machine.environment(nothing), capture_output=True, text=True)
    assert missing.returncode == 1 and "libnvidia-ml.so.1" in missing.stderr, missing


the_reader_tells_what_the_driver_tells()
probe = Machine()
if subprocess.run(probe.command("true"), capture_output=True).returncode != 0:
    print("no mount namespace can be made here: only the reader was tested")
    sys.exit(SKIPPED)
with concurrent.futures.ThreadPoolExecutor() as pool:
    tests = [pool.submit(a_rank_whose_gpu_works_is_alive, works) for works in ("37 0 - -", "0 {moved} - -", "0 0 {moved} -")]
    tests.append(pool.submit(nothing_is_known_of_a_gpu_that_does_not_answer))
    for test in tests:
        test.result()
