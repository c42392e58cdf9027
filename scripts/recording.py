#!/usr/bin/env python3
"""recording.py DDPLAUNCH: runs the jobs of the README's recording in a terminal of their own, and draws what they print as
an animated picture, docs/recording/recording.svg. Needs PyTorch 2.12 or newer in the Python environment "pytorch".
"""
import fcntl
import html
import os
import pathlib
import pty
import re
import shutil
import socket
import struct
import sys
import tempfile
import termios
import textwrap
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "tests/support"))
import environments  # noqa: E402  (it is in another folder)

ROOT = pathlib.Path(__file__).resolve().parents[1]
FOLDER = ROOT / "docs/recording"
COLUMNS = 112
PAUSE = 6.0  # seconds for which a finished scene stays
LONGEST_WAIT = 1.2  # seconds; the picture does not wait as long as the job does
# The workers' standard error goes to files, so that the tracebacks of ranks that lost rank 2 do not fill the picture.
SCENES = [["ddplaunch", "--nproc_per_node=4", "--redirects=2", "--log-dir=logs", "train.py", "crash"],
          ["ddplaunch", "--nproc_per_node=4", "--hang-timeout=10", "train.py", "hang"]]
COLORS = {"31": "#ff7b72", "32": "#7ee787", "33": "#e3b341", "34": "#79c0ff", "35": "#d2a8ff", "36": "#76e3ea"}
LINE_HEIGHT, CHARACTER = 18, 7.85


def record(launcher: str, words: list[str]) -> list[tuple[float, str]]:
    """The lines that the job prints, each with its time in seconds. Paths and names of this machine are replaced."""
    folder = tempfile.mkdtemp()
    shutil.copy(FOLDER / "train.py", folder)
    names = {folder: "/home/ada", str(environments.FOLDER / "pytorch"): "/home/ada/venv", "node " + socket.gethostname(): "node gpu1"}
    pid, terminal = pty.fork()
    if pid == 0:
        time.sleep(0.2)  # the terminal gets its size
        os.chdir(folder)
        os.environ.update(PATH=environments.path_with(environments.need("pytorch")), TERM="xterm-256color", OMP_NUM_THREADS="1")
        os.execv(launcher, words)
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 40, 200, 0, 0))
    lines, rest, begin = [], b"", time.monotonic()
    while True:
        try:
            data = os.read(terminal, 65536)
        except OSError:  # the last process has closed the terminal
            break
        if not data:
            break
        *whole, rest = (rest + data).split(b"\n")
        for line in whole:
            text = line.decode(errors="replace").rstrip("\r")
            for old, new in names.items():
                text = text.replace(old, new)
            lines.append((time.monotonic() - begin, text))
    shutil.rmtree(folder)
    code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    return [*lines, (time.monotonic() - begin, "$ echo $?"), (time.monotonic() - begin, str(code))]


def wrapped(line: str) -> list[str]:
    """The line as a terminal of COLUMNS shows it."""
    plain = re.sub(r"\x1b\[[0-9;]*[mK]", "", line)
    if len(plain) <= COLUMNS:
        return [line]
    parts = textwrap.wrap(plain, COLUMNS, subsequent_indent="    ", break_long_words=True)
    if colored := re.search(r"\x1b\[[0-9;]*m([a-z]+:)\x1b\[0?m", line):  # the severity of a line of ddplaunch
        parts[0] = parts[0].replace(colored[1], colored[0], 1)
    return parts


def spans(line: str) -> str:
    """The line in SVG."""
    result, color, bold = "", "", False
    for part in re.split(r"(\x1b\[[0-9;]*[mK])", line):
        if code := re.fullmatch(r"\x1b\[([0-9;]*)[mK]", part):
            for each in code[1].split(";"):
                bold = each == "1" or (bold and each not in ("0", ""))
                color = "" if each in ("0", "") else COLORS.get(each, color)
        elif part:
            style = (f' fill="{color}"' if color else "") + (' font-weight="bold"' if bold else "")
            result += f"<tspan{style}>{html.escape(part)}</tspan>"
    return result


def main() -> None:
    scenes, start = [], 0.5
    for words in SCENES:
        shown = [(start, "$ " + " ".join(words))]
        clock, last = start + 0.8, 0.0
        for at, line in record(os.path.abspath(sys.argv[1]), words):
            clock += min(at - last, LONGEST_WAIT)
            last = at
            shown += [(clock, part) for part in wrapped(line)]
        scenes.append((start, shown, clock + PAUSE))
        start = clock + PAUSE
    total = start
    rows = max(len(shown) for _, shown, _ in scenes)
    width, height = round(COLUMNS * CHARACTER + 32), rows * LINE_HEIGHT + 56
    style, body = [], []
    for number, (begin, shown, end) in enumerate(scenes):
        begin_percent, end_percent = 100 * begin / total, 100 * end / total
        is_last = number == len(scenes) - 1
        style.append(f"@keyframes scene{number}{{0%,{begin_percent:.2f}%{{opacity:0}}{begin_percent + 0.01:.2f}%,"
                     f"{end_percent - 0.01:.2f}%{{opacity:1}}{end_percent:.2f}%,100%{{opacity:0}}}}")
        # A viewer without animations shows the last scene.
        style.append(f".scene{number}{{opacity:{int(is_last)};animation:scene{number} {total:.1f}s linear infinite}}")
        body.append(f'<g class="scene{number}">')
        for row, (at, line) in enumerate(shown):
            percent = 100 * at / total
            name = f"l{number}_{row}"
            style.append(f"@keyframes {name}{{0%,{percent:.2f}%{{opacity:0}}{percent + 0.01:.2f}%,100%{{opacity:1}}}}")
            body.append(f'<text x="16" y="{52 + row * LINE_HEIGHT}" style="animation:{name} {total:.1f}s linear infinite">'
                        f"{spans(line)}</text>")
        body.append("</g>")
    dots = "".join(f'<circle cx="{20 + 20 * i}" cy="18" r="6" fill="{color}"/>' for i, color in enumerate(
        ("#ff5f56", "#ffbd2e", "#27c93f")))
    (FOLDER / "recording.svg").write_text(
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" role="img" '
        f'aria-label="A crash and a hang under ddplaunch">\n<style>\ntext{{font:13px ui-monospace,SFMono-Regular,Menlo,'
        f'Consolas,"DejaVu Sans Mono",monospace;fill:#e6edf3;white-space:pre}}\n' + "\n".join(style) +
        f'\n</style>\n<rect width="{width}" height="{height}" rx="8" fill="#0d1117"/>\n{dots}\n' + "\n".join(body) + "\n</svg>\n",
        encoding="utf-8")


if __name__ == "__main__":
    main()
