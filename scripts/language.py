#!/usr/bin/env python3
"""language.py: checks how this project writes. A test runs it.

    scripts/language.py                            the check
    scripts/language.py --sample KIND N [SEED]     draws N comments, messages or names of tests for a reader to judge, and prints the seed

Documents: lines of at most 100 columns (tables, code, Chinese and lines without a space excepted), sentences of at most
25 words in the manual, and words to avoid. Comments of the sources and the texts of --help: words to avoid. ALLOWED
lists exceptions. Names of tests: words to avoid. Identifiers and names of files: the words in NO_IDENTIFIER, with
exceptions in ALLOWED_NAMES.
"""
import pathlib
import random
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[1]
WIDTH = 100
SENTENCE = 25  # words

# A pattern that must not occur, and what to write instead.
AVOID = {
    r"who(?:so)?ever|whatever becomes": "name the actor",
    r"somebody|someone|nobody|anybody": "name the actor",
    r"(?:is|are|was|were|be) told": "reported, logged, printed",
    r"\btells (?:of|that|who|whether)\b": "reports, shows",
    r"\bhear[sd]? (?:of|from|nothing)": "receives, learns",
    r"lest": "so that ... does not",
    r"(?<!\w )but for (?:the|its|one|that)\b": "except",
    r"mend(?:ed|s|ing)?": "fix",
    r"whole or not(?: there| at all)": "atomic",
    r"bit by bit": "bit-identical",
    r"of ours|of theirs|of one's own": "name the owner",
    r"as it were": "",
    r"one fate|shares? the fate": "all-or-nothing failure",
    r"in the shade": "hides",
    r"fibres?": "",
    r"(?:is|are) due no more": "",
    r"go_round|flapping": "see the table of words",
    r"the house|the rooms?\b": "component, directory",
    r"utili[sz]e": "use",
}
AVOIDED = re.compile("|".join(rf"\b(?:{pattern})\b" for pattern in AVOID), re.IGNORECASE)

# What may stay, with the reason: a piece of the line is enough.
ALLOWED = [
]

# The name of a test begins with the component that acts. Catch2 would take one that begins with a dash for an option.
RIDDLE = re.compile(r"^(?:(?:who|what)\b|-)", re.IGNORECASE)

# Words that no identifier and no name of a file contains, and what to write instead.
NO_IDENTIFIER = {
    ("told",): "reported, logged, notified",
    ("deed", "deeds"): "operation, action, fault",
    ("stranger", "strangers"): "unknown, foreign, refused or unauthenticated peer",
    ("look", "looks", "looked", "looking"): "poll, sample, check, find, read",
}
INSTEAD = {word: instead for words, instead in NO_IDENTIFIER.items() for word in words}
# Names with such a word that may stay, because a library or a format has chosen them, with the reason.
ALLOWED_NAMES: dict[str, str] = {
}

SUFFIXES_OF_CPP = (".h", ".c", ".cpp", ".cu", ".cuh")
STEMS = [min(words, key=len) for words in NO_IDENTIFIER]
IDENTIFIER = re.compile(r"[A-Za-z_]\w*")
LITERAL = r'"(?:[^"\\\n]|\\.)*"'
CHARACTER = r"'(?:[^'\\\n]|\\.)*'"
NOT_CODE_OF_CPP = re.compile(rf'//[^\n]*|/\*.*?\*/|R"(?P<mark>[^()\s]*)\(.*?\)(?P=mark)"|{LITERAL}|{CHARACTER}', re.DOTALL)
TRIPLE = r'"""(?:[^\\]|\\.)*?"""'
NOT_CODE_OF_PYTHON = re.compile(rf'#[^\n]*|{TRIPLE}|{LITERAL}|{CHARACTER}', re.DOTALL)
TEST_CASE = re.compile(rf"\bTEST_CASE(?:_METHOD)?\(\s*(?:\w+,\s*)?((?:{LITERAL}\s*)+)")
PYTHON_TEST = re.compile(rf"^@test\({LITERAL},\s*((?:{LITERAL}\s*)+)\)|^def (\w+_\w+_\w+_\w+)", re.MULTILINE)
CMAKE_TEST = re.compile(r"^\s*(?:add_test\(NAME|ddp_\w*test\()\s*(\w+)", re.MULTILINE)


def tracked(*patterns: str) -> list[pathlib.Path]:
    names = subprocess.run(["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard", *patterns], cwd=ROOT,
                           capture_output=True, text=True, check=True).stdout
    return [ROOT / name for name in names.split("\0") if name and (ROOT / name).exists()]


def prose(text: str) -> list[tuple[int, str]]:
    """The lines of a document that are neither code, tables, comments nor empty, with their numbers."""
    result, in_code, in_comment = [], False, False
    for number, line in enumerate(text.splitlines(), 1):
        if line.lstrip().startswith("```"):
            in_code = not in_code
            continue
        in_comment = in_comment or line.lstrip().startswith("<!--")
        if not in_code and not in_comment:
            result.append((number, line))
        if "-->" in line:
            in_comment = False
    return result


def paragraphs(lines: list[tuple[int, str]]) -> list[tuple[int, str]]:
    """Paragraphs and list items as one text each, with the number of their first line. Tables and headings are left out."""
    result: list[tuple[int, str]] = []
    is_open = False
    for number, line in lines:
        text = line.strip()
        if not text or text.startswith(("|", "#", "!!!", ">")):
            is_open = False
        elif is_open and not re.match(r"[-*+] |\d+\. ", text):
            result[-1] = (result[-1][0], result[-1][1] + " " + text)
        else:
            result.append((number, re.sub(r"^(?:[-*+]|\d+\.) ", "", text)))
            is_open = True
    return result


def sentences(text: str) -> list[str]:
    text = re.sub(r"`[^`]*`", "code", text)
    text = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", text)
    text = re.sub(r"\b(?:e\.g|i\.e|vs|etc|No)\.", "", text)
    return re.split(r"(?<=[.!?:;])[\"')*]*\s+", text)


def is_allowed(text: str) -> bool:
    return any(each in text for each in ALLOWED)


def avoided_words(text: str) -> list[str]:
    text = re.sub(r"`[^`]*`|\"[^\"]*\"", "", text)  # code and quotations
    return [match[0] for match in AVOIDED.finditer(text)] if not is_allowed(text) else []


def check_document(path: pathlib.Path) -> list[str]:
    name = path.relative_to(ROOT)
    lines = prose(path.read_text(encoding="utf-8"))
    is_chinese = "zh-CN" in str(name)  # a line per paragraph: a browser shows a break between two characters as a space
    found = []
    for number, line in lines:
        is_table = line.lstrip().startswith("|")
        shown = re.sub(r"\]\([^)]*\)", "]()", line)
        if len(shown) > WIDTH and not is_table and not is_chinese and " " in line.strip()[:WIDTH]:
            found.append(f"{name}:{number}: {len(line)} columns, more than {WIDTH}")
        found += [f"{name}:{number}: avoid \"{word}\"" for word in avoided_words(line)]
    # Records and the journal keep figures and quotations together; their sentences may be longer.
    if "development" in name.parts or name.name == "CHANGELOG.md" or is_chinese:
        return found
    for number, text in paragraphs(lines):
        for sentence in sentences(text):
            words = re.findall(r"[\w'’-]+", sentence)
            if len(words) > SENTENCE and not is_allowed(sentence):
                found.append(f"{name}:{number}: {len(words)} words in one sentence: {' '.join(words[:8])} …")
    return found


def comments_of(path: pathlib.Path) -> list[tuple[int, str]]:
    mark = r"//+" if path.suffix in (".h", ".c", ".cpp", ".cu", ".cuh") else r"#"
    result = []
    for number, line in enumerate(path.read_text(encoding="utf-8", errors="replace").splitlines(), 1):
        if match := re.search(rf"(?:^|\s){mark}(?!!)\s?(.*)", line):
            result.append((number, match[1]))
    return result


def check_comments(path: pathlib.Path) -> list[str]:
    name = path.relative_to(ROOT)
    return [f"{name}:{number}: avoid \"{word}\"" for number, text in comments_of(path) for word in avoided_words(text)]


def words_of(name: str) -> list[str]:
    """The words of an identifier in lower case: kPeerLook and peer_look have the same ones, and lookup is one word."""
    return [word.lower() for word in re.findall(r"[A-Z]?[a-z0-9]+|[A-Z]+(?![a-z])", name)]


def refused_words(name: str) -> list[str]:
    return [] if name in ALLOWED_NAMES else [word for word in words_of(name) if word in INSTEAD]


def joined(literals: str) -> str:
    return "".join(literal[1:-1] for literal in re.findall(LITERAL, literals))


def names_of_tests(path: pathlib.Path, text: str) -> list[tuple[int, str]]:
    """The names of the tests that a file defines, with their positions. A function with a shorter name is a helper."""
    if path.name == "CMakeLists.txt":
        return [(match.start(), match[1]) for match in CMAKE_TEST.finditer(text)]
    if path.suffix == ".cpp":
        return [(match.start(), joined(match[1])) for match in TEST_CASE.finditer(text)]
    if not path.name.endswith("_test.py"):
        return []
    return [(match.start(), match[2].replace("_", " ") if match[2] else joined(match[1]))
            for match in PYTHON_TEST.finditer(text)]


def check_test_names(path: pathlib.Path, text: str) -> list[str]:
    found = []
    for position, sentence in names_of_tests(path, text):
        wrong = avoided_words(sentence) + [match[0] for match in RIDDLE.finditer(sentence)]
        wrong += [word for word in refused_words(sentence) if not word.startswith("look")]  # a page may look whole
        line = text.count("\n", 0, position) + 1
        found += [f"{path.relative_to(ROOT)}:{line}: avoid \"{word}\" in the name of a test" for word in wrong]
    return found


def check_identifiers(path: pathlib.Path, text: str) -> list[str]:
    small = text.lower()
    if not any(stem in small for stem in STEMS):  # most files need not be taken apart
        return []
    is_cpp = path.suffix in SUFFIXES_OF_CPP
    if is_cpp:
        text = re.sub(r"(?<=[0-9a-fA-F])'(?=[0-9a-fA-F])", "", text)  # it separates digits and begins no character
    code = (NOT_CODE_OF_CPP if is_cpp else NOT_CODE_OF_PYTHON).sub(lambda match: "\n" * match[0].count("\n"), text)
    return [f"{path.relative_to(ROOT)}:{number}: avoid \"{word}\" in the identifier {name}: {INSTEAD[word]}"
            for number, line in enumerate(code.splitlines(), 1) if any(stem in line.lower() for stem in STEMS)
            for name in IDENTIFIER.findall(line) for word in refused_words(name)]


def check_names(path: pathlib.Path) -> list[str]:
    name = str(path.relative_to(ROOT))
    text = path.read_text(encoding="utf-8", errors="replace")
    found = [f"{name}: avoid \"{word}\" in the name of a file" for word in refused_words(name)]
    found += check_identifiers(path, text) if path.suffix not in (".txt", ".cmake") else []
    return found + (check_test_names(path, text) if name.startswith("tests/") else [])


def comment_blocks(path: pathlib.Path) -> list[str]:
    """Comments as a reader sees them: consecutive lines that hold nothing else are one comment."""
    blocks: list[str] = []
    last = -1
    for number, text in comments_of(path):
        line = path.read_text(encoding="utf-8", errors="replace").splitlines()[number - 1]
        is_alone = line.lstrip().startswith(("//", "#"))
        if is_alone and last == number - 1 and blocks:
            blocks[-1] += " " + text
        elif not re.match(r"NOLINT|namespace|clang-format|!/usr", text):
            blocks.append(f"{path.relative_to(ROOT)}:{number}: {text}" if is_alone else
                          f"{path.relative_to(ROOT)}:{number}: [{line.split('//')[0].strip()}] {text}")
        last = number if is_alone else -1
    return blocks


def messages_in(path: pathlib.Path) -> list[str]:
    """String literals that read as text; literals that follow one another are one message."""
    code = re.sub(r"(?m)^\s*#.*$|(?<!:)//.*$", "", path.read_text(encoding="utf-8"))
    literals = re.findall(r'((?:"(?:[^"\\\n]|\\.)*"\s*)+)', code)
    texts = [re.sub(r'"\s*"', "", literal.strip())[1:-1] for literal in literals]
    return [f"{path.relative_to(ROOT)}: {text}" for text in texts if len(re.findall(r"[a-z]{2,}", text)) >= 4]


def draw(kind: str, count: int, seed: int) -> None:
    if kind == "comments":
        everything = [block for path in tracked("*.h", "*.c", "*.cpp", "*.cu", "*.py") for block in comment_blocks(path)]
    elif kind == "names":
        everything = [f"{path.relative_to(ROOT)}: {name}" for path in tracked("tests/*.cpp", "tests/*_test.py")
                      for _, name in names_of_tests(path, path.read_text(encoding="utf-8"))]
    else:
        everything = [text for path in tracked("src/*.cpp", "src/*.h", "include/*.h") for text in messages_in(path)]
    print(f"seed {seed}: {count} of {len(everything)} {kind}")
    for text in random.Random(seed).sample(everything, count):
        print(text)


def main() -> int:
    if sys.argv[1:2] == ["--sample"]:
        kind, count = sys.argv[2], int(sys.argv[3])
        draw(kind, count, int(sys.argv[4]) if len(sys.argv) > 4 else random.randrange(10**6))
        return 0
    found = []
    for path in tracked("*.md"):
        found += check_document(path)
    for path in tracked("*.h", "*.c", "*.cpp", "*.cu", "*.cuh", "*.py", "*.cmake", "CMakeLists.txt", "*/CMakeLists.txt", "scripts/*"):
        if path != pathlib.Path(__file__).resolve():
            found += check_comments(path) + check_names(path)
    for path in tracked("src/*.cpp", "src/*.h", "include/*.h"):
        found += [f"{text}: avoid \"{word}\"" for text in messages_in(path) for word in avoided_words(text)]
    print("\n".join(found) or "language: documents, comments and names are as they should be")
    if found:
        print(f"language: {len(found)} places. The rules are in CONTRIBUTING.md.")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
