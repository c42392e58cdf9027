#!/usr/bin/env python3
"""replay_test.py BIN_DIR [--first]: checks what the hang detector reports of the traces that record_traces.py has taken of the
zoo's programs. It uses the real limits and virtual time, in which half an hour takes some milliseconds.

- A program that hangs continues for 40 minutes as at the end of its trace. The test checks the verdict, the ranks, the
  class and the time of the first report. A node that does not see all ranks lets the others report first. If the rank
  that is waited for dies at the end of the trace, the hang is certain within seconds.
- A healthy program is judged as it was, and with its time stretched, so that its 26 s of work become an hour. If a
  limit is too short for it, it is reported before it is terminated. A limit that is long enough changes nothing.

With --first, the test ends at the first trace that is judged wrongly.
"""
import pathlib
import subprocess
import sys
import tarfile

from expected import HANGING, OF_SECOND_NODE

BIN = pathlib.Path(sys.argv[1]).resolve()
HELD = 40 * 60
USERS_LIMIT = 60
TOO_SHORT_LIMIT = 6
STRETCH = 130
FIRST_WORD_WITHIN = 20  # seconds of the trace; the rank begins to hang in the second one of them
FIRST_WORD_WITHOUT_CALLS = 25
LONG_LIMIT = 7200       # longer than any pause of a stretched trace
OTHERS_FIRST = 5        # seconds of delay if another node sees more
ENDS_DEAD_WITHIN = 45   # seconds of the trace, which has up to 30
# Threads of these culprits wait, perhaps for a rank that only another node sees.
CULPRITS_THAT_WAIT = {"hangs_beside_helpers_that_wait"}


def replay(trace: bytes, *options: str) -> list[tuple[str, str, str, int]]:
    """Returns kinds of news, verdicts with the culprits ("DDP-H03 [1]"), classes, and seconds."""
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
    words = of_kind(news, "stalled", "stopped")
    if expected.outcome == "unknown":
        well = (len(ends) == 1 and ends[0][1:3] == (verdict, "unknown") and 1790 <= ends[0][3] <= 1860
                and words and words[0][3] <= (FIRST_WORD_WITHOUT_CALLS if expected.code == "DDP-H08" else FIRST_WORD_WITHIN))
        later = of_kind(replay(trace, "--others-judge", f"--hold={HELD}"), "hung")
        # The detector cannot know that the ranks of other nodes do nothing either.
        sees_too_little = expected.code == "DDP-H08" or name in CULPRITS_THAT_WAIT
        well = well and [one[3] - ends[0][3] >= OTHERS_FIRST - 1 for one in later] == ([] if sees_too_little else [True])
        if len(expected.culprits) == 1:
            dead = of_kind(replay(trace, f"--dies={expected.culprits[0]}", f"--hold={HELD}"), "hung")
            well = well and [one[1:3] for one in dead] == [(f"DDP-H01 {expected.culprits}", "certain")] and dead[0][3] <= ENDS_DEAD_WITHIN
    elif expected.outcome == "certain":
        well = len(ends) >= 1 and ends[0][1:3] == (verdict, "certain") and ends[0][3] <= 25
    else:
        # The detector cannot know whether this is a hang. It reports it, and only the user's limit ends it.
        limited = of_kind(replay(trace, f"--timeout={USERS_LIMIT}", f"--hold={HELD}"), "hung")
        is_stopped = expected.code == "DDP-H02"
        well = (not ends and words and words[0][1] == verdict
                and (not limited if is_stopped else [one[1:3] for one in limited] == [(verdict, "users_limit")]))
    return None if well else f"expected {expected.outcome} {verdict}, seen {news}"


def fault_of_healthy(name: str, trace: bytes) -> str | None:
    judged = ["--others-judge"] if name.endswith(OF_SECOND_NODE) else []
    loud = of_kind(replay(trace, *judged), "warned", "hung")
    # A detector that sees too little terminates no rank, even if no other node sees more.
    given_up = [one for one in of_kind(replay(trace, f"--scale={STRETCH}"), "hung") if one[2] == "unknown"]
    given_up += of_kind(replay(trace, f"--scale={STRETCH}", f"--timeout={LONG_LIMIT}"), "hung")
    limited = replay(trace, f"--timeout={TOO_SHORT_LIMIT}", *judged)
    kinds = [one[0] for one in limited if one[2] == "users_limit"]
    without_a_word = not judged and "hung" in kinds and "stalled" not in kinds[:kinds.index("hung")]
    if loud or given_up or without_a_word:
        return f"as it was: {loud}; stretched: {given_up}; with a limit: {limited if without_a_word else 'well'}"
    return None


faults = 0
with tarfile.open(pathlib.Path(__file__).with_name("traces.tar.xz")) as archive:
    traces = {member.name: archive.extractfile(member).read() for member in archive}
expected_traces = {name for name, hang in HANGING.items() if hang.outcome != "failed"}
assert expected_traces <= traces.keys(), f"no traces of {expected_traces - traces.keys()}: record_traces.py"
for name, trace in traces.items():
    fault = fault_of_hanging(name, trace) if name in HANGING else fault_of_healthy(name, trace)
    if fault:
        faults += 1
        print(f"{name}: {fault}")
        if "--first" in sys.argv:
            break
print(f"{len(traces) - faults} traces as expected, {faults} not")
sys.exit(1 if faults else 0)
