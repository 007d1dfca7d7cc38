"""A terminal to look at: a pseudo-terminal with a process on it, and what its bytes draw.

Rules of this file: only what a live view uses is understood (text, CR, LF, cursor up and left, erasing,
colours, hiding the cursor); anything else is an error, so that a view cannot use more than old consoles know.
"""

from __future__ import annotations

import os
import re
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import attrs
from rich.cells import cell_len

from tests.main_job import ROOT, RUN_LIMIT_S, Run, environment

PIECE = re.compile(
    r"\x1b\[(?P<private>\??)(?P<numbers>[\d;]*)(?P<final>[A-Za-z])|(?P<text>[^\x1b])", re.DOTALL
)


@attrs.define
class Screen:
    """Lines as a person would see them, scrolled-away ones included. A wide character fills two cells."""

    columns: int
    lines: list[list[str]] = attrs.field(factory=lambda: [[]])
    row: int = 0
    column: int = 0
    cursor_shown: bool = True
    widest: int = 0
    coloured: bool = False

    def feed(self, data: str) -> None:
        """Draw what was written."""
        at = 0
        while at < len(data):
            found = PIECE.match(data, at)
            if found is None:
                assert len(data) - at < 24, f"not understood: {data[at : at + 24]!r}"
                return  # an escape that has not come whole yet
            at = found.end()
            if found["text"] is not None:
                self._put(found["text"])
            else:
                self._control(found["private"], found["numbers"], found["final"])

    def _put(self, character: str) -> None:
        if character == "\r":
            self.column = 0
        elif character == "\n":
            self.row += 1
            self.column = 0
            while len(self.lines) <= self.row:
                self.lines.append([])
        else:
            line = self.lines[self.row]
            line.extend(" " * (self.column - len(line)))
            cells = [character] + [""] * (cell_len(character) - 1)
            line[self.column : self.column + len(cells)] = cells
            self.column += len(cells)
            self.widest = max(self.widest, self.column)

    def _control(self, private: str, numbers: str, final: str) -> None:
        if final == "m":
            self.coloured = True
        elif private and final in "hl" and numbers == "25":
            self.cursor_shown = final == "h"
        elif final == "A":
            self.row = max(0, self.row - int(numbers or 1))
        elif final == "K" and numbers == "2":
            self.lines[self.row] = []
        else:
            raise AssertionError(f"a view may not use ESC[{private}{numbers}{final}")

    @property
    def text(self) -> list[str]:
        """The lines, without blanks at their ends."""
        return ["".join(line).rstrip() for line in self.lines]


@attrs.frozen
class Seen:
    """A run on a terminal: what came on stdout, and the screens along the way and at the end."""

    run: Run
    screens: list[list[str]]
    screen: Screen
    raw: bytes


def watch(
    options: Sequence[str | Path],
    library: Path,
    *,
    columns: int = 80,
    lines: int = 24,
    interrupt_when: Callable[[list[str]], bool] | None = None,
    more: dict[str, str] | None = None,
) -> Seen:
    """Run the main job with stderr on a terminal and stdout on a pipe; Ctrl-C once `interrupt_when` holds."""
    import pty
    import termios

    master, slave = pty.openpty()
    termios.tcsetwinsize(slave, (lines, columns))
    said = ("NO_COLOR", "COLUMNS", "LINES")
    known = {key: value for key, value in environment().items() if key not in said}
    process = subprocess.Popen(
        [sys.executable, "-m", "hibor.run", *map(str, options), "--library", str(library)],
        cwd=ROOT,
        env={**known, "TERM": "xterm-256color", **(more or {})},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=slave,
        start_new_session=True,
    )
    os.close(slave)
    assert process.stdout is not None
    screen, screens, raw, stdout = Screen(columns), [], b"", b""
    waiting, end_s = [master, process.stdout.fileno()], time.monotonic() + RUN_LIMIT_S
    while waiting:
        ready, _, _ = select.select(waiting, [], [], max(0.0, end_s - time.monotonic()))
        assert ready, "the run does not end"
        for descriptor in ready:
            data = _read(descriptor)
            if not data:
                waiting.remove(descriptor)
            elif descriptor == master:
                raw += data
                screen = Screen(columns)
                screen.feed(raw.decode("utf-8", "ignore"))
                screens.append(screen.text)
                if interrupt_when is not None and interrupt_when(screen.text):
                    process.send_signal(signal.SIGINT)
                    interrupt_when = None
            else:
                stdout += data
    os.close(master)
    process.stdout.close()
    code = process.wait(RUN_LIMIT_S)
    return Seen(Run(code, stdout, raw.decode("utf-8", "replace"), library), screens, screen, raw)


def _read(descriptor: int) -> bytes:
    try:
        return os.read(descriptor, 65536)
    except OSError:  # the other end of a pseudo-terminal is closed
        return b""
