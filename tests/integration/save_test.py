"""save_test.py BIN: tests --save-grace in Python, and --let-finish, on jobs that are about to end or have ended."""
import os
import pathlib
import re
import signal
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
from ports import free_port  # noqa: E402  (it is in another folder)

BIN = pathlib.Path(sys.argv[1]).resolve()
BINDINGS = pathlib.Path(__file__).resolve().parents[2] / "bindings" / "python"
PROGRAM = """
import os, pathlib, sys, time
import ddp_page
folder = pathlib.Path(sys.argv[1])
(folder / ("ready" + os.environ["RANK"])).touch()
step = 0
while sys.argv[2:] == ["deaf"] or not ddp_page.should_stop():
    step += 1
    ddp_page.progress(step, 100000)
    time.sleep(0.01)
if sys.argv[2:] == ["fails"]:
    sys.exit(3)
(folder / ("saved" + os.environ["RANK"])).touch()
"""


def run(name, expected, saved, *options, words=(), ask=(signal.SIGTERM,), says=()):
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder)
        (path / "program.py").write_text(PROGRAM)
        options = [option.replace("FOLDER", folder) for option in options]
        job = subprocess.Popen([BIN / "ddplaunch", "--nproc-per-node=2", *options, path / "program.py", folder, *words],
                               env={**os.environ, "PYTHONPATH": str(BINDINGS)}, text=True, stdout=subprocess.PIPE,
                               stderr=subprocess.STDOUT)
        deadline = time.monotonic() + 30
        while not all((path / f"ready{rank}").exists() for rank in range(2)):
            assert time.monotonic() < deadline and job.poll() is None, name
            time.sleep(0.02)
        for asked in ask:
            time.sleep(0.7)  # signals within half a second are one request
            if isinstance(asked, str):
                (path / asked).touch()
            else:
                job.send_signal(asked)
        output = job.communicate(timeout=60)[0]
        assert job.returncode == expected, f"{name}: exit code {job.returncode}\n{output}"
        left = sum((path / f"saved{rank}").exists() for rank in range(2))
        assert left == (2 if saved else 0), f"{name}: {left} have saved\n{output}"
        for words in says:
            assert words in output, f"{name}: does not say {words!r}\n{output}"
        print(f"{name}: ok", flush=True)


asks = "the program is asked to save and exit; the workers will be terminated in 20.0 s (--save-grace), or on a second request"
for one in (signal.SIGTERM, signal.SIGUSR1):
    run(f"{one.name} asks the program to save", 75, True, "--save-grace=20", ask=[one],
        says=[f"{one.name}: {asks}", "saved and exited as requested", "exit code 75"])
run("a file asks, too", 75, True, "--save-grace=20", "--save-file=FOLDER/notice", ask=["notice"],
    says=["/notice exists: the program is asked"])
run("a file that was there before asks, too", 75, True, "--save-grace=20", "--save-file=FOLDER/program.py", ask=[],
    says=["/program.py exists: the program is asked"])
run("a command asks, too", 75, True, "--save-grace=20", "--save-command=test -e FOLDER/notice", ask=["notice"],
    says=["/notice' exited with code 0: the program is asked"])
run("one that does not listen is ended after the time", -signal.SIGTERM, False, "--save-grace=1", words=["deaf"],
    says=["the time to save (--save-grace) has expired"])
run("a failure after the request is not followed by another attempt", 75, False, "--save-grace=20", "--max-restarts=3",
    words=["fails"], says=["exit code 3", "not restarted: the program was asked to save and exit; exit code 75 asks"])
run("without restarts the failure's exit code stays", 3, False, "--save-grace=20", words=["fails"], says=["exit code 3"])
run("a second request ends it at once", -signal.SIGTERM, False, "--save-grace=50", words=["deaf"],
    ask=[signal.SIGTERM, signal.SIGTERM], says=["terminated by SIGTERM"])
run("other signals end it as ever", -signal.SIGTERM, False, "--save-grace=50", "--save-signals=SIGUSR2",
    says=["terminated by SIGTERM"])
run("without --save-grace nothing is asked", -signal.SIGTERM, False)


def on_two_nodes() -> None:
    """Only one node is asked. The other one's rank leaves because that one has left, and both nodes exit alike."""
    program = PROGRAM.replace("not ddp_page.should_stop()", "not (ddp_page.should_stop() or (folder / 'saved0').exists())")
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder)
        (path / "program.py").write_text(program)
        words = ["--nnodes=2", f"--rdzv-endpoint=127.0.0.1:{free_port()}", "--nproc-per-node=1", "--save-grace=30"]
        nodes = [subprocess.Popen([BIN / "ddplaunch", *words, f"--node-rank={rank}", path / "program.py", folder], text=True,
                                  stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                                  env={**os.environ, "PYTHONPATH": str(BINDINGS)}) for rank in range(2)]
        deadline = time.monotonic() + 60
        while not all((path / f"ready{rank}").exists() for rank in range(2)):
            assert time.monotonic() < deadline
            time.sleep(0.02)
        nodes[0].send_signal(signal.SIGTERM)
        outputs = [node.communicate(timeout=60)[0] for node in nodes]
        assert [node.returncode for node in nodes] == [75, 75], outputs
        assert "as another node was asked to: exit code 75" in outputs[1], outputs
        print("of two nodes one is asked, and both exit with 75: ok", flush=True)


on_two_nodes()


def leaves(name, *options, says, uploads):
    """The ranks end, while a process that each has started in its own session still writes."""
    with tempfile.TemporaryDirectory() as folder:
        upload = f"sleep 3; touch {folder}/uploaded$RANK"
        job = subprocess.run([BIN / "ddplaunch", "--nproc-per-node=2", *options, "sh", "-c", f"setsid sh -c '{upload}' & exit 0"],
                             text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=60)
        assert job.returncode == 0, f"{name}: exit code {job.returncode}\n{job.stdout}"
        assert re.search(says, job.stdout), f"{name}: {job.stdout}"
        assert len(list(pathlib.Path(folder).glob("uploaded*"))) == uploads, name
        print(f"{name}: ok", flush=True)


leaves("processes that outlive a job are named and terminated", uploads=0,
       says=r"still run although all ranks have exited: pid \d+ \((setsid )?sh -c sleep 3; .*They were terminated; --let-finish waits")
leaves("with --let-finish they are waited for", "--let-finish", uploads=2, says=r"Waiting for them \(--let-finish\)")
