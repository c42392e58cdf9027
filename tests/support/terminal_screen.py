"""Shows what a user sees on a terminal: interprets the text and the escape sequences that the launcher uses.

Any other escape sequence is an error, so that a test notices a sequence whose effect this model does not know.
"""
import re
import unicodedata

SEQUENCE = re.compile(r"\x1b\[([0-9;?]*)([A-Za-z])")


def width_of(character: str) -> int:
    if unicodedata.combining(character):
        return 0
    return 2 if unicodedata.east_asian_width(character) in "WF" else 1


class Screen:
    """Has `columns` and `rows`. Lines that scroll off the top are kept in `history`."""

    def __init__(self, columns: int = 80, rows: int = 24):
        self.columns, self.rows = columns, rows
        self.history: list[str] = []
        self.cells = [self.empty() for _ in range(rows)]
        self.row = self.column = 0
        self.wraps = False  # the last column was written, and the next character begins a line
        self.rest = ""  # the beginning of a sequence whose end has not arrived

    def empty(self) -> list[str]:
        return [" "] * self.columns

    def lines(self) -> list[str]:
        """Returns all lines that the user can see by scrolling, without empty ones at the end."""
        lines = self.history + ["".join(cells).rstrip() for cells in self.cells]
        while lines and not lines[-1]:
            lines.pop()
        return lines

    def resize(self, columns: int, rows: int) -> None:
        """Cuts or extends the lines, as a terminal without reflow does."""
        for cells in self.cells:
            cells.extend(" " * max(columns - len(cells), 0))
            del cells[columns:]
        self.columns = columns
        while rows < self.rows and self.row < self.rows - 1:
            self.cells.pop()
            self.rows -= 1
        while rows < self.rows:
            self.history.append("".join(self.cells.pop(0)).rstrip())
            self.rows, self.row = self.rows - 1, self.row - 1
        while rows > self.rows:
            self.cells.append(self.empty())
            self.rows += 1
        self.column, self.wraps = min(self.column, columns - 1), False

    def feed(self, text: str) -> None:
        text = self.rest + text
        self.rest = ""
        at = 0
        while at < len(text):
            if text[at] != "\x1b":
                self.put(text[at])
                at += 1
                continue
            sequence = SEQUENCE.match(text, at)
            if not sequence:
                self.rest = text[at:]
                assert re.fullmatch(r"\x1b(\[[0-9;?]*)?", self.rest), f"unknown sequence: {self.rest[:20]!r}"
                return
            self.control(sequence[1], sequence[2])
            at = sequence.end()

    def put(self, character: str) -> None:
        if character == "\r":
            self.column, self.wraps = 0, False
        elif character == "\n":
            self.line_feed()
        else:
            width = width_of(character)
            if self.wraps or self.column + width > self.columns:
                self.column = 0
                self.line_feed()
            for i in range(width):
                self.cells[self.row][self.column + i] = character if i == 0 else ""
            self.wraps = self.column + width >= self.columns
            self.column = min(self.column + width, self.columns - 1)

    def line_feed(self) -> None:
        self.wraps = False
        if self.row < self.rows - 1:
            self.row += 1
            return
        self.history.append("".join(self.cells.pop(0)).rstrip())
        self.cells.append(self.empty())

    def control(self, parameters: str, final: str) -> None:
        number = int(parameters) if parameters.isdigit() else None
        if final == "m":
            return
        self.wraps = False
        if final == "A":
            self.row = max(self.row - (number or 1), 0)
        elif final == "G":
            self.column = min((number or 1) - 1, self.columns - 1)
        elif final in "JK" and number in (None, 0):
            self.cells[self.row][self.column:] = [" "] * (self.columns - self.column)
            for below in range(self.row + 1, self.rows if final == "J" else 0):
                self.cells[below] = self.empty()
        else:
            raise AssertionError(f"unknown sequence: ESC [ {parameters}{final}")
