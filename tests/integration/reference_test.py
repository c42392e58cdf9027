#!/usr/bin/env python3
"""Checks the reference pages against the program: options, environment variables, exit codes, limits. argv[1]:
ddplaunch."""
import pathlib
import re
import shutil
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
REFERENCE = ROOT / "docs/reference"


def read(path: str) -> str:
    return (ROOT / path).read_text(encoding="utf-8")


def ddplaunch(*words: str) -> subprocess.CompletedProcess:
    return subprocess.run([sys.argv[1], *words], capture_output=True, text=True, env={"PATH": "/usr/bin:/bin"})


def names_in(text: str) -> set[str]:
    return set(re.findall(r"(?<![\w-])--?[a-z][a-z-]*", text))


def options_are_documented() -> None:
    page = ddplaunch("help", "--markdown").stdout
    assert page.count("\n### ") > 80, page
    assert page == (REFERENCE / "cli.md").read_text(), "docs/reference/cli.md is out of date: run scripts/docs cli"


def known_errors_are_documented() -> None:
    for words, path in (("known-errors", "reference/known-errors.md"), ("known-errors-zh", "zh-CN/known-errors.md")):
        page = ddplaunch("help", "--markdown", words).stdout
        assert page.count("\n### ") >= 60, page
        assert page == read(f"docs/{path}"), f"docs/{path} is out of date: run scripts/docs errors"


# Maps every option of torchrun to values that it accepts, or to None if it takes no value.
TORCHRUN = {
    "--nnodes": ["1", "1:1"], "--nproc-per-node": ["2", "auto", "cpu"], "--rdzv-backend": ["static", "c10d"],
    "--rdzv-endpoint": ["localhost:0"], "--rdzv-id": ["job"], "--rdzv-conf": ["timeout=60,is_host=true"],
    "--standalone": None, "--max-restarts": ["3"], "--monitor-interval": ["0.1"],
    "--start-method": ["spawn", "fork", "forkserver"], "--event-log-handler": ["null", "console"],
    "--role": ["trainer"], "--module": None, "-m": None, "--no-python": None, "--run-path": None,
    "--log-dir": ["/tmp"], "--redirects": ["3", "0:1,1:2"], "-r": ["3"], "--tee": ["3", "0:1,12:2"], "-t": ["3"],
    "--local-ranks-filter": ["0,1"], "--duplicate-stdout-filters": ["a,b"], "--duplicate-stderr-filters": ["a,,b"],
    "--node-rank": ["0"], "--master-addr": ["127.0.0.1"], "--master-port": ["29500"], "--local-addr": ["127.0.0.1"],
    "--logs-specs": ["default"], "--numa-binding": ["node", "socket", "exclusive", "core-complex"],
    "--signals-to-handle": ["SIGTERM,SIGINT"], "--shutdown-timeout": ["60"], "--virtual-local-rank": None,
    "--use-env": None,
}
# These options must be understood, but Python, NUMA nodes or GPUs may be missing, so the job may fail.
NEEDS_MORE = {"--module", "-m", "--run-path", "--numa-binding", "--virtual-local-rank"}


def torchrun_options_are_accepted_or_refused_as_documented() -> None:
    page = (REFERENCE / "torchrun.md").read_text()
    table = page[page.index("| torchrun | "):]
    rows = re.findall(r"^\| (`-.*?) \| (.*?) \| (.*?) \|$", table, re.MULTILINE)
    listed = {name for option, _, _ in rows for name in names_in(option)}
    assert listed == set(TORCHRUN), f"torchrun.md and torchrun differ: {sorted(listed ^ set(TORCHRUN))}"
    for option, _, difference in rows:
        refusal = re.match(r"refused: `(.*)`", difference)
        for name in names_in(option):
            for spelling in {name, name[:2] + name[2:].replace("-", "_")}:
                values = TORCHRUN[name]
                for words in [[spelling]] if values is None else [[spelling, value] for value in values]:
                    answer = ddplaunch(*words, "--dry-run", "true")
                    if refusal:
                        assert answer.returncode == 2 and refusal[1] in answer.stderr, (words, answer)
                    elif name not in NEEDS_MORE:
                        assert answer.returncode == 0, (words, answer)
                    assert "unknown option" not in answer.stderr, (words, answer)


def manual_page_is_well_formed() -> None:
    page = ddplaunch("--man").stdout
    assert page.startswith(".TH DDPLAUNCH 1 ")
    if shutil.which("groff"):
        result = subprocess.run(["groff", "-man", "-ww", "-z", "-Tutf8"], input=page, capture_output=True, text=True)
        assert result.returncode == 0 and not result.stderr, result.stderr


def variables_are_documented() -> None:
    known = set(re.findall(r'= "([A-Z_]+)";', read("src/wire/worker_env.h")))
    listed = set(re.findall(r"`([A-Z][A-Z_]+)`", (REFERENCE / "environment.md").read_text()))
    assert known, "no variables found in worker_env.h"
    assert known <= listed, f"environment.md lacks {sorted(known - listed)}"


def workers_get_what_is_documented() -> None:
    page = (REFERENCE / "environment.md").read_text()
    table = page[page.index("## Given to workers"):page.index("## Read by the runtime")]
    documented = set(re.findall(r"^\| `([A-Z_]+)`", table, re.MULTILINE))
    command = [sys.argv[1], "-q", "--nproc-per-node=2", "--backend=gloo", "--tag=", "--no-collapse",
               "--inject=rank=0,at=any,kind=kill", "env"]
    clean = {"PATH": "/usr/bin:/bin"}
    lines = subprocess.run(command, capture_output=True, text=True, check=True, env=clean).stdout.splitlines()
    given = {line.split("=")[0] for line in lines} - {"PATH", "PWD", "SHLVL", "_"}
    # These variables are not set without GPUs, on a single node, in a first attempt, without restarts, and if the
    # program is not Python.
    absent = {"PYTHONUNBUFFERED", "CUDA_VISIBLE_DEVICES", "NCCL_PROFILER_PLUGIN", "NCCL_RAS_ADDR", "GLOO_SOCKET_IFNAME", "NCCL_SOCKET_IFNAME", "DDP_LAST_FAILURE",
              "CUDA_DEVICE_MAX_CONNECTIONS", "DDP_STATE_MEMORY"}
    assert documented - given <= absent, f"documented but not given: {sorted(documented - given)}"
    assert given <= documented, f"given but not documented: {sorted(given - documented)}"


def exit_codes_are_documented() -> None:
    codes = set(re.findall(r"kExit\w+ = (\d+);", read("src/base/exit_code.h")))
    listed = set(re.findall(r"^\| (\d+) \|", (REFERENCE / "exit-codes.md").read_text(), re.MULTILINE))
    assert codes and codes <= listed, f"exit-codes.md lacks {sorted(codes - listed)}"


def requests_are_documented() -> None:
    forms = re.findall(r'"([A-Z_]+)", (-1|\d+), (-1|\w+), "', read("src/wire/store_forms.h"))
    page = read("docs/development/protocol.md")
    assert len(forms) > 20
    for name, legacy, current in forms:
        row = f"| {name} | {legacy} | {current} |".replace("-1", "–")
        assert row in page, f"protocol.md lacks the row: {row}"


def supervision_rows_name_tests_that_exist() -> None:
    rows = re.findall(r"^\| (\d+) \|.*\| (.*) \|$", read("docs/development/supervision.md"), re.MULTILINE)
    assert [int(number) for number, _ in rows] == list(range(1, 48)), rows
    tests = "\n".join(path.read_text() for path in (ROOT / "tests").glob("**/*_test.*") if path.suffix != ".pyc")
    for number, shown_by in rows:
        assert len(shown_by) > 20, f"supervision.md, row {number}: no test, and no reason"
        for start in re.findall(r'"(.*?)(?: …)?"', shown_by):
            assert f'"{start}' in tests, f"supervision.md, row {number}: there is no test {start!r}"
        for name in re.findall(r"\w+/\w+_test\b", shown_by):
            assert list((ROOT / "tests/unit/launcher").glob(f"*/{name}.cpp")), f"supervision.md, row {number}: there is no {name}"


CHECKS = [options_are_documented, known_errors_are_documented,
          torchrun_options_are_accepted_or_refused_as_documented, manual_page_is_well_formed, variables_are_documented, workers_get_what_is_documented, exit_codes_are_documented,
          requests_are_documented, supervision_rows_name_tests_that_exist]
for check in CHECKS:
    check()
print(f"{len(CHECKS)} checks of the reference pages")
