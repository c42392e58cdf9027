#!/usr/bin/env python3
"""api_test.py SOURCE: the C++ API as Doxygen makes it from the headers. Classes and functions have their comments."""
import html
import pathlib
import re
import shutil
import subprocess
import sys

SOURCE = pathlib.Path(sys.argv[1]).resolve()
EXPECTED = {
    "classddp_1_1ProcessGroup.html": ["All ranks must call the same collectives", "all_reduce"],
    "classddp_1_1DistributedDataParallel.html": ["mark_ready"],
    "structddp_1_1CallOptions.html": ["Holds the options of a single call"],
    "classddp_1_1Error.html": ["kind"],
}

if shutil.which("doxygen") is None:
    print("not installed: doxygen")
    sys.exit(77)
done = subprocess.run([SOURCE / "scripts/docs", "api"], capture_output=True, text=True)
assert done.returncode == 0, done.stdout + done.stderr
folder = SOURCE / "build/site/reference/api"
for name, words in EXPECTED.items():
    page = html.unescape(re.sub(r"<[^>]*>", "", (folder / name).read_text(encoding="utf-8")))
    for word in words:
        assert word in page, f"{name} lacks {word!r}"
print(f"{len(list(folder.glob('*.html')))} pages of the C++ API")
