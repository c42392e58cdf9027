#!/usr/bin/env python3
"""image_dir_test.py BIN_DIR [SEED]: ends jobs with all of their processes, and begins them again with the same --image-dir.
They go on from what was written there, and end with the bits of a job that was not disturbed."""
import os
import pathlib
import random
import re
import signal
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
from lost_ranks import Job, kill  # noqa: E402  (it is in another folder)

BIN = pathlib.Path(sys.argv[1])
SEED = int(sys.argv[2]) if len(sys.argv) > 2 else random.randrange(2**32)
DRAW = random.Random(SEED)
STEPS = 3000
print("seed", SEED, flush=True)


def begin(folder, nodes, *options):
    images = folder / "images"
    return Job([BIN / "ddplaunch", "--backend=cpu", f"--image-dir={images}", *options, BIN / "losing_ranks", folder, STEPS],
               folder, nodes, 2 // nodes)


def images_of(folder):
    """Returns the steps of the images that are complete."""
    images = folder / "images"
    names = os.listdir(images) if images.is_dir() else []
    return [int(match[1]) for name in names if (match := re.fullmatch(r"image-\d+-\d+-step-(\d+)-of-2-replicas", name))]


def kill_all(folder):
    """Ends the launchers and the workers, as a host does that loses its power."""
    for process in pathlib.Path("/proc").iterdir():
        try:
            if process.name.isdigit() and str(folder).encode() in (process / "cmdline").read_bytes() and \
                    int(process.name) != os.getpid():
                kill(int(process.name), signal.SIGKILL)
        except OSError:
            pass


def digests_of(job):
    job.wait_until(lambda: not job.is_running(), "end")
    text, codes = job.text(), [launcher.returncode for launcher in job.launchers]
    assert not any(codes), (codes, text[-6000:])
    return dict(re.findall(r"digest (\d+) (\w+)", text))


def undisturbed():
    with tempfile.TemporaryDirectory() as name:
        return digests_of(begin(pathlib.Path(name), 1))


def all_are_killed(nodes, times, expected):
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        begun = 0
        for _ in range(times):
            job = begin(folder, nodes)
            assert job.wait_until(lambda: max(images_of(folder), default=0) > begun + DRAW.randrange(20, 200), "an image")
            kill_all(folder)
            for launcher in job.launchers:
                launcher.wait(30)
            newest = max(images_of(folder))
            begun = newest
            (folder / "begins").unlink()
        job = begin(folder, nodes)
        found = digests_of(job)
        assert found == expected, (found, expected)
        assert job.begins()[0] == [newest] * 2, (job.begins(), newest)
        assert f"the ranks go on after step {newest}, from image-" in job.text(), job.text()
        # The launcher of a job that has succeeded does not wait until it has removed an older one.
        assert len(images_of(folder)) in (2, 3), os.listdir(folder / "images")
        print(f"{nodes} nodes: all killed, and on from step {newest}", flush=True)


def no_restart_is_left(expected):
    """Without a restart, the survivors keep their state for the next job. No step is lost."""
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        job = begin(folder, 1, "--max-restarts=0", "--image-cost=0")
        assert job.wait_until(lambda: job.step() > 100, "steps")
        before = job.step()
        job.orders[1] = 8 * 2 + 1  # it exits in its backward pass
        job.wait_until(lambda: not job.is_running(), "end")
        assert [launcher.returncode for launcher in job.launchers] == [3], job.text()
        step = max(images_of(folder))
        assert step >= before, (step, before)
        assert "must share" not in job.text(), job.text()
        assert f"step {step} is in {folder}/images: the same job goes on from it if it is started again" in job.text(), job.text()
        (folder / "begins").unlink()
        job = begin(folder, 1, "--max-restarts=0")
        assert digests_of(job) == expected
        assert job.begins() == {0: [step] * 2}, (job.begins(), step)
        print(f"no restart left: on from step {step}", flush=True)


def no_directory(expected):
    """What is no directory is an error. One that cannot be written is a warning, and the job goes on."""
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        (folder / "images").write_text("a file")
        job = begin(folder, 1)
        job.wait_until(lambda: not job.is_running(), "end")
        assert [launcher.returncode for launcher in job.launchers] == [125], job.text()
        assert f"--image-dir={folder}/images cannot be read: Not a directory. Name a directory" in job.text(), job.text()
        (folder / "images").unlink()
        job = begin(folder, 1, "--image-dir=/proc/images")
        assert digests_of(job) == expected
        lines = [line for line in job.text().splitlines() if "--image-dir" in line]
        assert len(lines) == 1 and "is not in --image-dir=/proc/images: " in lines[0], lines


EXPECTED = undisturbed()
all_are_killed(1, 2, EXPECTED)
all_are_killed(2, 1, EXPECTED)
no_restart_is_left(EXPECTED)
no_directory(EXPECTED)
