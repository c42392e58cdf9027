#!/usr/bin/env python3
"""Explains logs: of jobs of this launcher and of torchrun, of public bug reports, and what is no log. argv[1]: ddplaunch."""
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests/support"))
import environments  # noqa: E402  (it is in another folder)
from ports import free_port  # noqa: E402

LAUNCHER = pathlib.Path(sys.argv[1]).resolve()
PATIENCE = 120  # seconds
FAILS = """
import os, sys, time
if os.environ["RANK"] == "1":
    raise ValueError("Expected more than 1 value per channel when training, got input size torch.Size([1, 4])")
time.sleep(60)
"""


def explain(*words: object, given: bytes = b"") -> subprocess.CompletedProcess:
    return subprocess.run([LAUNCHER, "explain", *map(str, words)], input=given, capture_output=True, timeout=PATIENCE)


def answer(*words: object, given: bytes = b"") -> dict:
    done = explain(*words, "--json", given=given)
    assert not done.stderr, done
    document = json.loads(done.stdout)
    assert done.returncode == (0 if document["certain"] else 1), done
    return document


def launch(folder: pathlib.Path, *words: object, via: object = LAUNCHER, **variables: str) -> bytes:
    return subprocess.run([str(word) for word in (via, *words)], cwd=folder, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, timeout=PATIENCE, env={**os.environ, **variables}).stdout


def jobs_of_ddplaunch_are_explained(folder: pathlib.Path) -> None:
    (folder / "fails.py").write_text(FAILS)
    printed = launch(folder, "--nproc-per-node=2", "--log-dir=logs", "--event-log=run.jsonl", "fails.py")
    # The summary of the job has the same cause, in two lines.
    summary = [line for line in printed.decode().splitlines() if line.startswith(("ddplaunch:   cause: ", "ddplaunch:   try: "))]
    assert len(summary) == 2, printed
    (folder / "printed.log").write_bytes(printed)
    for log in ("printed.log", "run.jsonl", "logs"):
        found = answer(folder / log)
        assert (found["cause"], found["rank"]) == ("batch-of-one", 1), (log, found)
        assert found["explanation"] in summary[0] and found["remedy"] in summary[1], (log, found, summary)
    assert answer("-", given=printed)["rank"] == 1
    done = explain("-", given=(folder / "run.jsonl").read_bytes())
    assert done.returncode == 125 and b"it is an event log. Name its file" in done.stderr, done


def a_hang_of_ddplaunch_is_explained(folder: pathlib.Path) -> None:
    worker = LAUNCHER.parent / "hanging_worker"
    printed = launch(folder, "--nproc-per-node=2", "--log-dir=hang", "--event-log=hang.jsonl", "--hang-timeout=2",
                     worker, "pause", "5", DDP_HANG_TRACE=str(folder / "trace.jsonl"))
    (folder / "hang.log").write_bytes(printed)
    stalls = list((folder / "hang").glob("*/*/dump_*.json"))
    assert stalls, printed
    for log in ("hang.log", "hang.jsonl", "trace.jsonl", stalls[-1], "hang"):
        found = answer(folder / log)
        assert found["hang"]["certain"] and "[DDP-H" in found["hang"]["text"], (log, found)


def jobs_of_torchrun_are_explained(folder: pathlib.Path) -> bool:
    python = environments.find("pytorch")
    if python is None:
        return False
    torchrun = pathlib.Path(python).parent / "torchrun"
    port = f"--master-port={free_port()}"
    for name, words in (("plain", []), ("tee", ["--tee=3", "--log-dir=torch"])):
        log = folder / f"{name}.log"
        log.write_bytes(launch(folder, "--nproc-per-node=2", port, *words, "fails.py", via=torchrun))
        found = answer(log)
        assert (found["cause"], found["rank"]) == ("batch-of-one", 1), (found, log.read_text())
    assert answer(folder / "torch")["cause"] == "batch-of-one"
    return True


def public_logs_are_explained() -> None:
    public = ROOT / "tests/explain/public"
    logs = json.loads((public / "index.json").read_text())
    assert len(logs) >= 10
    for log in logs:
        found = answer(public / log["file"])
        assert (found["cause"], found["rank"]) == (log["cause"], log["rank"]), (log, found)


def fields_are_documented() -> None:
    page = (ROOT / "docs/how-to/explain-a-log.md").read_text()
    found = answer(ROOT / "tests/explain/public/04-bus-error-table.log")
    named = set(re.findall(r"`([a-z_]+)`", page[page.index("## For scripts"):]))
    assert set(found) | set(found["failures"][0]) <= named, (found, named)


def unreadable_files_are_reported_with_a_reason(folder: pathlib.Path) -> None:
    (folder / "checkpoint.pt").write_bytes(b"PK\x03\x04" + bytes(100))
    (folder / "empty").mkdir()
    (folder / "empty.log").write_bytes(b"")
    for words, reason in (([folder / "none"], "there is no file or directory"), ([folder / "checkpoint.pt"], "is no log"),
                          ([folder / "empty"], "there are no files"), ([], "no log given"), (["--jsn"], "unknown option")):
        done = explain(*words)
        assert done.returncode in (2, 125) and reason in done.stderr.decode() and not done.stdout, (words, done)
    empty = explain(folder / "empty.log")
    assert empty.returncode == 1 and b"no line at all" in empty.stdout, empty
    assert b"no error in 2 lines" in explain("-", given=b"step 1\nstep 2\n").stdout
    for given, reason in ((b"\xff\xfea\0", b"iconv"), (b"\x1f\x8b\x08", b"gunzip")):
        assert reason in explain("-", given=given).stderr, given
    for given in (bytes(range(256)) * 1000, b"\x80\x04garbage\n", b"PK\x03\x04"):
        done = explain("-", given=given)
        assert done.returncode == 125 and b"the standard input is no log: " in done.stderr, done
    full = subprocess.run([LAUNCHER, "explain", folder / "empty.log"], stdout=open("/dev/full", "wb"), stderr=subprocess.PIPE)
    assert full.returncode == 125 and b"cannot write" in full.stderr, full


with tempfile.TemporaryDirectory() as name:
    temporary = pathlib.Path(name)
    jobs_of_ddplaunch_are_explained(temporary)
    a_hang_of_ddplaunch_is_explained(temporary)
    has_torchrun = jobs_of_torchrun_are_explained(temporary)
    unreadable_files_are_reported_with_a_reason(temporary)
public_logs_are_explained()
fields_are_documented()
print("explain: all as expected" + ("" if has_torchrun else ", without torchrun, which is not installed"))
