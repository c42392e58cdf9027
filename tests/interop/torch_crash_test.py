#!/usr/bin/env python3
"""torch_crash_test.py DDPLAUNCH [NAME...]: crashes PyTorch programs in native code, and checks that the report names the
line, and that nothing that ddplaunch does for that keeps a program from ending. Uses the Python of the environment
"pytorch". torch_blame_test.py has programs that Gloo aborts.
"""
import pathlib
import re
import subprocess
import sys
import tempfile
import textwrap
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
import environments  # noqa: E402  (it is in another folder)
from named_runs import run_named  # noqa: E402

LIMIT = 120  # seconds for one job on a busy computer
BEGIN = """
    import ctypes, faulthandler, os, signal, sys, time
    import torch, torch.distributed as dist

    def reader():
        for name in filter(str.isdigit, os.listdir("/proc")):
            try:
                with open(f"/proc/{name}/stat", errors="replace") as file:
                    words = file.read().replace(")", "(").split("(")
                if words[1].startswith("ddp_torch_read") and int(words[2].split()[1]) == os.getppid():
                    return int(name)
            except OSError:
                pass

    def until_reader_runs():
        while reader() is None:
            time.sleep(0.05)

"""
INIT = """
    dist.init_process_group("gloo")
    dist.all_reduce(torch.ones(4))
    until_reader_runs()
    is_one = dist.get_rank() == 1
"""
END = """
    dist.all_reduce(torch.ones(4))
    time.sleep(60)
"""
# For each program: what rank 1 does, a pattern in the output, and what precedes the process group. "LINE" is that of the
# comment "# crashes".
PROGRAMS = {
    "segmentation_fault": ("if is_one: ctypes.string_at(0)  # crashes",
                           r"killed by SIGSEGV(.*\n)*.*  at \S+:LINE in <module>"),
    "abort": ("if is_one: os.abort()  # crashes", r"killed by SIGABRT(.*\n)*.*  at \S+:LINE in <module>"),
    "signal_of_another_process": ("if is_one: os.kill(os.getpid(), signal.SIGFPE)  # crashes",
                                  r"killed by SIGFPE(.*\n)*.*  at \S+:LINE in <module>"),
    "without_reader": ("""
    if is_one:
        os.kill(reader(), signal.SIGKILL)
        ctypes.string_at(0)  # crashes
    """, r"killed by SIGSEGV(.*\n)*.*  at \S+:LINE in <module>"),
    "stopped_reader": ("""
    if is_one:
        os.kill(reader(), signal.SIGSTOP)
        ctypes.string_at(0)
    """, r"killed by SIGSEGV"),
    # A child's crash is not the worker's.
    "child_process": ("""
    if is_one:
        child = os.fork()
        if child == 0:
            ctypes.string_at(0)
        assert os.WTERMSIG(os.waitpid(child, 0)[1]) == signal.SIGSEGV
        raise ValueError("its child crashed")  # crashes
    """, r"its child crashed(.*\n)*.*  at \S+:LINE in <module>"),
    "closed_descriptors": ("""
    if is_one:
        for number in range(3, 4096):
            try:
                # The threads of Gloo and of the store abort the program if they miss theirs first.
                target = os.readlink(f"/proc/self/fd/{number}")
                if not target.startswith(("socket:", "anon_inode:")): os.close(number)
            except OSError:
                pass
        ctypes.string_at(0)
    """, r"killed by SIGSEGV"),
    # A virtual machine handles this signal. faulthandler would pass on one that has not come from the kernel.
    "handler_of_a_library": ("""
    assert not faulthandler.is_enabled()
    if is_one:
        signal.raise_signal(signal.SIGSEGV)
        assert caught == [signal.SIGSEGV]
        raise ValueError("the program went on")  # crashes
    """, r"the program went on(.*\n)*.*  at \S+:LINE in <module>", """
    caught = []
    handler = ctypes.CFUNCTYPE(None, ctypes.c_int)(caught.append)
    ctypes.CDLL(None).signal(signal.SIGSEGV, handler)
    """),
    "faulthandler_of_the_program": ("""
    faulthandler.enable()
    if is_one: ctypes.string_at(0)
    """, r"\[1\] Fatal Python error: Segmentation fault(.*\n)*.*killed by SIGSEGV"),
}


def run(python, name):
    """Returns what is wrong, and the whole output."""
    does, pattern, *before = PROGRAMS[name]
    text = "\n".join(map(textwrap.dedent, [BEGIN, *before, INIT, does, END]))
    line = next((number for number, one in enumerate(text.splitlines(), 1) if one.endswith("# crashes")), 0)
    with tempfile.TemporaryDirectory() as folder:
        script = pathlib.Path(folder) / "train.py"
        script.write_text(text)
        begun = time.monotonic()
        job = subprocess.run([sys.argv[1], "--nproc-per-node=2", python, str(script)], text=True, errors="replace",
                             capture_output=True, timeout=LIMIT)
        seconds = time.monotonic() - begun
    output = f"{job.stdout}{job.stderr}\n({seconds:.1f} s)"
    if "ddplaunch: error: rank 1 " not in output:
        return "rank 1 is not named", output
    if not re.search(pattern.replace("LINE", str(line)), output):
        return f"the output does not show {pattern}, line {line}", output
    return "", output


def main():
    python = environments.need("pytorch")
    return run_named(sys.argv[2:] or list(PROGRAMS), lambda name: run(python, name), 2, str)


sys.exit(main())
