#!/usr/bin/env python3
"""runner_test.py SCRIPTS: checks what scripts/run_tests.py and scripts/flakes report of tests that pass, fail, fail
every second time, skip themselves, hang, or cannot be started."""
import pathlib
import subprocess
import sys
import tempfile

SCRIPTS = pathlib.Path(sys.argv[1]).resolve()
TESTS = """
add_test([=[room: a sentence, with "words"]=] true)
add_test(fails sh -c "echo why; exit 1")
add_test(now_and_then sh -c "if [ -e mark ]; then rm mark; else touch mark; echo the first time; exit 1; fi")
add_test(skips sh -c "echo no such thing here; exit 77")
set_tests_properties(skips PROPERTIES SKIP_RETURN_CODE 77)
add_test(hangs sleep 1000)
set_tests_properties(hangs PROPERTIES TIMEOUT 1)
add_test(missing /no/such/program)
"""


def run(script: str, *words: object) -> tuple[int, str]:
    done = subprocess.run([sys.executable, SCRIPTS / script, *map(str, words)], capture_output=True, text=True, timeout=120)
    return done.returncode, done.stdout + done.stderr


def the_runner_reports_the_result_of_each_test(build: pathlib.Path) -> None:
    code, text = run("run_tests.py", build)
    assert code == 1 and text.splitlines()[-1] == "1 passed, 4 failed", (code, text)
    assert "\nFAILED: fails\nwhy\n" in text and "\nFAILED: now_and_then\nthe first time\n" in text, text
    assert "skipped: skips: no such thing here" in text, text
    assert "\nFAILED: hangs\nTimeout\n" in text and "\nFAILED: missing\n" in text, text
    code, text = run("run_tests.py", build, "-R", "room|now_and_then")
    assert code == 0 and text.splitlines()[-1] == "2 passed, 0 failed", (code, text)
    code, text = run("run_tests.py", build, "-R", "no test has this name")
    assert code == 1, (code, text)


def flakes_counts_failures(build: pathlib.Path) -> None:
    code, text = run("flakes", "--build", build, "-n", 4, "--load", 1, "room", "now_and_then")
    assert code == 1 and "  2 of  4  now_and_then\n" in text and "its first failure\nthe first time" in text, (code, text)
    assert "room" not in text[text.index("failed  test"):], text
    assert len(list((build / "flakes").glob("run_*.xml"))) == 4
    code, text = run("flakes", "--build", build, "-n", 2, "--load", 0, "room")
    assert code == 0 and text.splitlines()[-1] == "no failure in 2 runs beside 0 busy loops", (code, text)


if __name__ == "__main__":
    for check in (the_runner_reports_the_result_of_each_test, flakes_counts_failures):
        with tempfile.TemporaryDirectory() as folder:
            pathlib.Path(folder, "CTestTestfile.cmake").write_text(TESTS)
            check(pathlib.Path(folder))
            print(f"ok: {check.__name__.replace('_', ' ')}")
