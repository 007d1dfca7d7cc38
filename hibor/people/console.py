"""The console of a command: what its streams can bear, on every platform.

Rules of this file:

* A command writes to `sys.stdout` and `sys.stderr` as if nothing could go wrong with them. A stream that is
  closed, full, or that nobody reads any more swallows the rest; its first trouble is kept and told once at
  the end. The work goes on.
* A descriptor 0, 1 or 2 that is closed is taken by the null device before anything is opened: the next file
  would get its number, and a stray line would land in a ledger.
* Foreign text cannot forge a line or move a cursor: controls, marks that turn a line round and bytes of
  another encoding are shown as `\\u001b`, which JSON reads back as what it was. Escape sequences pass to a
  terminal alone, where colours and the live view need them; `one_line` is for foreign text within a line.
* stdout is UTF-8 with plain newlines; stderr keeps its encoding and shows `?` for what that lacks.
"""

from __future__ import annotations

import errno
import io
import os
import re
import select
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any, Final, TextIO

from hibor.messages.lines import CONTROLS, HALVES, TURNING, escaped

_ALWAYS: Final = re.compile(f"[{CONTROLS}{TURNING}{HALVES}]")
_NO_TERMINAL: Final = re.compile(f"[{CONTROLS}{TURNING}{HALVES}\x1b]|\r(?!\n)")
READER_GONE: Final = "reader_gone"
_TROUBLES: Final = {
    errno.EBADF: "closed",
    errno.ENOSPC: "full",
    errno.EDQUOT: "full",
    errno.EPIPE: READER_GONE,
    errno.EINVAL: READER_GONE if os.name == "nt" else "unusable",
}


class _Outlet(io.RawIOBase):
    """The end of a stream: the first trouble of the system is kept, and from then on everything dropped."""

    def __init__(self, raw: Any) -> None:
        self._raw = raw
        self.trouble: OSError | None = None

    def writable(self) -> bool:
        return True

    def write(self, data: Any, /) -> int:
        """All of it is taken, whatever becomes of it."""
        if self._raw is None and len(data):
            self.trouble = self.trouble or OSError(errno.EBADF, os.strerror(errno.EBADF))
        if self.trouble is not None or self._raw is None:
            return len(data)
        try:
            while (written := self._raw.write(data)) is None:  # it would block, and was told not to
                select.select((), (self._raw,), ())
            if not isinstance(self._raw, io.RawIOBase):
                self._raw.flush()
            return int(written)
        except OSError as error:
            self.trouble = error
        except ValueError:  # closed by whoever embeds us
            self.trouble = OSError(errno.EBADF, os.strerror(errno.EBADF))
        return len(data)

    def fileno(self) -> int:
        if self._raw is None:
            raise io.UnsupportedOperation("the stream is closed")
        return int(self._raw.fileno())

    def isatty(self) -> bool:
        return self._raw is not None and bool(self._raw.isatty())


class Stream(io.TextIOWrapper):
    """`sys.stdout` or `sys.stderr` while a command runs."""

    def __init__(self, under: io.TextIOWrapper | None, **settings: Any) -> None:
        buffer = None if under is None else under.buffer
        self.outlet = _Outlet(getattr(buffer, "raw", buffer))
        super().__init__(io.BufferedWriter(self.outlet), **settings)
        shown = self.outlet.isatty() or bool(os.environ.get("FORCE_COLOR"))
        self._refused = _ALWAYS if shown else _NO_TERMINAL
        self.told = False

    def write(self, text: str, /) -> int:
        """The text, with what no console may get escaped."""
        super().write(self._refused.sub(escaped, text))
        return len(text)

    @property
    def trouble(self) -> OSError | None:
        """What kept text from being written, None where all of it was."""
        self.flush()
        return self.outlet.trouble


@contextmanager
def opened() -> Iterator[None]:
    """The block in which a command runs. Within another one it changes nothing."""
    if isinstance(sys.stdout, Stream):
        yield
        return
    _take_closed_descriptors()
    before = sys.stdin, sys.stdout, sys.stderr
    with suppress(OSError, ValueError):
        for stream in filter(None, before[1:]):
            stream.flush()
    if sys.stdin is None:
        sys.stdin = io.StringIO()
    sys.stdout = _safe(before[1], encoding="utf-8", newline="\n", line_buffering=_is_terminal(before[1]))
    sys.stderr = _safe(before[2], encoding=getattr(before[2], "encoding", None) or "utf-8",
                       errors="replace", line_buffering=True)  # fmt: skip
    try:
        yield
    finally:
        for stream in (sys.stdout, sys.stderr):
            if isinstance(stream, Stream):
                stream.flush()
        sys.stdin, sys.stdout, sys.stderr = before


def answer_lost() -> bool:
    """Whether stdout could not take what was written to it; True once, for whoever tells it."""
    stream = sys.stdout
    if not isinstance(stream, Stream) or stream.told or stream.trouble is None:
        return False
    stream.told = True
    return True


def why_lost() -> str:
    """What became of stdout, in a word: `closed`, `full`, `reader_gone` or `unusable`."""
    trouble = sys.stdout.trouble if isinstance(sys.stdout, Stream) else None
    return _TROUBLES.get(0 if trouble is None else trouble.errno or 0, "unusable")


def _take_closed_descriptors() -> None:
    """Put the null device where 0, 1 or 2 is closed; children of this process get it too."""
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            with suppress(OSError):
                taken = os.open(os.devnull, os.O_RDWR)
                os.set_inheritable(taken, True)


def _is_terminal(stream: TextIO | None) -> bool:
    return stream is not None and stream.isatty()


def _safe(stream: TextIO | None, **settings: Any) -> TextIO:
    """The stream made safe; one that is no console (a test's, an embedder's) stays as it is."""
    if stream is not None and not isinstance(stream, io.TextIOWrapper):
        return stream
    return Stream(stream, **settings)
