"""Reading: the one place that opens a file to read it outside durable writes.

Rules of this file:
- What the library keeps is a regular file. A link, a folder, a FIFO or a device in its place is an `OSError`
  at once: never followed, never waited for (faults F65).
- What a person names may be a link or a pipe; it is read to its end, but not beyond a limit.
"""

from __future__ import annotations

import errno
import json
import os
import stat
from pathlib import Path
from typing import Any, BinaryIO, Final

from hibor.durable_fs import READ_FLAGS

MOST_NAMED_BYTES: Final = 16 << 20
"""Largest file a person may name as a task, a plan, a list or a profile."""


def open_kept(path: Path) -> BinaryIO:
    """Open one of the library's own files. Raises `OSError`; `FileNotFoundError` only where nothing has the
    name.
    """
    try:
        descriptor = os.open(path, READ_FLAGS)
    except OSError as error:
        if os.path.islink(path):
            raise _refused(path, errno.ELOOP, "a link lies in its place") from error
        raise
    try:
        mode = os.fstat(descriptor).st_mode
        if stat.S_ISDIR(mode):
            raise _refused(path, errno.EISDIR, "a folder lies in its place")
        if not stat.S_ISREG(mode):
            raise _refused(path, errno.EINVAL, "something that is no file lies in its place")
        return os.fdopen(descriptor, "rb")
    except BaseException:
        os.close(descriptor)
        raise


def read_kept(path: Path) -> bytes:
    """All bytes of one of the library's own files. Raises as `open_kept`."""
    with open_kept(path) as stream:
        return stream.read()


def read_object(path: Path) -> dict[str, Any]:
    """One of the library's JSON objects; empty where the file is missing, cannot be read or holds none."""
    try:
        value = json.loads(read_kept(path))
    except (OSError, ValueError):
        return {}
    return value if isinstance(value, dict) else {}


def first_line(path: Path) -> bytes:
    """The first line of one of the library's own files, with its newline. Raises as `open_kept`."""
    with open_kept(path) as stream:
        return stream.readline()


def is_kept(path: Path) -> bool:
    """Whether a regular file has the name; for SQLite, which would follow a link or wait for a FIFO."""
    try:
        return stat.S_ISREG(os.lstat(path).st_mode)
    except (OSError, ValueError):
        return False


def read_named(path: Path, most_bytes: int = MOST_NAMED_BYTES) -> bytes:
    """All bytes of a file that a person named. Raises `OSError`, `EFBIG` where it is longer than allowed."""
    with open(path, "rb") as stream:
        data = stream.read(most_bytes + 1)
    if len(data) > most_bytes:
        raise _refused(path, errno.EFBIG, f"longer than {most_bytes >> 20} MiB")
    return data


def _refused(path: Path, number: int, what: str) -> OSError:
    return OSError(number, what, os.fspath(path))
