#!/usr/bin/env python3
"""page_test.py BIN_DIR PREFIX PAGE: runs the commands of a page of the manual as a reader would, in an empty folder.

PREFIX is an installed copy. Each block must do what manual_page.py describes. Exits with 77 if no block could run.
"""
import ast
import contextlib
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

from manual_page import Block, blocks_of, missing_line, region_of

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tests/integration"), str(ROOT / "tests/support")]
import environments  # noqa: E402  (it is in another folder)

PREFIX = pathlib.Path(sys.argv[2]).resolve()
PAGE = pathlib.Path(sys.argv[3]).resolve()
LIMIT = 1500  # seconds per block; a block compiles a libtorch program beside seven other tests
NEW_TORCH = environments.find("pytorch")


def has_torch() -> bool:
    if NEW_TORCH:
        return True
    return subprocess.run(["python3", "-c", "import torch"], capture_output=True).returncode == 0


class Here:
    """Runs scripts on this node."""

    def words(self, script: pathlib.Path) -> list[str]:
        return ["bash", str(script)]

    def environment(self) -> dict[str, str]:
        return {}

    def close(self) -> None:
        pass


class InSlurm(Here):
    """Runs scripts in a cluster of three nodes, which are all this computer."""

    def __init__(self, folder: pathlib.Path):
        from slurm_test import NODES, Slurm
        hosts = folder / "hosts"
        hosts.write_text("127.0.0.1 localhost " + " ".join(f"node{i}" for i in range(1, NODES + 1)) + "\n")
        subprocess.run(["mount", "--bind", hosts, "/etc/hosts"], check=True)
        self.slurm = Slurm(folder)

    def environment(self) -> dict[str, str]:
        return {"SLURM_CONF": str(self.slurm.folder / "slurm.conf")}

    def close(self) -> None:
        self.slurm.stop()


class OverSsh(Here):
    """Runs scripts on a node that reaches the nodes a and b over ssh."""

    def __init__(self, folder: pathlib.Path):
        from node_rig import Hosts
        from ssh_hosts_test import CONTROLLER, Lab
        self.hosts = Hosts(CONTROLLER)
        assert self.hosts.are_apart, "no network namespaces"
        for number in self.hosts.numbers:
            self.hosts.name_hosts(number, "10.77.0.1 a", "10.77.0.2 b")
        self.lab = Lab(self.hosts, folder)
        known = folder / "known_hosts"
        key = known.read_text().split(maxsplit=1)[1].splitlines()[0]
        known.write_text(known.read_text() + f"a {key}\nb {key}\n")
        self.programs = folder / "programs"
        self.programs.mkdir()
        wrapper = self.programs / "ssh"
        wrapper.write_text(f'#!/bin/sh\nexec /usr/bin/ssh -F {self.lab.config} "$@"\n')
        wrapper.chmod(0o755)
        self.inside = self.hosts.inside(CONTROLLER)

    def words(self, script: pathlib.Path) -> list[str]:
        return [*map(str, self.inside), "env", f"PATH={self.programs}:{os.environ['PATH']}", "bash", str(script)]

    def close(self) -> None:
        self.lab.close()
        self.hosts.remove()


RIGS = {"": (Here, []), "slurm": (InSlurm, ["slurmctld", "slurmd", "munged"]), "ssh": (OverSsh, ["sshd", "ip"])}


def set_environment(home: pathlib.Path) -> None:
    """Sets a reader's environment, without variables of a job, of this test or of a build."""
    for name in list(os.environ):
        if name.startswith(("DDP_", "PET_", "TORCH", "SLURM_", "NCCL_")):
            del os.environ[name]
    torch = f"{pathlib.Path(NEW_TORCH).parent}:" if NEW_TORCH else ""
    os.environ.update(PATH=f"{PREFIX}/bin:{torch}{os.environ['PATH']}:/usr/sbin", HOME=str(home), CMAKE_PREFIX_PATH=str(PREFIX),
                      PYTHONDONTWRITEBYTECODE="1")
    # The launcher imports PyTorch once for the ranks of a job in the pages with most of these jobs. The output is the same.
    # The other pages have the plain start.
    if PAGE.stem in ("pytorch", "kill-a-rank", "common-mistakes"):
        os.environ["DDP_PRELOAD"] = "torch"


class Page:
    def __init__(self, folder: pathlib.Path):
        self.folder = folder / "page"
        self.folder.mkdir()
        self.rigs: dict[str, Here] = {}
        self.place = folder
        self.ran, self.skipped, self.failures = 0, 0, []

    def check(self, block: Block) -> None:
        if block.source:
            self.ran += 1
            if region_of(ROOT, block.source) != block.text:
                self.failures.append(f"line {block.line}: the block differs from {block.source}")
        if block.title:
            target = self.folder / block.title
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(block.text, encoding="utf-8")
        if block.language == "python":
            ast.parse(block.text)
        elif block.language in ("yaml", "yml"):
            with contextlib.suppress(ImportError):
                import yaml
                list(yaml.safe_load_all(block.text))
        elif block.language == "cpp" and not block.title and not block.source:
            self.failures.append(f"line {block.line}: C++ without a title or a source")
        elif block.language in ("bash", "console"):
            self.run(block)

    def obstacle(self, block: Block) -> str:
        missing = [name for name in RIGS[block.rig][1] if shutil.which(name) is None]
        if block.skip:
            return block.skip
        if missing:
            return "not installed: " + ", ".join(missing)
        if block.rig and os.geteuid() != 0:
            return "needs root"
        return "PyTorch is not installed" if block.needs_torch and not has_torch() else ""

    def run(self, block: Block) -> None:
        if obstacle := self.obstacle(block):
            self.skipped += not block.skip
            print(f"line {block.line}: not run: {obstacle}")
            return
        if block.rig not in self.rigs:
            place = self.place / (block.rig or "here")
            place.mkdir(mode=0o755)
            self.rigs[block.rig] = RIGS[block.rig][0](place) if block.rig else Here()
        rig = self.rigs[block.rig]
        script = self.place / "block.sh"
        script.write_text(block.commands(), encoding="utf-8")
        try:
            done = subprocess.run(rig.words(script), cwd=self.folder, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                  stderr=subprocess.STDOUT, text=True, errors="replace", timeout=LIMIT,
                                  env={**os.environ, **rig.environment()})
        except subprocess.TimeoutExpired as error:
            output = (error.stdout or b"").decode(errors="replace")
            self.failures.append(f"line {block.line}: still running after {LIMIT} s\n{output}")
            return
        self.ran += 1
        print(f"line {block.line}: exit code {done.returncode}")
        if block.exit_code is not None and done.returncode != block.exit_code:
            self.failures.append(f"line {block.line}: exit code {done.returncode}, not {block.exit_code}\n{done.stdout}")
        # Verdicts on hangs depend on what PyTorch records, and the manual shows those of a new version.
        is_comparable = not block.needs_torch or NEW_TORCH
        if is_comparable and (line := missing_line(block.output(), done.stdout)) is not None:
            self.failures.append(f"line {block.line}: the output lacks this line: {line}\n{done.stdout}")

    def close(self) -> None:
        for rig in self.rigs.values():
            rig.close()


def main() -> int:
    blocks = blocks_of(PAGE)
    if any(block.rig == "slurm" for block in blocks) and os.geteuid() == 0 and "DDP_PAGE_MOUNTS" not in os.environ:
        # The hosts file is changed for this process alone.
        os.execvpe("unshare", ["unshare", "--mount", sys.executable, *sys.argv], {**os.environ, "DDP_PAGE_MOUNTS": "1"})
    with tempfile.TemporaryDirectory() as folder:
        os.chmod(folder, 0o755)
        set_environment(pathlib.Path(folder))
        page = Page(pathlib.Path(folder))
        try:
            for block in blocks:
                page.check(block)
        finally:
            page.close()
    for failure in page.failures:
        print("FAILED:", failure)
    print(f"{PAGE.name}: {page.ran} blocks were run or compared, {page.skipped} could not be, {len(page.failures)} failures")
    return 1 if page.failures else 0 if page.ran or not page.skipped else 77


if __name__ == "__main__":
    sys.exit(main())
