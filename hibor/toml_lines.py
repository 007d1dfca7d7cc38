"""Where each key and value of a TOML text stands.

`tomllib` gives values without line numbers; a person who reads "unknown key" needs the line. Rules of this
file:

* Only a text that `tomllib` has accepted is scanned. The scanner therefore needs no error handling of its
  own, and it never interprets a value: it only walks over it.
* A place is a path of names and list positions, as in `("select", "keywords_any", 0)`; an element of an
  array of tables is `("phone", 1)`. A table's line is its header's, or the line of the first dotted key that
  makes it.
"""

from __future__ import annotations

import re
import tomllib
from typing import Final

Place = tuple[str | int, ...]

_BARE_KEY: Final = re.compile(r"[A-Za-z0-9_-]+")
_BLANK: Final = re.compile(r"(?:[ \t\r\n]+|#[^\n]*)*")
_SCALAR: Final = re.compile(r"[^,\]}#\n]*")
_STRINGS: Final = (
    re.compile(r'"""(?:\\.|[^\\])*?"{3,5}(?!")', re.DOTALL),
    re.compile(r"'''.*?'{3,5}(?!')", re.DOTALL),
    re.compile(r'"(?:\\.|[^"\\\n])*"'),
    re.compile(r"'[^'\n]*'"),
)


def key_lines(text: str) -> dict[Place, int]:
    """The line (from 1) of every key and list element of a valid TOML `text`."""
    scanner = _Scanner(text)
    scanner.document()
    return scanner.lines


class _Scanner:
    """Walks over one text; `lines` is the result."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0
        self._table: Place = ()
        self._last_element: dict[Place, int] = {}
        self._counted_to, self._line = 0, 1
        self.lines: dict[Place, int] = {}

    def document(self) -> None:
        """Scan from the start to the end."""
        self._blank()
        while self._at < len(self._text):
            if self._text.startswith("[[", self._at):
                self._array_header()
            elif self._text.startswith("[", self._at):
                self._at += 1
                line = self._here()
                self._table = self._resolved(self._key())
                self._mark(self._table, line)
                self._at = self._text.index("]", self._at) + 1
            else:
                self._pair(self._table)
            self._blank()

    def _array_header(self) -> None:
        self._at += 2
        line = self._here()
        names = self._key()
        array = (*self._resolved(names[:-1]), names[-1])
        position = self._last_element.get(array, -1) + 1
        self._last_element[array] = position
        self._table = (*array, position)
        self._mark(self._table, line)
        self._at = self._text.index("]]", self._at) + 2

    def _resolved(self, names: Place) -> Place:
        """A header's names, with the current element put in wherever a name is an array of tables."""
        place: Place = ()
        for name in names:
            place = (*place, name)
            if place in self._last_element:
                place = (*place, self._last_element[place])
        return place

    def _pair(self, table: Place) -> None:
        line = self._here()
        place = (*table, *self._key())
        self._mark(place, line)
        self._at = self._text.index("=", self._at) + 1
        self._value(place)

    def _key(self) -> Place:
        """Names joined by dots, bare or quoted; stops behind the last one."""
        names: list[str] = []
        while True:
            self._space()
            quoted = self._string()
            if quoted is not None:
                names.append(str(tomllib.loads(f"value = {quoted}")["value"]))
            else:
                found = _BARE_KEY.match(self._text, self._at)
                names.append(found.group() if found else "")
                self._at = found.end() if found else self._at
            self._space()
            if not self._text.startswith(".", self._at):
                return tuple(names)
            self._at += 1

    def _value(self, place: Place) -> None:
        self._blank()
        if self._text.startswith("[", self._at):
            self._inside(place, "]")
        elif self._text.startswith("{", self._at):
            self._inside(place, "}")
        elif self._string() is None:
            found = _SCALAR.match(self._text, self._at)
            self._at = found.end() if found else self._at

    def _inside(self, place: Place, closing: str) -> None:
        """The elements of a list, or the pairs of an inline table."""
        self._at += 1
        position = 0
        while True:
            self._blank()
            if self._text.startswith(closing, self._at) or self._at >= len(self._text):
                self._at += 1
                return
            if closing == "}":
                self._pair(place)
            else:
                element = (*place, position)
                self.lines[element] = self._here()
                self._value(element)
                position += 1
            self._blank()
            if self._text.startswith(",", self._at):
                self._at += 1

    def _string(self) -> str | None:
        """Step over a string of any of the four kinds and return it as written; None when there is none."""
        for pattern in _STRINGS:
            if found := pattern.match(self._text, self._at):
                self._at = found.end()
                return found.group()
        return None

    def _mark(self, place: Place, line: int) -> None:
        """Note `place` and what it implies above itself, where the text has not named that before."""
        for end in range(1, len(place) + 1):
            self.lines.setdefault(place[:end], line)

    def _blank(self) -> None:
        found = _BLANK.match(self._text, self._at)
        self._at = found.end() if found else self._at

    def _space(self) -> None:
        while self._text.startswith((" ", "\t"), self._at):
            self._at += 1

    def _here(self) -> int:
        self._line += self._text.count("\n", self._counted_to, self._at)
        self._counted_to = self._at
        return self._line
