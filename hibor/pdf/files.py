"""Opening a file that may be hostile, without the PDF library.

Rules of this file:

* Only a regular file is opened, judged by `lstat` before and `fstat` after the open. A link, FIFO, socket,
  device or folder is never read: opening a FIFO waits for a writer, reading `/dev/zero` never ends
  (faults F65).
* POSIX flags: `O_NOFOLLOW` so that a link swapped in between is refused, `O_NONBLOCK` so that a FIFO
  swapped in does not hang the open. Windows has neither; there `lstat` decides and reparse points count as
  links.
* One pass: size, sha256, first and last bytes come from the same read, so they speak for the same bytes.
* Nothing is written here.
"""

from __future__ import annotations

import hashlib
import os
import stat
import time
from collections.abc import Callable
from typing import Final

import attrs

MAGIC: Final = b"%PDF-"
TAIL_BYTES: Final = 2048
_CHUNK_BYTES: Final = 1 << 20
_OPEN_FLAGS: Final = (
    os.O_RDONLY
    | getattr(os, "O_NOFOLLOW", 0)
    | getattr(os, "O_NONBLOCK", 0)
    | getattr(os, "O_CLOEXEC", 0)
    | getattr(os, "O_BINARY", 0)
    | getattr(os, "O_NOINHERIT", 0)
)
_REPARSE_POINT: Final = 0x400


class FileRefused(Exception):
    """The file is not opened; `finding` is the word of `hibor.pdf.report` that says why."""

    def __init__(self, finding: str) -> None:
        super().__init__(finding)
        self.finding = finding


@attrs.frozen
class Identity:
    """What makes two looks at a path looks at the same bytes: device, inode, length (bytes), mtime (ns)."""

    device: int
    inode: int
    size_bytes: int
    mtime_ns: int

    @classmethod
    def of(cls, status: os.stat_result) -> Identity:
        """The identity an `os.stat_result` shows."""
        return cls(status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns)


@attrs.frozen
class Digest:
    """One pass over a file: size, sha256 (hex), last bytes, and whether it was read to its end."""

    size_bytes: int
    sha256: str
    tail: bytes
    finished: bool


def open_regular(path: str) -> tuple[int, Identity]:
    """Open a regular file for reading; return its descriptor and identity.

    Raises `FileRefused` with `not_regular`, `missing` or `unreadable`. The caller closes the descriptor.
    """
    try:
        _refuse_irregular(os.lstat(path))
        descriptor = os.open(path, _OPEN_FLAGS)
    except FileNotFoundError as error:
        raise FileRefused("missing") from error
    except (OSError, ValueError) as error:  # ValueError: a NUL in the path
        raise FileRefused(_finding_of_failed_open(path)) from error
    try:
        status = os.fstat(descriptor)
        _refuse_irregular(status)
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor, Identity.of(status)


def _refuse_irregular(status: os.stat_result) -> None:
    reparse = getattr(status, "st_file_attributes", 0) & _REPARSE_POINT
    if not stat.S_ISREG(status.st_mode) or reparse:
        raise FileRefused("not_regular")


def _finding_of_failed_open(path: str) -> str:
    """Tell a link that appeared after `lstat` (ELOOP, EMLINK, ENXIO by platform) from a refusal to read."""
    try:
        return "unreadable" if stat.S_ISREG(os.lstat(path).st_mode) else "not_regular"
    except (OSError, ValueError):
        return "unreadable"


def read_head(descriptor: int, length: int = len(MAGIC)) -> bytes:
    """The first `length` bytes; shorter at the end of the file. Leaves the position behind them."""
    head = b""
    while len(head) < length:
        chunk = os.read(descriptor, length - len(head))
        if not chunk:
            break
        head += chunk
    return head


def digest(
    descriptor: int, *, deadline_s: float, head: bytes = b"", clock_s: Callable[[], float] = time.monotonic
) -> Digest:
    """Read on to the end, counting and hashing; `head` is what was already taken from the start.

    Stops unfinished when `clock_s()` passes `deadline_s`: a file that grows without end, or an endless sparse
    one, must not hold the run. Raises `OSError` when the system cannot read on.
    """
    hasher, size_bytes, tail = hashlib.sha256(head), len(head), head
    while True:
        chunk = os.read(descriptor, _CHUNK_BYTES)
        if not chunk:
            return Digest(size_bytes, hasher.hexdigest(), tail, finished=True)
        hasher.update(chunk)
        size_bytes += len(chunk)
        tail = (tail + chunk)[-TAIL_BYTES:] if len(chunk) < TAIL_BYTES else chunk[-TAIL_BYTES:]
        if clock_s() > deadline_s:
            return Digest(size_bytes, hasher.hexdigest(), tail, finished=False)


def has_trailer(tail: bytes) -> bool:
    """Whether the end of the file carries `startxref` and, behind it, `%%EOF` (F54, F56: a cut-off file)."""
    start = tail.rfind(b"startxref")
    return start >= 0 and tail.find(b"%%EOF", start) >= 0
