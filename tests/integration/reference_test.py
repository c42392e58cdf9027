#!/usr/bin/env python3
"""The reference pages against the program: options, environment variables, exit codes, limits. argv[1]: ddplaunch."""
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
REFERENCE = ROOT / "docs/reference"


def read(path: str) -> str:
    return (ROOT / path).read_text(encoding="utf-8")


def options_are_documented() -> None:
    help_text = subprocess.run([sys.argv[1], "--help"], capture_output=True, text=True, check=True).stdout
    offered = {name for name in re.findall(r"^\s+(?:-\w,)?(--[\w-]+)", help_text, re.MULTILINE)}
    listed = set(re.findall(r"^\| (?:`-\w`, )?`(--[a-z-]+)", (REFERENCE / "cli.md").read_text(), re.MULTILINE))
    assert offered == listed, f"--help and cli.md differ: {sorted(offered ^ listed)}"


def variables_are_documented() -> None:
    known = set(re.findall(r'= "([A-Z_]+)";', read("src/wire/worker_env.h")))
    listed = set(re.findall(r"`([A-Z][A-Z_]+)`", (REFERENCE / "environment.md").read_text()))
    assert known, "no variables found in worker_env.h"
    assert known <= listed, f"environment.md lacks {sorted(known - listed)}"


def workers_get_what_is_documented() -> None:
    page = (REFERENCE / "environment.md").read_text()
    table = page[page.index("## Given to workers"):page.index("## Read by the runtime")]
    documented = set(re.findall(r"^\| `([A-Z_]+)`", table, re.MULTILINE))
    command = [sys.argv[1], "-q", "--nproc-per-node=2", "--backend=gloo", "env"]
    clean = {"PATH": "/usr/bin:/bin"}
    lines = subprocess.run(command, capture_output=True, text=True, check=True, env=clean).stdout.splitlines()
    given = {line.split("=")[0] for line in lines} - {"PATH", "PWD", "SHLVL", "_"}
    # A machine without GPUs has nothing to say about CUDA_VISIBLE_DEVICES, a first attempt nothing about the last one.
    assert documented - given <= {"CUDA_VISIBLE_DEVICES", "DDP_LAST_FAILURE"}, f"documented but not given: {sorted(documented - given)}"
    assert given <= documented, f"given but not documented: {sorted(given - documented)}"


def exit_codes_are_documented() -> None:
    codes = set(re.findall(r"kExit\w+ = (\d+);", read("src/base/exit_code.h")))
    listed = set(re.findall(r"^\| (\d+) \|", (REFERENCE / "exit-codes.md").read_text(), re.MULTILINE))
    assert codes and codes <= listed, f"exit-codes.md lacks {sorted(codes - listed)}"


def requests_are_documented() -> None:
    forms = re.findall(r'"([A-Z_]+)", (-1|\d+), (\d+), "', read("src/wire/store_message.cpp"))
    page = read("docs/protocol.md")
    assert len(forms) > 10
    for name, legacy, current in forms:
        row = f"| {name} | {legacy if legacy != '-1' else '–'} | {current} |"
        assert row in page, f"protocol.md lacks the row: {row}"


CHECKS = [options_are_documented, variables_are_documented, workers_get_what_is_documented, exit_codes_are_documented,
          requests_are_documented]
for check in CHECKS:
    check()
print(f"{len(CHECKS)} checks of the reference pages")
