"""The person at the terminal: what the doctor says, asks, and waits for.

Rules of this file: without a terminal nothing waits for an answer; a question is then answered by `--yes`
alone.
"""

from __future__ import annotations

import sys
from typing import Any, Protocol

from hibor.people.commandline import Words


class Person(Protocol):
    """Who sits in front of the phone."""

    @property
    def there(self) -> bool:
        """Whether somebody can answer."""

    def say(self, key: str, /, **facts: Any) -> None:
        """Tell one line about the work."""

    def agrees(self, key: str, /, **facts: Any) -> bool:
        """Ask a question that is answered with yes or no."""

    def is_done(self, key: str, /, **facts: Any) -> bool:
        """Wait for Enter; False when the person wants to stop."""


class TerminalPerson:
    """The person behind stdin and stderr."""

    def __init__(self, words: Words, *, yes: bool, quiet: bool) -> None:
        self._words, self._yes, self._quiet = words, yes, quiet

    @property
    def there(self) -> bool:
        """Whether stdin and stderr are a terminal."""
        return sys.stdin is not None and sys.stdin.isatty() and sys.stderr.isatty()

    def say(self, key: str, /, **facts: Any) -> None:
        """One line on stderr."""
        if not self._quiet:
            self._print(self._words(key, **facts))

    def agrees(self, key: str, /, **facts: Any) -> bool:
        """`--yes`, or an answer that begins with y or 是."""
        if self._yes:
            return True
        if not self.there:
            return False
        self._print(self._words(key, **facts), end=" ")
        return sys.stdin.readline().strip().lower()[:1] in ("y", "是")

    def is_done(self, key: str, /, **facts: Any) -> bool:
        """Enter; `q`, or the end of input, stops."""
        if not self.there:
            return False
        self._print(self._words(key, **facts), end=" ")
        answer = sys.stdin.readline()
        return bool(answer) and answer.strip().lower() not in ("q", "quit")

    @staticmethod
    def _print(text: str, end: str = "\n") -> None:
        print(text, end=end, file=sys.stderr, flush=True)
