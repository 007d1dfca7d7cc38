"""The seam between durable writes and the operating system.

Rules of this file:
- One method, one system call. No retry, no decision and no cleaning up here; `hibor/durable.py` decides.
- Tests substitute a subclass of `OsFileSystem` that records, fails or kills; so everything `hibor/durable.py`
  does to a disk passes through one of these methods, and `mark` tells the subclass which named step runs.
- There is no rename that could replace a file. The only rename refuses an existing target (faults F74).
"""

from __future__ import annotations

import ctypes
import errno
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Literal, Protocol

Moment = Literal["begin", "end"]

_AT_FDCWD = -100
_RENAME_NOREPLACE = 1
_RENAME_EXCL = 4
_BINARY = getattr(os, "O_BINARY", 0)
_NO_FOLLOW = getattr(os, "O_NOFOLLOW", 0)
_NO_BLOCK = getattr(os, "O_NONBLOCK", 0)

READ_FLAGS = os.O_RDONLY | _BINARY | _NO_FOLLOW | _NO_BLOCK
"""Reading never follows a link and never waits for a FIFO's writer (faults F65)."""
APPEND_FLAGS = os.O_RDWR | os.O_APPEND | _BINARY | _NO_FOLLOW | _NO_BLOCK
CREATE_FLAGS = os.O_WRONLY | os.O_CREAT | os.O_EXCL | _BINARY | _NO_FOLLOW
CHANGE_FLAGS = os.O_RDWR | _BINARY | _NO_FOLLOW | _NO_BLOCK
LOCK_FLAGS = os.O_RDWR | os.O_CREAT | _BINARY | _NO_FOLLOW | _NO_BLOCK
NOTE_FLAGS = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | _BINARY | _NO_FOLLOW


class FileSystem(Protocol):
    """Everything durable writes ask of an operating system. Every method raises `OSError`."""

    def mark(self, step: str, moment: Moment) -> None:
        """Say that a named durable step begins or has ended; nothing on a real disk."""

    def open(self, path: Path, flags: int, mode: int = 0o644) -> int:
        """Open a file, descriptor not inherited by children."""

    def close(self, descriptor: int) -> None:
        """Close a descriptor."""

    def write(self, descriptor: int, data: bytes | memoryview) -> int:
        """Write once; the number of bytes taken may be smaller than asked."""

    def read(self, descriptor: int, size_bytes: int) -> bytes:
        """Read at most `size_bytes` from the current position."""

    def seek(self, descriptor: int, offset_bytes: int) -> None:
        """Set the position for the next read, from the start of the file."""

    def fsync(self, descriptor: int) -> None:
        """Put the file's bytes and size on stable storage."""

    def truncate(self, descriptor: int, size_bytes: int) -> None:
        """Cut the open file to a length."""

    def fstat(self, descriptor: int) -> os.stat_result:
        """Facts of an open file."""

    def lstat(self, path: Path) -> os.stat_result:
        """Facts of a name, links not followed."""

    def link(self, source: Path, target: Path) -> None:
        """Give a file a second name; `FileExistsError` when the name is taken."""

    def rename_no_replace(self, source: Path, target: Path) -> None:
        """Give a file another name; `FileExistsError` when the name is taken; `ENOSYS` where it cannot be
        done.
        """

    def unlink(self, path: Path) -> None:
        """Remove a name."""

    def mkdir(self, path: Path) -> None:
        """Make one folder."""

    def fsync_dir(self, path: Path) -> None:
        """Put a folder's names on stable storage; `ENOTSUP` where the platform has no such thing."""


class OsFileSystem:
    """The real disk."""

    def mark(self, step: str, moment: Moment) -> None:
        """Nothing: a real disk does not care for names of steps."""

    def open(self, path: Path, flags: int, mode: int = 0o644) -> int:
        """`os.open`; Python's descriptors are not inherited by children."""
        return os.open(path, flags, mode)

    def close(self, descriptor: int) -> None:
        """`os.close`."""
        os.close(descriptor)

    def write(self, descriptor: int, data: bytes | memoryview) -> int:
        """`os.write`."""
        return os.write(descriptor, data)

    def read(self, descriptor: int, size_bytes: int) -> bytes:
        """`os.read`."""
        return os.read(descriptor, size_bytes)

    def seek(self, descriptor: int, offset_bytes: int) -> None:
        """`os.lseek` from the start."""
        os.lseek(descriptor, offset_bytes, os.SEEK_SET)

    def fsync(self, descriptor: int) -> None:
        """`os.fsync`; on macOS the drive's own cache is flushed too, which plain fsync there does not do."""
        if sys.platform == "darwin":
            import fcntl

            try:
                fcntl.fcntl(descriptor, fcntl.F_FULLFSYNC)
                return
            except OSError as error:
                if error.errno not in (errno.ENOTSUP, errno.EINVAL, errno.ENOTTY):
                    raise
        os.fsync(descriptor)

    def truncate(self, descriptor: int, size_bytes: int) -> None:
        """`os.ftruncate`."""
        os.ftruncate(descriptor, size_bytes)

    def fstat(self, descriptor: int) -> os.stat_result:
        """`os.fstat`."""
        return os.fstat(descriptor)

    def lstat(self, path: Path) -> os.stat_result:
        """`os.lstat`."""
        return os.lstat(path)

    def link(self, source: Path, target: Path) -> None:
        """`os.link`."""
        os.link(source, target)

    def rename_no_replace(self, source: Path, target: Path) -> None:
        """`renameat2(RENAME_NOREPLACE)`, `renamex_np(RENAME_EXCL)`, or Windows' own rename, which never
        replaces.
        """
        if sys.platform == "win32":
            os.rename(source, target)
            return
        call = _exclusive_rename()
        if call is None:
            raise OSError(errno.ENOSYS, os.strerror(errno.ENOSYS), str(target))
        ctypes.set_errno(0)
        if call(os.fsencode(source), os.fsencode(target)) != 0:
            number = ctypes.get_errno() or errno.EIO
            raise OSError(number, os.strerror(number), str(source), None, str(target))

    def unlink(self, path: Path) -> None:
        """`os.unlink`."""
        os.unlink(path)

    def mkdir(self, path: Path) -> None:
        """`os.mkdir`."""
        os.mkdir(path)

    def fsync_dir(self, path: Path) -> None:
        """Open the folder and fsync it."""
        if sys.platform == "win32":
            raise OSError(errno.ENOTSUP, "this platform cannot fsync a folder", str(path))
        descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_DIRECTORY", 0))
        try:
            self.fsync(descriptor)
        finally:
            os.close(descriptor)


def _exclusive_rename() -> Callable[[bytes, bytes], int] | None:
    """The C library's rename that refuses an existing target, or None where it has none."""
    try:
        library = ctypes.CDLL(None, use_errno=True)
    except OSError:
        return None
    if hasattr(library, "renameat2"):
        return lambda source, target: int(
            library.renameat2(_AT_FDCWD, source, _AT_FDCWD, target, _RENAME_NOREPLACE)
        )
    if hasattr(library, "renamex_np"):
        return lambda source, target: int(library.renamex_np(source, target, _RENAME_EXCL))
    return None
