"""Reading what was written: regular files only, hashed once for each state of the file."""

from __future__ import annotations

import errno
import hashlib
import os
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any

from hibor.durable import FileFacts
from hibor.reading import open_kept, read_kept

_BLOCK_BYTES = 1 << 20


class FileReader:
    """Facts about files on disk. A hash is kept while size, mtime, ctime and inode stay what they were."""

    def __init__(self) -> None:
        self._known: dict[str, tuple[tuple[int, ...], FileFacts]] = {}

    def facts(self, path: Path) -> FileFacts | None:
        """Size and sha256 of a regular file; None when nothing, or something else, has the name."""
        try:
            found = os.lstat(path)
        except (FileNotFoundError, NotADirectoryError):
            return None
        if not stat.S_ISREG(found.st_mode):
            return None
        key = (found.st_size, found.st_mtime_ns, found.st_ctime_ns, found.st_ino)
        known = self._known.get(str(path))
        if known is not None and known[0] == key:
            return known[1]
        digest, size = hashlib.sha256(), 0
        with open_kept(path) as file:
            while block := file.read(_BLOCK_BYTES):
                digest.update(block)
                size += len(block)
        facts = FileFacts(size, digest.hexdigest())
        self._known[str(path)] = (key, facts)
        return facts

    @staticmethod
    def occupied(path: Path) -> bool:
        """True when anything at all has the name, a broken link included."""
        return os.path.lexists(path)

    @staticmethod
    def refused_name(path: Path) -> str | None:
        """Why the file system can never give a file this name, None where nothing speaks against it."""
        try:
            os.lstat(path)
        except OSError as error:
            if error.errno in (errno.ENAMETOOLONG, errno.EILSEQ):
                return error.strerror
        return None

    def checked(self, path: Path, valid: Callable[[bytes, Any], bool], about: Any) -> str:
        """N when absent, V when `valid` accepts the bytes, I otherwise."""
        if self.facts(path) is None:
            return "N"
        return "V" if valid(read_kept(path), about) else "I"
