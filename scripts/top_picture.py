#!/usr/bin/env python3
"""Draws what `ddplaunch top` shows of a running job, as a picture.

    scripts/top_picture.py DDPLAUNCH FILE.svg [COLUMNSxROWS] [JOB] [KEYS]

JOB is a pid, a run id or the path of a socket. KEYS are typed after the first frame.
"""
import fcntl
import html
import os
import pathlib
import pty
import select
import signal
import struct
import sys
import termios
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "tests/support"))
from screen import Screen  # noqa: E402

SECONDS = 2.0  # from the start, and again from the last key, to the picture
CHARACTER, LINE = 7.83, 17  # pixels
# The colours of the sequences on a dark terminal.
COLORS = {"31": "#ff7b72", "32": "#7ee787", "33": "#e3b341", "34": "#79c0ff", "35": "#d2a8ff", "36": "#76e3ea",
          "1;31": "#ff7b72", "2": "#8b949e"}
GROUNDS = {"7": ("#e6edf3", "#0d1117"), "1;37;41": ("#da3633", "#ffffff")}  # background, text
BLOCKS = {"█": 1.0, "▓": 0.7, "▒": 0.45, "░": 0.25}  # drawn as rectangles: fonts leave gaps between them


def read(terminal: int, screen: Screen, seconds: float) -> None:
    end, raw = time.monotonic() + seconds, b""
    while (left := end - time.monotonic()) > 0:
        if not select.select([terminal], [], [], left)[0]:
            continue
        try:
            raw += os.read(terminal, 65536)
        except OSError:  # the program has ended
            return
        try:
            screen.show(raw.decode())
            raw = b""
        except UnicodeDecodeError:  # a character is cut
            continue


def photographed(words: list[str], columns: int, rows: int, keys: str) -> Screen:
    screen = Screen(columns, rows)
    pid, terminal = pty.fork()
    if pid == 0:
        os.environ.update(TERM="xterm-256color", LANG="C.UTF-8")
        os.environ.pop("LC_ALL", None)
        fcntl.ioctl(0, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
        os.execv(words[0], words)
    read(terminal, screen, SECONDS)
    if keys:
        os.write(terminal, keys.encode())
        read(terminal, screen, SECONDS)
    is_shown = screen.is_alternate
    os.kill(pid, signal.SIGTERM)
    if not is_shown:
        sys.exit(f"ddplaunch top shows nothing: {screen.main.strip()}")
    copy = Screen(columns, rows)
    copy.cells, copy.cell_styles = screen.cells, screen.cell_styles
    read(terminal, screen, SECONDS)
    os.waitpid(pid, 0)
    return copy


def drawn_row(cells: list[str], cell_styles: list[str], row: int) -> str:
    top = 16 + row * LINE
    result, column = "", 0
    while column < len(cells):
        style, end = cell_styles[column], column
        is_block = cells[column] in BLOCKS
        while end < len(cells) and cell_styles[end] == style and (
                cells[end] == cells[column] if is_block else cells[end] not in BLOCKS):
            end += 1
        text = "".join(cells[column:end])
        x, width = 16 + column * CHARACTER, (end - column) * CHARACTER
        color = COLORS.get(style, "#e6edf3")
        if style in GROUNDS:
            ground, color = GROUNDS[style]
            result += f'<rect x="{x:.1f}" y="{top}" width="{width:.1f}" height="{LINE}" fill="{ground}"/>'
        if is_block:
            result += (f'<rect x="{x:.1f}" y="{top + 2}" width="{width:.1f}" height="{LINE - 4}" fill="{color}" '
                       f'opacity="{BLOCKS[cells[column]]}"/>')
        elif text.strip():
            bold = ' font-weight="bold"' if style.startswith("1") else ""
            result += (f'<text x="{x:.1f}" y="{top + 13}" fill="{color}"{bold} textLength="{width:.1f}">'
                       f"{html.escape(text)}</text>")
        column = end
    return result


def main() -> None:
    launcher, file = os.path.abspath(sys.argv[1]), pathlib.Path(sys.argv[2])
    columns, rows = (int(number) for number in (sys.argv[3] if len(sys.argv) > 3 else "80x24").split("x"))
    job = sys.argv[4:5]
    screen = photographed([launcher, "top", *job], columns, rows, sys.argv[5] if len(sys.argv) > 5 else "")
    width, height = round(columns * CHARACTER + 32), rows * LINE + 32
    styled = zip(screen.cells, screen.cell_styles)
    body = "\n".join(filter(None, (drawn_row(*each, row) for row, each in enumerate(styled))))
    file.write_text(
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" role="img" aria-label="ddplaunch top">\n'
        f'<style>text{{font:13px ui-monospace,SFMono-Regular,Menlo,Consolas,"DejaVu Sans Mono",monospace;white-space:pre}}'
        f'</style>\n<rect width="{width}" height="{height}" rx="8" fill="#0d1117"/>\n{body}\n</svg>\n', encoding="utf-8")


if __name__ == "__main__":
    main()
