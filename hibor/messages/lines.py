"""Foreign text within a line of our own.

Rules of this file: what a file name, a title or an argument holds is whatever somebody typed. Within a line
it may not end the line, move a cursor or turn the line round; what would is shown as `\\n` or `\\u001b`,
which JSON reads back as what it was. Text of our own that has several lines on purpose is marked.
"""

from __future__ import annotations

import re
from typing import Final

CONTROLS: Final = "\x00-\x08\x0b\x0c\x0e-\x1a\x1c-\x1f\x7f-\x9f"
"""Controls but tab, line feed, carriage return and escape, as the inside of a character class."""
TURNING: Final = "\u061c\u200e\u200f\u2028\u2029\u202a-\u202e\u2066-\u2069"
"""Marks that turn a line round, and the two separators some programs take for line ends."""
HALVES: Final = "\ud800-\udfff"
"""Halves of surrogate pairs: bytes of a name that are not UTF-8."""
_STRANGE: Final = re.compile(f"[{CONTROLS}{TURNING}{HALVES}\x1b\t\r\n]")
_SHORT: Final = {"\n": "\\n", "\r": "\\r", "\t": "\\t"}


class Lines(str):
    """Text of our own that has several lines on purpose."""


def one_line(text: str) -> str:
    """Foreign text as a part of a line; `Lines` stay as they are."""
    return text if isinstance(text, Lines) else _STRANGE.sub(escaped, text)


def is_plain(text: str) -> bool:
    """Whether a text is one line of Unicode that every console shows as it is."""
    return _STRANGE.search(text) is None


def escaped(found: re.Match[str]) -> str:
    """What is shown in place of a character."""
    return _SHORT.get(found[0]) or f"\\u{ord(found[0]):04x}"
