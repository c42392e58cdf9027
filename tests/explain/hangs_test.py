#!/usr/bin/env python3
"""hangs_test.py EXPLAIN_HANG [-v]: checks what is decided about the hangs in hangs.tar.xz.

hangs.json has the expected answers. A key that is not there is not compared. record_hangs.py has made both.
"""
import json
import pathlib
import subprocess
import sys
import tarfile
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
COMPARED = ("kind", "culprits", "operation", "number", "group", "missing", "ranks_of_group")


def decide(program, folder, world_size):
    words = [program] + ([str(world_size)] if world_size else []) + sorted(map(str, folder.iterdir()))
    return json.loads(subprocess.run(words, stdout=subprocess.PIPE, check=True).stdout)


def main():
    expected = json.loads((HERE / "hangs.json").read_text())
    faults = 0
    kinds = {}
    with tempfile.TemporaryDirectory() as temporary:
        folder = pathlib.Path(temporary)
        with tarfile.open(HERE / "hangs.tar.xz") as archive:
            archive.extractall(folder)
        for name, answer in expected.items():
            found = decide(sys.argv[1], folder / name, answer["world_size"])
            kinds[found["kind"]] = kinds.get(found["kind"], 0) + 1
            wrong = [f"{key}: {found[key]!r} and not {answer[key]!r}" for key in COMPARED
                     if key in answer and found[key] != answer[key]]
            if wrong:
                faults += 1
                print(f"{name}: {'; '.join(wrong)}: {found['text']}")
            elif "-v" in sys.argv:
                print(f"{name}: {found['text']}")
    print(f"{len(expected) - faults} hangs as expected, {faults} not:", kinds)
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
