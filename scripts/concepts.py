#!/usr/bin/env python3
"""concepts.py [COMMIT]: counts the concepts of the product, and compares them with those of an older commit.

CONTRIBUTING.md has the rule behind it: a new option, environment variable or limit needs a decision record, and
replaces one where it can. The counts come from the text of the files, so they are the same everywhere. Hand-written
lines are those of src, include and bindings, without empty lines and the compiled kernels.
"""
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[1]
BEFORE = "c53555ff"  # the last commit before the concepts were frozen
PRODUCT = ("src/", "include/", "bindings/")
CODE = (".h", ".cpp", ".py", ".c", ".cu", ".cuh")
OPTION = re.compile(r'"(?:-\w,)?--([a-z][a-z0-9-]+)')
VARIABLE = re.compile(r'"(DDP_[A-Z0-9_]+)')
LIMIT = re.compile(r"^inline constexpr [^=({]*?\b(k[A-Z]\w*)", re.M)
TYPE = re.compile(r"^\s*(?:struct|class|enum class|enum|union) (?:\[\[\w+\]\] |alignas\(\w+\) |DDP_EXPORT )*(\w+)(?: final)?(?: :[^;{]*)? ?\{",
                  re.M)
INCLUDE = re.compile(r'^#include ["<]([^">]+)[">]', re.M)

Files = dict[str, str]  # the product's files and their texts, by their paths


def files_now() -> Files:
    paths = subprocess.run(["git", "ls-files", *PRODUCT], cwd=ROOT, capture_output=True, text=True, check=True).stdout.split()
    return {path: (ROOT / path).read_text(errors="replace") for path in paths if (ROOT / path).is_file()}


def files_at(commit: str) -> Files:
    paths = subprocess.run(["git", "ls-tree", "-r", "--name-only", commit, "--", *PRODUCT], cwd=ROOT, capture_output=True,
                           text=True, check=True).stdout.split()
    asked = "".join(f"{commit}:{path}\n" for path in paths).encode()
    answer = subprocess.run(["git", "cat-file", "--batch"], cwd=ROOT, input=asked, capture_output=True, check=True).stdout
    found = {}
    for path in paths:
        head, _, answer = answer.partition(b"\n")
        size = int(head.split()[2])
        found[path], answer = answer[:size].decode(errors="replace"), answer[size + 1:]
    return found


def lines_of(files: Files, *beginnings: str, kinds: tuple = CODE) -> int:
    return sum(bool(line.strip()) for path, text in files.items() if path.startswith(beginnings) and path.endswith(kinds)
               for line in text.splitlines())


def reached(files: Files, header: str) -> int:
    """Returns how many other headers of the project a header includes, directly or through others."""
    found, todo = set(), [header]
    while todo:
        for name in INCLUDE.findall(files.get(todo.pop(), "")):
            path = next((folder + name for folder in ("src/", "include/") if folder + name in files), None)
            if path and path not in found:
                found.add(path)
                todo.append(path)
    return len(found)


def names(files: Files, pattern: re.Pattern, folder: str = "", ending: str = "") -> set[str]:
    return {name for path, text in files.items() if path.startswith(folder) and path.endswith(ending)
            for name in pattern.findall(text)}


def counts(files: Files) -> dict[str, int]:
    code = {path: text for path, text in files.items() if path.endswith(CODE)}
    return {
        "options": len(names(code, OPTION, "src/launcher/cli/", "options.cpp")),
        "environment variables": len(names(code, VARIABLE)),
        "limits": len(names(code, LIMIT, ending="limits.h")),
        "types": sum(len(TYPE.findall(re.sub(r"//.*", "", text))) for text in code.values()),
        "headers": sum(path.endswith((".h", ".cuh")) for path in code),
        "hand-written lines": lines_of(files, *PRODUCT),
        "hand-written lines of src/launcher": lines_of(files, "src/launcher/"),
        "lines of PTX": lines_of(files, *PRODUCT, kinds=(".ptx",)),
        "headers that job_state.h reaches": reached(files, "src/launcher/job/job_state.h"),
    }


def main() -> None:
    commit = sys.argv[1] if len(sys.argv) > 1 else BEFORE
    if subprocess.run(["git", "cat-file", "-e", f"{commit}^{{commit}}"], cwd=ROOT, stderr=subprocess.DEVNULL).returncode != 0:
        sys.exit(f"concepts: this clone does not have the commit {commit}; fetch the whole history (git fetch --unshallow)")
    before, now = counts(files_at(commit)), counts(files_now())
    print(f"{'':36}{commit[:8]:>10}{'now':>10}{'change':>10}")
    for what, count in now.items():
        print(f"{what:36}{before[what]:10}{count:10}{count - before[what]:+10}")


main()
