#!/usr/bin/env python3
"""switch_bench.py BIN_DIR [--torch PYTHON] [--rounds N] [--json FILE]: measures the table "Why switch?" of the README.

Starts the same programs under ddplaunch, torchrun, mpirun and srun (two workers on this node; Slurm runs in its own
folder). It measures each cell: start, failure, exit code, a rank that hangs, orphans after SIGKILL, torn lines, and
whether another user can write to the store. Needs root for srun and for the other user. Launchers that are not
installed are left out.
"""
import argparse
import contextlib
import json
import os
import pathlib
import re
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
HANG_SECONDS = 30   # seconds for which a job that hangs is watched
ORPHAN_SECONDS = 5  # seconds that processes may live after SIGKILL of their launcher
LINES = 3000        # per worker, each written in three parts
# Sets torchrun's variables for a worker's place under any launcher.
PLACE = ("export RANK=${RANK:-${OMPI_COMM_WORLD_RANK:-$SLURM_PROCID}} WORLD_SIZE=2 MASTER_ADDR=${MASTER_ADDR:-127.0.0.1} "
         "MASTER_PORT=${MASTER_PORT:-29533}; ")


def launchers(options: argparse.Namespace) -> dict[str, list[str]]:
    """Maps each launcher to the words before the program's words."""
    found = {"ddplaunch": [str(options.bin / "ddplaunch"), "--nproc_per_node=2"]}
    if options.torch:
        found["torchrun"] = [options.torch, "-m", "torch.distributed.run", "--nproc_per_node=2", "--no_python"]
    if shutil.which("mpirun"):
        root = ["--allow-run-as-root"] if os.geteuid() == 0 else []
        found["mpirun"] = ["mpirun", *root, "--oversubscribe", "-n", "2"]
    if shutil.which("slurmctld") and os.geteuid() == 0:
        found["srun"] = ["srun", "-N1", "-n2"]
    return found


def shell(script: str) -> list[str]:
    return ["sh", "-c", PLACE + script]


def start(words: list[str], rounds: int) -> float:
    """Returns the milliseconds of a whole run of /bin/true."""
    times = []
    for _ in range(rounds):
        begin = time.monotonic()
        subprocess.run([*words, "/bin/true"], capture_output=True, timeout=60)
        times.append(time.monotonic() - begin)
    return 1000 * statistics.median(times)


def failure(words: list[str], rounds: int) -> tuple[float, int]:
    """Returns the milliseconds from a worker's exit with 3 to the launcher's end, and its exit code. The other
    worker sleeps."""
    times, code = [], 0
    for _ in range(rounds):
        with tempfile.TemporaryDirectory() as folder:
            script = (f"touch {folder}/$RANK; [ $RANK = 1 ] && exec sleep 60; "
                      f"until [ -e {folder}/1 ]; do sleep 0.01; done; sleep 0.2; date +%s.%N > {folder}/end; exit 3")
            code = subprocess.run([*words, *shell(script)], capture_output=True, timeout=120).returncode
            times.append(time.time() - float(pathlib.Path(folder, "end").read_text()))
    return 1000 * statistics.median(times), code


def hang(words: list[str], python: str) -> tuple[float | None, str]:
    """Returns the seconds until the launcher prints a line about a rank that hangs, and that line, or None if it
    prints nothing."""
    program = shell(f"exec {python} {ROOT}/docs/recording/train.py hang")
    begin, last_step, found = time.monotonic(), 0.0, None
    with tempfile.NamedTemporaryFile("w+", errors="replace") as output:
        job = subprocess.Popen([*words, *program], stdout=output, stderr=subprocess.STDOUT)
        while found is None and time.monotonic() < (last_step or begin) + HANG_SECONDS:
            time.sleep(0.05)
            text = pathlib.Path(output.name).read_text(errors="replace")
            if "step 20" in text and not last_step:
                last_step = time.monotonic()
            if last_step:
                found = re.search(r"^.*\brank 1\b.*", text[text.find("step 20"):], re.MULTILINE)
        seconds = time.monotonic() - last_step
        end(job)
    return (round(seconds, 1), found[0]) if found else (None, "")


def end(job: subprocess.Popen) -> None:
    job.terminate()
    with contextlib.suppress(subprocess.TimeoutExpired):
        job.wait(timeout=20)
    job.kill()


def with_mark(mark: str) -> list[int]:
    found = []
    for entry in pathlib.Path("/proc").iterdir():
        with contextlib.suppress(OSError, ValueError):
            if entry.name.isdigit() and mark.encode() in (entry / "environ").read_bytes() and b"\0Z" not in (entry / "stat").read_bytes():
                found.append(int(entry.name))
    return found


def orphans(words: list[str]) -> int:
    """Returns the number of processes of the job that live 5 s after SIGKILL of the launcher. Each worker has
    started one in a new session."""
    mark = f"DDP_SWITCH_MARK={os.getpid()}.{time.monotonic_ns()}"
    with tempfile.TemporaryDirectory() as folder:
        script = f"export {mark}; setsid sleep 300 & touch {folder}/$RANK; exec sleep 300"
        job = subprocess.Popen([*words, *shell(script)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        limit = time.monotonic() + 60
        while len(os.listdir(folder)) < 2 and time.monotonic() < limit:
            time.sleep(0.05)
        time.sleep(0.5)
        job.kill()
        job.wait()
        time.sleep(ORPHAN_SECONDS)
        left = with_mark(mark)
        for pid in left:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
    return len(left)


def torn_lines(words: list[str]) -> int:
    """Returns the number of lines that do not begin where a worker began one. Each worker writes a line in three
    parts, like programs that print several values."""
    program = ("import os,sys\n"
               f"for i in range({LINES}):\n"
               "  for part in ('<rank', ' ' + 'x' * 60, ' end>\\n'): os.write(1, part.encode())\n")
    output = subprocess.run([*words, "python3", "-c", program], capture_output=True, text=True, timeout=120).stdout
    whole = re.compile(r"(.*\] ?|\d+: )?<rank x+ end>")
    return sum(whole.fullmatch(line) is None for line in output.splitlines() if line)


def store_for_others(words: list[str]) -> str:
    """Returns whether another user of this node can write to the store."""
    with tempfile.TemporaryDirectory() as folder:
        script = f"echo $MASTER_PORT > {folder}/$RANK; exec sleep 60"
        job = subprocess.Popen([*words, *shell(script)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        limit = time.monotonic() + 60
        while not pathlib.Path(folder, "0").exists() and time.monotonic() < limit:
            time.sleep(0.05)
        time.sleep(0.5)
        port = int(pathlib.Path(folder, "0").read_text())
        # TCPStore's protocol: VALIDATE with its magic number, SET x to y, GET x. Debian's Python, which everyone can run.
        client = ("import socket, struct\n"
                  "text = lambda t: struct.pack('=Q', len(t)) + t\n"
                  f"s = socket.create_connection(('127.0.0.1', {port}), 5)\n"
                  "s.sendall(struct.pack('=BI', 0, 0x3C85F7CE) + b'\\1' + text(b'x') + text(b'y') + b'\\3' + text(b'x'))\n"
                  "print('read', s.recv(9)[8:])")
        done = subprocess.run(["runuser", "-u", "nobody", "--", "/usr/bin/python3", "-c", client], capture_output=True,
                              text=True, cwd="/", timeout=60)
        end(job)
    if "read b'y'" in done.stdout:
        return "writes"
    assert "read b''" in done.stdout or "reset" in done.stderr, (done.stdout, done.stderr)
    return "refused"


@contextlib.contextmanager
def slurm(is_wanted: bool):
    """Runs a cluster for srun during the `with` block."""
    if not is_wanted:
        yield
        return
    sys.path.insert(0, str(ROOT / "tests/integration"))
    sys.argv[1:] = [sys.argv[1]]
    from slurm_test import Slurm
    with tempfile.TemporaryDirectory() as folder:
        cluster = Slurm(pathlib.Path(folder))
        os.environ["SLURM_CONF"] = cluster.environment["SLURM_CONF"]
        try:
            yield
        finally:
            cluster.stop()


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("bin", type=pathlib.Path)
    parser.add_argument("--torch", default="", help="a Python with PyTorch 2.12 or newer")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--only", default="")
    parser.add_argument("--json", type=pathlib.Path)
    options = parser.parse_args()
    options.bin = options.bin.resolve()
    found = launchers(options)
    if options.only:
        found = {name: words for name, words in found.items() if name in options.only.split(",")}
    result: dict[str, dict] = {}
    with slurm("srun" in found):
        for name, words in found.items():
            own: dict = {"start_ms": round(start(words, options.rounds), 1)}
            own["failure_ms"], own["exit_code"] = failure(words, options.rounds)
            own["failure_ms"] = round(own["failure_ms"], 1)
            own["orphans"] = orphans(words)
            own["torn_lines"] = torn_lines(words)
            if options.torch:
                own["hang_reported_s"], own["hang_line"] = hang(words, options.torch)
            if os.geteuid() == 0 and name in ("ddplaunch", "torchrun"):
                own["store_for_others"] = store_for_others(words)
            result[name] = own
            print(name, json.dumps(own), flush=True)
    if options.json:
        options.json.write_text(json.dumps(result, indent=2) + "\n")


if __name__ == "__main__":
    main()
