"""Loses ranks of a training at random moments, in all ways, and checks that it goes on after the last step that all
ranks had finished, and ends with the bits of a training that was not disturbed.

The program gets a folder. It reads from `orders` which fault it has to cause: a byte for each rank, 8 times the number
of the fault and the number of the place. It writes the steps that it has finished to `steps`, 8 bytes for each rank,
and appends a line to `begins` for each rank: the attempt, the rank and the step with which it begins. It prints
"digest RANK BITS".
"""
import mmap
import os
import pathlib
import random
import re
import signal
import subprocess
import tempfile
import time

FAULTS = ["kill", "stop", "exit", "exception", "sleep", "sockets"]  # and "all": all ranks are killed
PLACES = ["forward", "backward", "optimizer", "finish"]
LIMIT = 120 * int(os.environ.get("DDP_TEST_TIME_FACTOR", "1"))
HANG = 3  # seconds
AT_ONCE = 20  # faults in one job
LOST = 48  # most steps that may be lost if all ranks die: 16 without an image after a restart, and two intervals


def kill(pid, number):
    try:
        if pid:
            os.kill(pid, number)
    except ProcessLookupError:
        pass


def fail_if_ordered(orders, rank, place):
    """Causes the fault that the program has to cause in this place, if there is one. Returns its name if it is another one
    than to exit, to raise an exception or to sleep."""
    order = orders[rank]
    if not order or PLACES[order % 8] != place:
        return None
    orders[rank] = 0
    fault = FAULTS[order // 8]
    if fault == "exit":
        os._exit(3)
    if fault == "exception":
        raise ValueError("a fault")
    if fault == "sleep":
        time.sleep(1000)
    return fault


class Job:
    def __init__(self, words, folder, nodes, ranks):
        """`words` are the launcher with its options, and the program."""
        self.folder, self.ranks = folder, ranks * nodes
        for name, size in (("orders", 64), ("steps", 512)):
            (folder / name).write_bytes(bytes(size))
        (folder / "begins").write_text("")
        with open(folder / "steps", "r+b") as steps, open(folder / "orders", "r+b") as orders:
            self.steps, self.orders = mmap.mmap(steps.fileno(), 512), mmap.mmap(orders.fileno(), 64)
        options = [f"--nproc-per-node={ranks}", "--max-restarts=100000", f"--hang-timeout={HANG}", "--image-cost=100%",
                   "--no-tag"]
        if nodes > 1:
            options += [f"--nnodes={nodes}", f"--rdzv-endpoint=127.0.0.1:{random.randrange(20000, 30000)}"]
        self.outputs = [open(folder / f"output.{node}", "w+") for node in range(nodes)]
        self.launchers = [
            subprocess.Popen([str(word) for word in [words[0], *options, *words[1:]]], stdin=subprocess.DEVNULL,
                             stdout=output, stderr=output) for output in self.outputs]

    def step(self):
        """Returns the last step that all ranks have finished."""
        return min(int.from_bytes(self.steps[8 * rank:8 * rank + 8], "little") for rank in range(self.ranks))

    def begins(self):
        """Returns the steps with which each attempt has begun, by attempt."""
        begins = {}
        for line in (self.folder / "begins").read_text().splitlines():
            attempt, _, step = line.split()
            begins.setdefault(int(attempt), []).append(int(step))
        return begins

    def is_running(self):
        return any(launcher.poll() is None for launcher in self.launchers)

    def worker(self, rank):
        for process in pathlib.Path("/proc").iterdir():
            try:
                if process.name.isdigit() and str(self.folder).encode() in (process / "cmdline").read_bytes() and \
                        f"RANK={rank}".encode() in (process / "environ").read_bytes().split(b"\0"):
                    return int(process.name)
            except OSError:
                pass
        return None

    def send(self, rank, number):
        kill(self.worker(rank), number)

    def text(self):
        return "".join((self.folder / f"output.{node}").read_text(errors="replace") for node in range(len(self.outputs)))

    def end(self):
        for launcher in self.launchers:
            if launcher.poll() is None:
                launcher.send_signal(signal.SIGINT)
        for launcher in self.launchers:
            launcher.wait(30)

    def wait_until(self, is_true, what):
        """Returns False if the job ends before."""
        until = time.monotonic() + LIMIT
        while not is_true():
            if not self.is_running():
                return False
            if time.monotonic() > until:
                text = self.text()
                self.end()
                raise AssertionError(f"{what}: not within {LIMIT} s\n{text[-6000:]}")
            time.sleep(0.001)
        return True


class Storm:
    def __init__(self, launcher, program, seed, total_ranks=2):
        """`launcher` and `program` are lists of words. The folder follows."""
        self.launcher, self.program, self.ranks = launcher, program, total_ranks
        self.draw, self.counts, self.expected = random.Random(seed), {}, {}
        print("seed", seed, flush=True)

    def blow(self, faults, layouts=(1, 1, 2)):
        """Causes so many faults in jobs on 1 and 2 nodes."""
        done = 0
        while done < faults:
            nodes = self.draw.choice(layouts)
            if nodes not in self.expected:  # the ranks of one node may have other numbers of threads
                self.expected[nodes] = self._run(nodes, 0)[0]
            digests, caused = self._run(nodes, min(AT_ONCE, faults - done))
            assert digests == self.expected[nodes], (digests, self.expected[nodes])
            done += caused
            print(f"{done} of {faults}: {self.counts}", flush=True)

    def _run(self, nodes, faults):
        with tempfile.TemporaryDirectory() as name:
            folder = pathlib.Path(name)
            job = Job([*self.launcher, *(word.replace("FOLDER", name) for word in map(str, self.program))], folder, nodes,
                      self.ranks // nodes)
            done = 0
            while done < faults and self._disturb(job):
                done += 1
            job.wait_until(lambda: not job.is_running(), "end")
            text = job.text()
            codes = [process.returncode for process in job.launchers]
            left = [rank for rank in range(job.ranks) if job.worker(rank)]
            assert codes == [0] * nodes and not left, (codes, left, text[-8000:])
            return dict(re.findall(r"digest (\d+) (\w+)", text)), done

    def _disturb(self, job):
        """Causes a fault, waits until the job has gone on, and checks where. Returns whether the job still runs."""
        fault, rank = self.draw.choice([*FAULTS, "kill", "kill", "kill", "all"]), self.draw.randrange(job.ranks)
        wanted = job.step() + self.draw.randrange(1, 80 if fault == "all" else 12)
        if not job.wait_until(lambda: job.step() >= wanted, "the next steps"):
            return False
        # The second kill of the fault before may have ended an attempt that had just begun. This one makes steps.
        attempt, before = max(job.begins(), default=0), job.step()
        is_twice = False
        if fault == "all":
            for pid in [job.worker(one) for one in range(job.ranks)]:
                kill(pid, signal.SIGKILL)
        elif fault in ("kill", "stop"):
            time.sleep(self.draw.random() * 0.01)
            if fault == "stop":
                job.send(rank, signal.SIGSTOP)
                time.sleep(self.draw.random() * 0.3)
            job.send(rank, signal.SIGKILL)
            is_twice = self.draw.randrange(4) == 0
        else:
            job.orders[rank] = 8 * FAULTS.index(fault) + self.draw.randrange(len(PLACES))
        if is_twice:  # while the state is copied or loaded
            time.sleep(self.draw.random() * 0.3)
            job.send(self.draw.randrange(job.ranks), signal.SIGKILL)

        def goes_on():
            begins = job.begins()
            return len(begins.get(attempt + 1, [])) == job.ranks or max(begins, default=0) > attempt + 1

        if not job.wait_until(goes_on, f"the restart after {fault}"):
            return False
        if is_twice:  # the second kill may have hit the new attempt
            time.sleep(0.2)
            job.wait_until(lambda: len(job.begins()[max(job.begins())]) == job.ranks, "the second restart")
        self.counts[fault] = self.counts.get(fault, 0) + 1
        self.counts["twice"] = self.counts.get("twice", 0) + is_twice
        begins = job.begins()
        begun = begins[min(number for number in begins if number > attempt)]
        # If all ranks are killed, the job goes on from an image, or from the state that it kept before.
        least = before - LOST if fault == "all" else 0 if is_twice else before
        assert len(set(begun)) == 1 and begun[0] >= least, (fault, before, begun, job.text()[-8000:])
        return True
