"""Parses the code blocks of a page of the manual, and defines what a test does with each.

CONTRIBUTING.md describes the convention for authors: languages, `title="FILE"`, and a directive in a comment before a
block.
"""
import dataclasses
import pathlib
import re

FENCE = re.compile(r"^( *)```(\w+)(?: +title=\"([^\"]+)\")?[^\n]*\n(.*?)^\1```$", re.MULTILINE | re.DOTALL)
DIRECTIVE = re.compile(r"<!-- (run|from): (.*?) -->\s*$")


@dataclasses.dataclass
class Block:
    """Describes one fenced block. `line` is the number of its first line of text; `exit_code` is None if any code is
    accepted."""
    language: str
    title: str
    text: str
    line: int
    exit_code: int | None = None
    skip: str = ""       # the reason not to run it
    needs_torch: bool = False
    rig: str = ""        # "slurm" or "ssh"
    source: str = ""     # FILE:REGION of the compiled file that contains the text

    def commands(self) -> str:
        """Returns the script of a block of shell commands."""
        if self.language == "bash":
            return "set -eu -o pipefail\n" + self.text
        lines = re.findall(r"^[$>] (.*)$", self.text, re.MULTILINE)
        return "set -o pipefail\n" + "\n".join(lines) + "\n"

    def output(self) -> list[str]:
        """Returns the documented lines of output."""
        if self.language == "bash":
            return []
        return [line.strip() for line in self.text.splitlines() if line.strip() and not line.startswith(("$ ", "> "))]


def blocks_of(page: pathlib.Path) -> list[Block]:
    """Returns the blocks of a page. Raises ValueError if a directive is not understood."""
    text = page.read_text(encoding="utf-8")
    result = []
    for fence in FENCE.finditer(text):
        indent, language, title, body = fence.groups()
        block = Block(language, title or "", re.sub(f"^{indent}", "", body, flags=re.MULTILINE),
                      text.count("\n", 0, fence.start()) + 2)
        if language == "bash":
            block.exit_code = 0
        directive = DIRECTIVE.search(text[:fence.start()])
        if directive:
            apply(block, *directive.groups())
        result.append(block)
    return result


def apply(block: Block, kind: str, words: str) -> None:
    if kind == "from":
        block.source = words
    elif exit_code := re.fullmatch(r"exit (\d+)", words):
        block.exit_code = int(exit_code[1])
    elif words.startswith("not here, "):
        block.skip = words.removeprefix("not here, ")
    elif words == "needs torch":
        block.needs_torch = True
    elif words in ("slurm", "ssh"):
        block.rig = words
    else:
        raise ValueError(f"line {block.line}: unknown directive: {kind}: {words}")


VARIABLE = re.compile(r"(…)|(\bnode \w+)|(\d+(?:[.,]\d+)*)((?: (?:ns|µs|ms|s|min|h)\b)?)")


def pattern_of(line: str) -> re.Pattern[str]:
    """Returns a pattern for a line of real output. A number matches any number, with any unit of time; … matches
    anything, and a node matches any name."""
    # Another rank may lose the failed one and fail by itself before the launcher has terminated it.
    if " terminated because of it" in line:
        return re.compile(r"ddplaunch: +ranks? .* because of it")
    pattern, end = "", 0
    line = " ".join(line.split())
    for part in VARIABLE.finditer(line):
        pattern += re.escape(line[end:part.start()])
        end = part.end()
        if part[1]:
            pattern += ".*"
        elif part[2]:
            pattern += r"node [^\s,:]+"
        else:
            pattern += r"\d+(?:[.,]\d+)*" + (" (?:ns|µs|ms|s|min|h)" if part[4] else "")
    return re.compile(pattern + re.escape(line[end:]))


def missing_line(documented: list[str], real: str) -> str | None:
    """Returns the first documented line that the real output lacks, in this order, or None if there is none."""
    lines = iter(" ".join(line.split()) for line in real.splitlines())
    for line in documented:
        pattern = pattern_of(line)
        if not any(pattern.search(each) for each in lines):
            return line
    return None


def region_of(root: pathlib.Path, source: str) -> str:
    """Returns the lines between `[REGION]` and `[/REGION]` of a file, without their indentation."""
    path, _, region = source.partition(":")
    lines = (root / path).read_text(encoding="utf-8").splitlines()
    begin = [i for i, line in enumerate(lines) if line.strip().endswith(f"[{region}]")]
    end = [i for i, line in enumerate(lines) if line.strip().endswith(f"[/{region}]")]
    if len(begin) != 1 or len(end) != 1:
        raise ValueError(f"{path} has no region {region}")
    body = lines[begin[0] + 1:end[0]]
    indent = min((len(line) - len(line.lstrip()) for line in body if line.strip()), default=0)
    return "".join(line[indent:] + "\n" for line in body)
