#!/usr/bin/env python3
"""github_test.py SOURCE PREFIX: the files under .github. Workflows call only scripts that exist, with options that they have;
the composite action installs a release and refuses a damaged one; all files fit their schemas, if check-jsonschema is on
PATH or named by DDP_CHECK_JSONSCHEMA.
"""
import os
import pathlib
import re
import shlex
import shutil
import subprocess
import sys
import tempfile

SOURCE = pathlib.Path(sys.argv[1]).resolve()
PREFIX = pathlib.Path(sys.argv[2]).resolve()
GITHUB = SOURCE / ".github"
ACTION = GITHUB / "actions/setup-ddplaunch"
NAME = "ddplaunch-0.1.0-linux-x86_64"


def run(*words: object, **more: object) -> subprocess.CompletedProcess:
    return subprocess.run([str(word) for word in words], capture_output=True, text=True, timeout=120, **more)


def files_fit_their_schemas() -> None:
    checker = os.environ.get("DDP_CHECK_JSONSCHEMA") or shutil.which("check-jsonschema")
    if not checker:
        print("not checked: schemas (pip install check-jsonschema, or name it in DDP_CHECK_JSONSCHEMA)")
        return
    forms = [path for path in (GITHUB / "ISSUE_TEMPLATE").glob("*.yml") if path.name != "config.yml"]
    for schema, paths in (("vendor.github-workflows", [*(GITHUB / "workflows").glob("*.yml")]),
                          ("custom.github-workflows-require-timeout", [GITHUB / "workflows/ci.yml"]),
                          ("vendor.github-actions", [ACTION / "action.yml"]),
                          ("vendor.github-issue-forms", forms),
                          ("vendor.github-issue-config", [GITHUB / "ISSUE_TEMPLATE/config.yml"])):
        done = run(checker, "--builtin-schema", schema, *paths)
        assert done.returncode == 0, done.stdout + done.stderr


def workflows_call_scripts_that_exist() -> None:
    commands = [line for path in (GITHUB / "workflows").glob("*.yml")
                for line in re.findall(r"- run: (?:sudo )?(scripts/.*)", path.read_text(encoding="utf-8"))]
    assert len(commands) > 6, commands
    for command in commands:
        script, *words = shlex.split(re.sub(r"\$\{\{.*?\}\}", "X", command))
        path = SOURCE / script
        assert os.access(path, os.X_OK), f"{command}: there is no program {script}"
        text = path.read_text(encoding="utf-8")
        unknown = [word for word in words if word != "X" and "/" not in word and not re.search(rf"(?<![\w-]){word}\b", text)]
        assert not unknown, f"{command}: {script} does not know {unknown}"


def make_release(folder: pathlib.Path) -> pathlib.Path:
    """A directory with the layout of a project's releases."""
    files = folder / "releases/latest/download"
    files.mkdir(parents=True)
    shutil.copytree(PREFIX / "bin", folder / NAME / "bin")
    run("tar", "-czf", files / f"{NAME}.tar.gz", "-C", folder, NAME, check=True)
    shutil.copy(files / f"{NAME}.tar.gz", files / "ddplaunch-0.1.0-py3-none-manylinux_2_31_x86_64.whl")
    done = run(SOURCE / "scripts/checksums", files, "v0.1.0")
    assert done.returncode == 0 and (files / "SHA256SUMS").read_text().count("\n") == 2, done
    (folder / "releases/download").mkdir()
    (folder / "releases/download/v0.1.0").symlink_to(files)
    return folder / "releases"


def install(releases: pathlib.Path, version: str, folder: pathlib.Path, torchrun: str) -> subprocess.CompletedProcess:
    variables = {"GITHUB_PATH": str(folder / "path"), "GITHUB_OUTPUT": str(folder / "output")}
    return run(ACTION / "install", f"file://{releases}", version, folder / "installed", torchrun, env={**os.environ, **variables})


def the_action_installs_a_release(folder: pathlib.Path) -> None:
    releases = make_release(folder)
    for version, torchrun in (("latest", "false"), ("0.1.0", "true"), ("v0.1.0", "false")):
        place = folder / f"{version}_{torchrun}"
        place.mkdir()
        done = install(releases, version, place, torchrun)
        assert done.returncode == 0 and "ddplaunch 0.1.0" in done.stdout, done
        path = (place / "path").read_text().splitlines()
        assert len(path) == (2 if torchrun == "true" else 1), path
        job = run(pathlib.Path(path[0]) / "ddplaunch", "-q", "--nproc-per-node=2", "true")
        assert job.returncode == 0, job
        assert (place / "output").read_text() == f"prefix={pathlib.Path(path[0]).parent}\n"


def the_action_refuses_what_is_damaged_or_missing(folder: pathlib.Path) -> None:
    releases = folder / "releases"
    place = folder / "missing"
    place.mkdir()
    done = install(releases, "9.9.9", place, "false")
    assert done.returncode == 1 and "::error::setup-ddplaunch: cannot download" in done.stdout, done
    with open(releases / "latest/download" / f"{NAME}.tar.gz", "ab") as tarball:
        tarball.write(b"x")
    done = install(releases, "latest", place, "false")
    assert done.returncode == 1 and "the checksum of" in done.stdout and not (place / "path").exists(), done


def a_release_of_another_version_is_refused(folder: pathlib.Path) -> None:
    done = run(SOURCE / "scripts/checksums", folder / "releases/latest/download", "v0.2.0")
    assert done.returncode == 1 and "Is the tag the version of the packages?" in done.stderr, done


def main() -> None:
    files_fit_their_schemas()
    workflows_call_scripts_that_exist()
    if shutil.which("curl") is None:
        print("not installed: curl")
        return
    with tempfile.TemporaryDirectory() as place:
        folder = pathlib.Path(place)
        the_action_installs_a_release(folder)
        a_release_of_another_version_is_refused(folder)
        the_action_refuses_what_is_damaged_or_missing(folder)
    print("the workflows call what exists, and the action installs a release")


if __name__ == "__main__":
    main()
