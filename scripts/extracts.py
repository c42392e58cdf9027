#!/usr/bin/env python3
"""extracts.py: writes the extracts of compiled programs into the pages that quote them (`<!-- from: FILE:REGION -->`)."""
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests/docs"))
from manual_page import region_of  # noqa: E402  (it is in another folder)

BLOCK = re.compile(r"(<!-- from: (\S+) -->\n```\w+[^\n]*\n)(.*?)(```\n)", re.DOTALL)

for page in [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")]:
    text = page.read_text(encoding="utf-8")
    current = BLOCK.sub(lambda block: block[1] + region_of(ROOT, block[2]) + block[4], text)
    if current != text:
        page.write_text(current, encoding="utf-8")
        print(page.relative_to(ROOT))
