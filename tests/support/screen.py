"""Interprets the few sequences that ddplaunch writes to a terminal, to test what a user sees."""
import re
import unicodedata

# CAN (\x18) cancels a sequence that has begun. A signal may end a program in the middle of one.
SEQUENCE = re.compile(r"\x1b\[([0-9;?]*)([A-Za-z])|(?:\x1b(?:\[[0-9;?]*)?)?\x18")


class Screen:
    """Holds the text on a terminal with an alternate screen. An unknown sequence is an error."""

    def __init__(self, columns: int, rows: int):
        self.rest = ""
        self.is_alternate = False
        self.has_cursor = True
        self.wraps = True
        self.is_strict = True  # text outside of the screen is an error
        self.style = ""  # parameters of the sequence for the characters that follow; empty for plain ones
        self.styles: set[str] = set()
        self.main = ""  # what was written outside of the alternate screen
        self.resize(columns, rows)

    def resize(self, columns: int, rows: int) -> None:
        self.columns, self.rows = columns, rows
        self.clear()

    def clear(self) -> None:
        self.clear_cells()
        self.row = self.column = 0

    def clear_cells(self) -> None:
        self.cells = [[" "] * self.columns for _ in range(self.rows)]
        self.cell_styles = [[""] * self.columns for _ in range(self.rows)]  # the style of each cell

    def show(self, text: str) -> None:
        text = self.rest + text
        at = 0
        while at < len(text):
            if text[at] not in "\x1b\x18":
                self.put(text[at])
                at += 1
                continue
            match = SEQUENCE.match(text, at)
            if match is None:
                assert len(text) - at < 16, f"unknown sequence {text[at:at + 20]!r}"
                break  # it is cut off, and the rest comes later
            if match[2]:
                self.obey(match[1], match[2])
            at = match.end()
        self.rest = text[at:]

    def put(self, character: str) -> None:
        if not self.is_alternate:
            self.main += character
            return
        if character == "\r":
            self.column = 0
            return
        width = 2 if unicodedata.east_asian_width(character) in "WF" else 1
        if self.column + width > self.columns or self.row >= self.rows:
            if not self.is_strict:
                return
            raise AssertionError(f"{character!r} beyond the last column of row {self.row}: {self.text()}")
        self.cells[self.row][self.column] = character
        self.cell_styles[self.row][self.column] = self.style
        if width == 2:
            self.cells[self.row][self.column + 1] = ""
        self.column += width

    def obey(self, parameters: str, command: str) -> None:
        if parameters == "?1049":
            self.is_alternate = command == "h"
            self.clear()
        elif parameters == "?25":
            self.has_cursor = command == "h"
        elif parameters == "?7":
            self.wraps = command == "h"
        elif parameters == "?2026":
            pass
        elif command == "m":
            self.styles.add(parameters)
            self.style = "" if parameters in ("", "0") else parameters
        elif command == "J" and parameters == "2":
            self.clear_cells()
        elif command == "K" and not parameters:
            if self.row < self.rows:
                self.cells[self.row][self.column:] = [" "] * (self.columns - self.column)
            else:
                assert not self.is_strict, f"row {self.row}"
        elif command == "H":
            row, column = parameters.split(";")
            self.row, self.column = int(row) - 1, int(column) - 1
        else:
            raise AssertionError(f"unknown sequence {parameters}{command}")

    def lines(self) -> list[str]:
        return ["".join(line).rstrip() for line in self.cells]

    def text(self) -> str:
        return "\n".join(self.lines())
