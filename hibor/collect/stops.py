"""How a run stops before, or beside, its items."""

from __future__ import annotations

import errno
import os
import shutil
import sqlite3
from pathlib import Path
from typing import Final

from fsm import failure_code

_FULL: Final = (errno.ENOSPC, errno.EDQUOT)


class RunStop(Exception):
    """The run cannot go on as a whole.

    `failure` is a failure word and gives the code (`spec/failures.yaml`, stage `run`), or a stop word of the
    contract, which is its own code; `detail` is redacted. `writes` is False when nothing may be written any
    more,
    not even the run's own files (ruling R28; a busy library).
    """

    def __init__(self, failure: str, detail: str) -> None:
        self.code = failure if failure.isupper() else failure_code(failure, "run")
        super().__init__(f"{self.code}: {detail}")
        self.failure = failure
        self.detail = detail

    @property
    def task_invalid(self) -> bool:
        """Task, options or library unusable."""
        return self.failure == "task_invalid"

    @property
    def busy(self) -> bool:
        """Another run holds the library."""
        return self.failure == "BUSY"

    @property
    def interrupted(self) -> bool:
        """A signal ended the run (ruling R26)."""
        return self.failure == "INTERRUPTED"

    @property
    def uncertain(self) -> bool:
        """The ledger is in doubt."""
        return self.failure == "ledger_invalid"

    @property
    def writes(self) -> bool:
        """Whether the run's own files may still be written."""
        return not (self.busy or self.uncertain)


def unusable(what: str, path: Path, error: Exception, *, now: str = "") -> RunStop:
    """How a run stops over a file or folder of its library: which one, and why; of a full disk how much is
    left.

    `now` says what to do of anything but a full disk. `error` is an OSError or SQLite's, or an error of ours
    with one of them among its causes.
    """
    if _is_full(error):
        room = f"{_free_bytes(path) / 1e6:.1f} MB are free for {path}; make room there"
        return RunStop("task_invalid", f"the disk is full: {room} ({os.strerror(errno.ENOSPC)})")
    where = getattr(error, "path", None) or path
    why = error.strerror if isinstance(error, OSError) and error.strerror else getattr(error, "detail", error)
    if isinstance(error, FileExistsError):
        why = "something that is no folder lies there"
    advice = f"; {now}" if now else ""
    return RunStop("task_invalid", f"{what} cannot be used: {where} ({why}){advice}")


def _is_full(error: BaseException | None) -> bool:
    """Whether an error came of a disk without room."""
    while error is not None:
        if isinstance(error, OSError) and error.errno in _FULL:
            return True
        if isinstance(error, sqlite3.Error) and getattr(error, "sqlite_errorcode", 0) == sqlite3.SQLITE_FULL:
            return True
        error = error.__cause__
    return False


def _free_bytes(path: Path) -> int:
    """Room on the disk of the nearest folder that exists."""
    there = next(one for one in (path.absolute(), *path.absolute().parents) if one.exists())
    return shutil.disk_usage(there).free
