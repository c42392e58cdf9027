#!/usr/bin/env python3
"""Runs CTest in a build directory, shows the progress, and ends with "N passed, N failed".

    run_tests.py BUILD_DIRECTORY [words for CTest, such as -R NAME or -LE slow]

A failed test is named at once, and shown with its output at the end. Skipped tests are listed with their reasons. The
exit code is 1 if a test failed or none ran.
"""
import os
import pathlib
import re
import subprocess
import sys
import time
import xml.etree.ElementTree as ElementTree

# Most tests spend more time waiting for processes and time-outs than computing.
AT_ONCE = min(16, 4 * len(os.sched_getaffinity(0)))
LONG = 10.0  # seconds; a test that takes longer beside others should have the label `slow` (3 s alone)
NEWS = 15.0  # seconds between two progress lines without a terminal
DONE = re.compile(r" *(\d+)/(\d+) Test +#\d+: (.*?) ?\.{3,} *(.*?) +([\d.]+) sec")


class Progress:
    """Shows the progress: rewrites one line on a terminal, and otherwise prints a line periodically."""

    def __init__(self, what: str) -> None:
        self.what, self.began, self.reported = what, time.monotonic(), time.monotonic()
        self.on_terminal = sys.stdout.isatty()

    def show(self, done: int, of: int, failed: int) -> None:
        now = time.monotonic()
        line = f"{self.what}: {done} of {of}{f', {failed} failed' if failed else ''}, {now - self.began:.0f} s"
        if self.on_terminal:
            print(f"\r\033[K{line}", end="", flush=True)
        elif now - self.reported > NEWS:
            self.reported = now
            print(line, flush=True)

    def say(self, line: str) -> None:
        print(f"\r\033[K{line}" if self.on_terminal else line, flush=True)


class Results:
    """Holds test names with outputs or reasons. `verdicts` are CTest's, because its report does not show time-outs."""

    def __init__(self, report: pathlib.Path, verdicts: dict[str, str]) -> None:
        self.passed, self.failed, self.skipped = 0, {}, {}
        for case in ElementTree.parse(report).getroot().iter("testcase"):
            name, skipped = case.get("name"), case.find("skipped")
            output = (case.findtext("system-out") or "").strip()
            if case.get("status") == "run":
                self.passed += 1
            elif skipped is not None and skipped.get("message", "").startswith("SKIP_RETURN_CODE"):
                self.skipped[name] = output.splitlines()[-1] if output else "it does not say why"
            else:
                self.failed[name] = output if "Failed" in verdicts.get(name, "") else f"{verdicts.get(name, '')} {output}".strip("* ")


def run(build: pathlib.Path, words: list[str], what: str = "test") -> Results | None:
    """Runs CTest. Returns None if CTest did not run; `build`/tests.log says why."""
    report = (build / "tests.xml").resolve()
    report.unlink(missing_ok=True)
    command = ["ctest", "--test-dir", str(build), "--output-junit", str(report), "--no-tests=error",
               "--parallel", str(AT_ONCE), *words]
    progress = Progress(what)
    progress.say(f"{what}: {' '.join(command)}")
    failed, long, verdicts = 0, [], {}
    with open(build / "tests.log", "w", encoding="utf-8") as log:
        ctest = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace")
        for line in ctest.stdout:
            log.write(line)
            if match := DONE.match(line):
                done, of, name, verdict, seconds = match.groups()
                verdicts[name] = verdict
                if "Passed" not in verdict and "Skipped" not in verdict:
                    failed += 1
                    progress.say(f"{what}: FAILED after {seconds} s: {name}")
                if float(seconds) > LONG:
                    long.append(f"{name} ({seconds} s)")
                progress.show(int(done), int(of), failed)
        ctest.wait()
    progress.say(f"{what}: it took {time.monotonic() - progress.began:.0f} s")
    if long and words[:2] == ["-LE", "slow"]:
        print(f"note: these tests are slow and lack the label `slow`: {', '.join(long)}")
    return Results(report, verdicts) if report.exists() else None


def main() -> int:
    build = pathlib.Path(sys.argv[1])
    results = run(build, sys.argv[2:])
    if results is None:
        print((build / "tests.log").read_text(encoding="utf-8", errors="replace"))
        print("test: ctest did not run")
        return 1
    for name, reason in results.skipped.items():
        print(f"skipped: {name}: {reason}")
    for name, output in results.failed.items():
        print(f"\nFAILED: {name}\n{output}")
    if results.failed:
        print(f"\nall output: {build / 'tests.log'}")
    if results.skipped:
        print(f"\n{len(results.skipped)} skipped, for the reasons above")
    print(f"{results.passed} passed, {len(results.failed)} failed")
    return 1 if results.failed or results.passed == 0 else 0


if __name__ == "__main__":
    sys.exit(main())
