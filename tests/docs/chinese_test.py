#!/usr/bin/env python3
"""chinese_test.py SOURCE: each Chinese page has the headings, the commands and the links of the English one, in its order.

The commands are the same, so only those of the English pages are run (page_test.py)."""
import dataclasses
import pathlib
import re
import sys

from manual_page import FENCE, Block, blocks_of

SOURCE = pathlib.Path(sys.argv[1]).resolve()
PAIRS = {"README.zh-CN.md": "README.md", "docs/zh-CN/common-mistakes.md": "docs/how-to/common-mistakes.md"}


def headings(path: pathlib.Path) -> list[str]:
    """The levels of the headings outside of code."""
    return re.findall(r"^(#+) ", FENCE.sub("", path.read_text(encoding="utf-8")), re.MULTILINE)


def targets(path: pathlib.Path) -> set[str]:
    """The names of the files that the page links to."""
    links = re.findall(r"\]\(([^)#\s]+)", FENCE.sub("", path.read_text(encoding="utf-8")))
    return {pathlib.PurePosixPath(link).name for link in links}


def without_comments(block: Block) -> str:
    """Comments of shell blocks may be translated."""
    return re.sub(r"\s*#.*", "", block.text) if block.language == "bash" else block.text


for chinese, english in PAIRS.items():
    own, other = SOURCE / chinese, SOURCE / english
    assert headings(own) == headings(other), f"{chinese} and {english} have different headings"
    own_blocks, other_blocks = blocks_of(own), blocks_of(other)
    assert len(own_blocks) == len(other_blocks) > 0, f"{chinese} has {len(own_blocks)} blocks, {english} {len(other_blocks)}"
    for mine, theirs in zip(own_blocks, other_blocks):
        same = [dataclasses.replace(block, text=without_comments(block), title="", skip=str(bool(block.skip)), line=0)
                for block in (mine, theirs)]
        assert same[0] == same[1], f"{chinese}:{mine.line} and {english}:{theirs.line} differ"
    missing = targets(other) - targets(own) - {own.name}
    assert not missing, f"{chinese} lacks links to {sorted(missing)}"
    assert re.search(r"[\u4e00-\u9fff]{4}", own.read_text(encoding="utf-8")), f"{chinese} is not Chinese"
print(f"{len(PAIRS)} Chinese pages follow the English ones")
