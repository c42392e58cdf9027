#!/usr/bin/env python3
"""healthy_test.py DDPLAUNCH: `ddplaunch explain` finds no known error where there is none.

healthy.tar.xz has logs of jobs that ended with success. tracebacks.tar.xz has logs of programs that failed for a reason of
their own: its index.json says for each log which rank and which message the explanation must have, and which known
cause, if any. record_logs.py makes both. The logs that begin with "stranger" were recorded by an author who did not know
the rules of `ddplaunch explain`.
"""
import concurrent.futures
import json
import pathlib
import subprocess
import sys
import tarfile
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
LAUNCHER = sys.argv[1]
UNEXPLAINED = 1  # the exit code if no cause is certain


def explain(log):
    job = subprocess.run([LAUNCHER, "explain", "--json", str(log)], capture_output=True, text=True, timeout=60, check=False)
    try:
        return job.returncode, json.loads(job.stdout)
    except json.JSONDecodeError:
        raise RuntimeError(f"{log.name}: exit code {job.returncode}, {job.stdout}{job.stderr}") from None


def explain_all(folder, archive):
    with tarfile.open(HERE / archive) as tar:
        tar.extractall(folder)
    logs = sorted(folder.glob("*.log"))
    with concurrent.futures.ThreadPoolExecutor() as pool:
        return dict(zip((log.stem for log in logs), pool.map(explain, logs)))


def faults_of_healthy(code, found):
    if found["cause"] is not None or code == 0:
        yield f"exit code {code}, cause {found['cause']}: {found['failures'] or found['hang']}"


def faults_of_traceback(log, code, found, wanted):
    # A crash is no traceback, and has a row of its own.
    is_crash = log.startswith("segmentation_fault") and found["cause"] == "worker-segmentation-fault"
    known = found["cause"] if is_crash else wanted.get("cause")
    hang = found["hang"]["ranks"] if found["hang"] else []
    if known is None and not wanted.get("hang"):
        yield from faults_of_healthy(code, found)
    elif found["cause"] != known or hang != wanted.get("hang", []):
        yield f"the cause is {found['cause']}, {hang} and not {known}, {wanted.get('hang', [])}"
    if wanted["message"] is None:
        if log.startswith("stranger") and found["failures"]:
            yield f"{found['failures'][0]['message']!r} is no failure of a rank by itself"
        return
    first = found["failures"][0] if found["failures"] else {"rank": None, "local_rank": None, "message": None}
    if not (first["message"] or "").startswith(wanted["message"]):
        yield f"the failure is {first['message']!r} and not {wanted['message']!r}"
    if wanted["rank"] is not None and wanted["rank"] not in (first["rank"], first["local_rank"]):
        yield f"the rank is {first['rank']}, {first['local_rank']} and not {wanted['rank']}"


def main():
    faults = []
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        (folder / "healthy").mkdir()
        healthy = explain_all(folder / "healthy", "healthy.tar.xz")
        faults += [f"healthy {log}: {fault}" for log, found in healthy.items() for fault in faults_of_healthy(*found)]
        (folder / "tracebacks").mkdir()
        failed = explain_all(folder / "tracebacks", "tracebacks.tar.xz")
        index = json.loads((folder / "tracebacks/index.json").read_text(encoding="utf-8"))
        assert index.keys() == failed.keys()
        faults += [f"traceback {log}: {fault}" for log, found in failed.items()
                   for fault in faults_of_traceback(log, *found, index[log])]
        unknown = sum("cause" not in wanted and "hang" not in wanted for wanted in index.values())
    print(*faults, sep="\n")
    print(f"{len(healthy)} healthy logs, {len(failed)} tracebacks, {len(faults)} faults")
    assert len(healthy) >= 300 and unknown >= 100
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
