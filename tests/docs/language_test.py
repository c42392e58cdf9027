#!/usr/bin/env python3
"""language_test.py SOURCE_DIR: tests that scripts/language.py finds what it refuses, in a small repository, and accepts
the names and sentences that resemble it."""
import pathlib
import shutil
import subprocess
import sys
import tempfile

SOURCE = pathlib.Path(sys.argv[1])
# Maps a file and its text to a part of the line that reports it. The parts of a test's name are joined here, so that
# language.py does not read them as the names of this file's tests.
PLANTED = {
    ("src/peers.h", "// A comment.\nbool is_told = false;\n"): 'src/peers.h:2: avoid "told" in the identifier is_told',
    ("src/limits.h", "constexpr auto kPeerLook = 1'000;\n"): 'src/limits.h:1: avoid "look" in the identifier kPeerLook',
    ("src/queue.cpp", "class DeedQueue {};\n"): 'src/queue.cpp:1: avoid "deed" in the identifier DeedQueue',
    ("src/later.cpp", '/* two\nlines */ const char* text = R"(\n)"; int looks_ = 0;\n'):
        'src/later.cpp:3: avoid "looks" in the identifier looks_',
    ("scripts/strangers.py", "text = 1\n"): 'scripts/strangers.py: avoid "strangers" in the name of a file',
    ("scripts/tool.py", 'def look(page):\n    """A text."""\n'): 'scripts/tool.py:1: avoid "look" in the identifier look',
    ("tests/unit/a_test.cpp", "\n" + 'TEST_CASE(' + '"a peer is "\n    "told why", "[slow]") {\n'):
        'tests/unit/a_test.cpp:2: avoid "is told" in the name of a test',
    ("tests/unit/b_test.cpp", 'TEST_CASE(' + '"who waits gets a reply") {\n'):
        'tests/unit/b_test.cpp:1: avoid "who" in the name of a test',
    ("tests/c_test.py", "def " + "a_job_waits_for_nobody() -> None:\n    pass\n"):
        'tests/c_test.py:1: avoid "nobody" in the name of a test',
    ("tests/d_test.py", '@te' + 'st("1", "what is left is removed")\n' + "def left():\n    pass\n"):
        'tests/d_test.py:1: avoid "what" in the name of a test',
    ("tests/CMakeLists.txt", "add_" + "test(NAME strangers COMMAND x)\n"):
        'tests/CMakeLists.txt:1: avoid "strangers" in the name of a test',
    ("src/comment.cpp", "int a;  // It is told once.\n"): 'src/comment.cpp:1: avoid "is told"',
    ("docs/page.md", "Somebody reads this.\n"): 'docs/page.md:1: avoid "Somebody"',
}
ACCEPTED = {
    "src/lookup.h": "// Looks once. Indeed, a stranger looks like a peer.\nstruct PeerLookup { int lookup_count; };\n",
    "src/text.cpp": 'const char* text = "a stranger was told"; const char other = \'"\'; /* look */\n',
    "scripts/tool.py": 'text = "look"  # the look of a page\n',
    "tests/e_test.cpp": 'TEST_CASE(' + '"a page that looks whole is read") {}\n',
    "tests/f_test.py": "def " + "a_peer_gets_a_reply() -> None:\n    pass\n",
    "docs/page.md": "The launcher reads this page.\n",
}


def result_for(files: dict[str, str]) -> tuple[int, str]:
    """Returns the exit code and the output of language.py in a repository with these files."""
    with tempfile.TemporaryDirectory() as folder:
        (pathlib.Path(folder) / "scripts").mkdir()
        script = shutil.copy(SOURCE / "scripts/language.py", f"{folder}/scripts/language.py")
        for name, text in files.items():
            path = pathlib.Path(folder, name)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
        subprocess.run(["git", "init", "-q"], cwd=folder, check=True)
        run = subprocess.run([sys.executable, script], capture_output=True, text=True)
        return run.returncode, run.stdout + run.stderr


def main() -> None:
    code, said = result_for(dict(PLANTED.keys()))
    for line in PLANTED.values():
        assert line in said, f"not found: {line}\n{said}"
    places = {line.partition(": ")[0] for line in said.splitlines() if ": avoid " in line}
    assert code == 1 and places == {line.partition(": ")[0] for line in PLANTED.values()}, said
    code, said = result_for(ACCEPTED)
    assert code == 0, said
    print(f"{len(PLANTED)} planted names and sentences are found, and {len(ACCEPTED)} others are accepted")


if __name__ == "__main__":
    if not shutil.which("git"):
        print("skipped: git is not installed")
        sys.exit(77)
    main()
