"""Help texts that fit the terminal in every language: a Chinese character takes two cells and a line may end
after it; a Latin word is kept whole.

Rules of this file: widths are cells, not characters; a closing mark never begins a line.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Iterator
from typing import Final

import click

_NEVER_FIRST: Final = "，。；：！？、）】》」』”’…"
_PIECE: Final = re.compile(rf"(?:[\u2e80-\uffef]|[^\s\u2e80-\uffef]+)[{_NEVER_FIRST}]*|\s+")
_MOST_FIRST_COLUMN: Final = 30
_GAP: Final = 2


def cells(text: str) -> int:
    """How many cells of a terminal a text fills."""
    return sum(2 if unicodedata.east_asian_width(letter) in "WF" else 1 for letter in text)


def wrapped(text: str, width: int) -> Iterator[str]:
    """The lines of one paragraph, each at most `width` cells where its words allow it."""
    line = ""
    for piece in _PIECE.findall(" ".join(text.split())):
        if line and cells(line) + cells(piece.rstrip()) > width:
            yield line.rstrip()
            line = piece.lstrip()
        else:
            line += piece if line else piece.lstrip()
    if line.strip():
        yield line.rstrip()


class CellFormatter(click.HelpFormatter):
    """Wraps by cells."""

    def write_text(self, text: str) -> None:
        """Paragraphs, with a blank line between them."""
        indent = " " * self.current_indent
        paragraphs = [part for part in re.split(r"\n\s*\n", text.strip()) if part.strip()]
        room = self.width - len(indent)
        told = ["\n".join(indent + line for line in wrapped(part, room)) for part in paragraphs]
        self.write("\n\n".join(told) + "\n")

    def write_dl(
        self, rows: Iterable[tuple[str, str]], col_max: int = _MOST_FIRST_COLUMN, col_spacing: int = _GAP
    ) -> None:
        """Names at the left, what they mean at the right."""
        rows = list(rows)
        names = min(max((cells(name) for name, _told in rows), default=0), col_max) + col_spacing
        start = self.current_indent + names
        for name, told in rows:
            lines = list(wrapped(told, max(20, self.width - start)))
            gap = " " * (names - cells(name)) if cells(name) + col_spacing <= names else "\n" + " " * start
            first = gap + lines[0] if lines else ""
            rest = "".join(f"\n{'':{start}}{line}" for line in lines[1:])
            self.write(f"{'':{self.current_indent}}{name}{first}{rest}\n")


class CellContext(click.Context):
    """A context whose help is wrapped by cells."""

    formatter_class = CellFormatter
