"""Reads the event log of a job that still writes it."""
import collections.abc
import json
import pathlib
import subprocess
import time

PATIENCE = 60.0  # seconds


def read_events(log: pathlib.Path | str) -> list[dict]:
    """Returns the events whose lines are complete."""
    path = pathlib.Path(log)
    text = path.read_text(encoding="utf-8") if path.exists() else ""
    return [json.loads(line) for line in text[:text.rfind("\n") + 1].splitlines()]


def eventually_event(condition: collections.abc.Callable[[], object], process: subprocess.Popen, what: str):
    """Returns the condition's first true value. Fails if the process ends without it, or after a minute."""
    deadline = time.monotonic() + PATIENCE
    while True:
        has_ended = process.poll() is not None  # the check comes first, so that the last output counts
        if value := condition():
            return value
        assert not has_ended, f"it ended with {process.returncode} and without: {what}"
        assert time.monotonic() < deadline, f"not within {PATIENCE:.0f} s: {what}"
        time.sleep(0.02)
