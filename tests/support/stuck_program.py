"""Runs programs that must end. If one does not, the stacks of all its processes are shown before it is killed."""
import os
import pathlib
import shutil
import signal
import subprocess


def descendants(pid: int) -> list[int]:
    """Returns the process and all its descendants."""
    found = [pid]
    for process in found:
        for children in pathlib.Path(f"/proc/{process}/task").glob("*/children"):
            try:
                found += [int(child) for child in children.read_text().split()]
            except OSError:
                pass  # the process has just ended
    return found


def stacks_of(pid: int) -> str:
    tool = shutil.which("eu-stack")
    texts = []
    for process in descendants(pid):
        try:
            command = pathlib.Path(f"/proc/{process}/cmdline").read_text().replace("\0", " ")
        except OSError:
            continue
        stack = subprocess.run([tool, "-p", str(process)], capture_output=True, text=True).stdout if tool else "no eu-stack\n"
        texts.append(f"--- {process}: {command}\n{stack}")
    return "".join(texts)


def run_to_end(words: list[str], seconds: int, **options) -> subprocess.CompletedProcess:
    """Does the same as subprocess.run with both outputs captured as text."""
    with subprocess.Popen(words, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE, **options) as process:
        try:
            out, err = process.communicate(timeout=seconds)
        except subprocess.TimeoutExpired:
            stacks = stacks_of(process.pid)
            for pid in reversed(descendants(process.pid)):
                try:
                    os.kill(pid, signal.SIGKILL)
                except ProcessLookupError:
                    pass
            out, err = process.communicate()
            raise AssertionError(f"$ {' '.join(words)}\n{out}{err}did not end within {seconds} s\n{stacks}") from None
    return subprocess.CompletedProcess(words, process.returncode, out, err)
