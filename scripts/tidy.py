#!/usr/bin/env python3
"""Runs clang-tidy over the files named on standard input that the given build directory compiles."""
import concurrent.futures
import json
import pathlib
import subprocess
import sys


def check(build: pathlib.Path, path: str) -> tuple[str, int, str]:
    result = subprocess.run(["clang-tidy", "-p", str(build), "--quiet",
                             "--extra-arg=-Wno-unknown-warning-option", path], capture_output=True, text=True, check=False)
    return path, result.returncode, result.stdout


def main() -> int:
    build = pathlib.Path(sys.argv[1])
    compiled = {entry["file"] for entry in json.loads((build / "compile_commands.json").read_text())}
    paths = [line.strip() for line in sys.stdin]
    paths = [path for path in paths if str(pathlib.Path(path).resolve()) in compiled]
    failures = 0
    with concurrent.futures.ThreadPoolExecutor(max_workers=2) as pool:
        for path, code, output in pool.map(lambda path: check(build, path), paths):
            if code != 0:
                failures += 1
                print(f"{path}\n{output}")
    print(f"tidy: {len(paths)} files, {failures} with findings")
    return 1 if failures or not paths else 0


if __name__ == "__main__":
    sys.exit(main())
