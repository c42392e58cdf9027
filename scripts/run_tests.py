#!/usr/bin/env python3
"""Runs CTest in a build folder and closes with "N passed, N failed".

What failed is shown whole; what was skipped is listed with its reason. The exit code is 1 if a test failed or none ran.
"""
import pathlib
import subprocess
import sys
import xml.etree.ElementTree as ElementTree


def main() -> int:
    build = pathlib.Path(sys.argv[1])
    report = (build / "tests.xml").resolve()
    report.unlink(missing_ok=True)
    command = ["ctest", "--test-dir", str(build), "--output-junit", str(report), "--no-tests=error",
               "--parallel", "2", *sys.argv[2:]]
    print("test:", " ".join(command), flush=True)
    with open(build / "tests.log", "w", encoding="utf-8") as log:
        exit_code = subprocess.call(command, stdout=log, stderr=subprocess.STDOUT)
    if not report.exists():
        print((build / "tests.log").read_text(encoding="utf-8", errors="replace"))
        print("test: ctest did not run")
        return 1

    passed, failed, skipped = 0, [], []
    for case in ElementTree.parse(report).getroot().iter("testcase"):
        status = case.get("status")
        output = (case.findtext("system-out") or "").strip()
        if status == "run":
            passed += 1
        elif status == "fail":
            failed.append((case.get("name"), output))
        else:
            # A test that skips itself says why in its last line; one whose program is missing never ran.
            reason = output.splitlines()[-1] if output else "its program could not be started"
            (skipped if status in ("notrun", "disabled") and output else failed).append((case.get("name"), reason))
    for name, reason in skipped:
        print(f"skipped: {name}: {reason}")
    for name, output in failed:
        print(f"\nFAILED: {name}\n{output}")
    if failed:
        print(f"\nall output: {build / 'tests.log'}")
    if skipped:
        print(f"\n{len(skipped)} skipped, for the reasons above")
    print(f"{passed} passed, {len(failed)} failed")
    return 1 if failed or passed == 0 or (exit_code != 0 and not failed) else 0


if __name__ == "__main__":
    sys.exit(main())
