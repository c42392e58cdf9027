#!/usr/bin/env python3
"""replay_test.py BIN_DIR: what the hang detector says, with the real limits and in virtual time, of the traces that
record_traces.py has taken of the zoo's programs. Half an hour takes some milliseconds.

- A program that hangs goes on as it did at the end of its trace for 40 minutes: which verdict, which ranks, which class?
- A healthy one is judged as it was, and with its time stretched, so that its 26 s of work become an hour.
"""
import pathlib
import subprocess
import sys
import tarfile

from expected import HANGING

BIN = pathlib.Path(sys.argv[1]).resolve()
HELD = 40 * 60
USERS_LIMIT = 60
STRETCH = 130


def replay(trace: bytes, *options: str) -> list[tuple[str, str, str, int]]:
    """Kinds of news, verdicts with the culprits ("DDP-H03 [1]"), classes, seconds."""
    out = subprocess.run([BIN / "zoo_replay", *options], input=trace, stdout=subprocess.PIPE, check=True).stdout.decode()
    news = []
    for line in out.splitlines():
        kind, rest = line.split(" ", 1)
        verdict, hang_class, seconds = rest.rsplit(" ", 2)
        news.append((kind, verdict, hang_class, int(seconds)))
    return news


def of_kind(news: list, *kinds: str) -> list:
    return [one for one in news if one[0] in kinds]


def fault_of_hanging(name: str, trace: bytes) -> str | None:
    expected = HANGING[name]
    verdict = f"{expected.code} [{', '.join(map(str, expected.culprits))}]"
    news = replay(trace, f"--hold={HELD}")
    ends = of_kind(news, "hung")
    if expected.outcome == "unknown":
        well = len(ends) == 1 and ends[0][1:3] == (verdict, "unknown") and 1790 <= ends[0][3] <= 1860
    elif expected.outcome == "certain":
        well = len(ends) >= 1 and ends[0][1:3] == (verdict, "certain") and ends[0][3] <= 25
    else:
        # Whether it is a hang nobody can know: it is reported, and only a limit of the user's ends it.
        words = of_kind(news, "stalled", "stopped")
        limited = of_kind(replay(trace, f"--timeout={USERS_LIMIT}", f"--hold={HELD}"), "hung")
        is_stopped = expected.code == "DDP-H02"
        well = (not ends and words and words[0][1] == verdict
                and (not limited if is_stopped else [one[1:3] for one in limited] == [(verdict, "users_limit")]))
    return None if well else f"expected {expected.outcome} {verdict}, seen {news}"


def fault_of_healthy(trace: bytes) -> str | None:
    loud = of_kind(replay(trace), "warned", "hung")
    given_up = [one for one in of_kind(replay(trace, f"--scale={STRETCH}"), "hung") if one[2] == "unknown"]
    return f"as it was: {loud}; stretched: {given_up}" if loud or given_up else None


faults = 0
with tarfile.open(pathlib.Path(__file__).with_name("traces.tar.xz")) as archive:
    traces = {member.name: archive.extractfile(member).read() for member in archive}
expected_traces = {name for name, hang in HANGING.items() if hang.outcome != "failed"}
assert expected_traces <= traces.keys(), f"no traces of {expected_traces - traces.keys()}: record_traces.py"
for name, trace in traces.items():
    fault = fault_of_hanging(name, trace) if name in HANGING else fault_of_healthy(trace)
    if fault:
        faults += 1
        print(f"{name}: {fault}")
print(f"{len(traces) - faults} traces as expected, {faults} not")
sys.exit(1 if faults else 0)
