#!/usr/bin/env python3
"""views.py BIN_DIR [FOLDER]: runs a job of two nodes with four ranks each, of which one is late again and again and then
hangs, and draws what its views show: docs/images/top-80x24.svg, top-200x60.svg, report-light.png and report-dark.png.
With FOLDER, the event log, the report and the trace stay there. Needs root (namespaces), chromium and DejaVu fonts."""
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests/integration"))
from node_rig import BIN, Hosts, Job, until  # noqa: E402

IMAGES = ROOT / "docs/images"
LATE = 5  # the rank that is late, and then hangs
DELAYS = [f"--inject=rank={LATE},at=all_reduce:{number},kind=delay=0.4s" for number in range(60, 400, 20)]
HANG = f"--inject=rank={LATE},at=all_reduce:420,kind=mutex"


def draw_top(socket: pathlib.Path, name: str, size: str) -> None:
    subprocess.run([sys.executable, ROOT / "scripts/top_picture.py", BIN / "ddplaunch", IMAGES / name, size, socket], check=True)


def draw_report(report: pathlib.Path, theme: str) -> None:
    command = ["chromium", "--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--window-size=1180,1280",
               f"--blink-settings=preferredColorScheme={0 if theme == 'dark' else 1}",
               f"--screenshot={IMAGES / f'report-{theme}.png'}", report.as_uri()]
    subprocess.run(command, check=True, capture_output=True, timeout=100)


def main() -> None:
    IMAGES.mkdir(exist_ok=True)
    with Hosts(2) as hosts, tempfile.TemporaryDirectory() as folder:
        keep = pathlib.Path(sys.argv[2] if len(sys.argv) > 2 else folder).resolve()
        keep.mkdir(exist_ok=True)
        for number in (1, 2):
            pathlib.Path(folder, str(number)).mkdir(mode=0o700)
        job = Job(hosts, "--nproc-per-node=4", "--hang-timeout=20", "--record=all", "--rdzv-id=night-run", f"--report={keep}/run.html",
                  f"--trace={keep}/run.trace.json.gz", *DELAYS, HANG, "train_charlm", "--steps=2000", "--checkpoint=")
        job.start(1, environment={"DDP_SOCKET_DIR": f"{folder}/1"})
        until(lambda: list(pathlib.Path(folder, "1").glob("*.sock")), "the first node runs")
        time.sleep(0.5)  # the first node becomes the coordinator
        job.start(2, environment={"DDP_SOCKET_DIR": f"{folder}/2"})
        socket = next(pathlib.Path(folder, "1").glob("*.sock"))
        job.until(1, "worker_started", 4)
        time.sleep(6)
        draw_top(socket, "top-80x24.svg", "80x24")
        job.until(1, "hang")
        time.sleep(2)
        draw_top(socket, "top-200x60.svg", "200x60")
        for number, (code, _, err) in job.ends(120).items():
            print(f"node {number}: exit code {code}\n{err[-1500:]}")
        shutil.copy(job.logs[1], keep / "run.jsonl")
        for theme in ("light", "dark"):
            draw_report(keep / "run.html", theme)


if __name__ == "__main__":
    os.environ.setdefault("TERM", "xterm-256color")
    os.environ["PATH"] = f"{BIN}:{os.environ['PATH']}"  # the pictures show the program's name without its folder
    main()
