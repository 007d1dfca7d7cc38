"""The SQLite file of the local host: tables, connections, and the bounded wait for its lock.

Rules of this file (design 6 'Hosts', fault F106):

* One file in WAL mode holds everything, so one transaction can make a job's result, its children, its marks,
  its catalogue rows and its cleared debt visible together.
* Writers take the lock at once (`BEGIN IMMEDIATE`), commit with `synchronous=FULL`, and never keep a
  transaction open while a handler runs.
* A lock that is not free within `lock_wait_s` raises `HostLockedError` with the reason; nothing goes on
  without the file. A file system without working WAL (some network shares) is refused when the file is
  opened.
* The page cache is small and fixed, so memory does not grow with the number of ids. A finished job's row is
  kept short (its time is a number), because the wall is read at random places all the time.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

SCHEMA_VERSION = 1
CACHE_SIZE_KIB = 8192

_SCHEMA = """
CREATE TABLE IF NOT EXISTS wall (uid TEXT PRIMARY KEY, at_ms INTEGER, input_hash TEXT) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS failed (
    uid TEXT PRIMARY KEY, reason TEXT NOT NULL, attempts INTEGER NOT NULL, at TEXT NOT NULL,
    payload TEXT NOT NULL, input_hash TEXT
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS queue (
    seq INTEGER PRIMARY KEY AUTOINCREMENT, uid TEXT NOT NULL UNIQUE, task_type TEXT NOT NULL,
    payload TEXT NOT NULL, rerun TEXT NOT NULL, attempts INTEGER NOT NULL DEFAULT 0,
    not_before_s REAL NOT NULL DEFAULT 0, claimed_by TEXT, last_error TEXT
);
CREATE INDEX IF NOT EXISTS queue_by_type ON queue (task_type, seq);
CREATE TABLE IF NOT EXISTS spool (
    seq INTEGER PRIMARY KEY AUTOINCREMENT, job_uid TEXT NOT NULL, kind TEXT NOT NULL, body TEXT NOT NULL
);
CREATE INDEX IF NOT EXISTS spool_by_job ON spool (job_uid, seq);
CREATE TABLE IF NOT EXISTS marks (
    uid TEXT PRIMARY KEY, reason TEXT NOT NULL, rule_version TEXT NOT NULL, at TEXT NOT NULL
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS debts (key TEXT PRIMARY KEY, since TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS memory (key TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS reports (
    seq INTEGER PRIMARY KEY AUTOINCREMENT, key TEXT NOT NULL, at TEXT NOT NULL, report TEXT NOT NULL
);
CREATE TABLE IF NOT EXISTS catalogue (
    uid TEXT PRIMARY KEY, task_type TEXT NOT NULL, content_id TEXT NOT NULL, sort_key TEXT NOT NULL,
    entry TEXT NOT NULL, first_seen_at TEXT NOT NULL, last_seen_at TEXT NOT NULL, vanished_at TEXT
) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS catalogue_by_sort ON catalogue (task_type, sort_key);
"""


class HostError(Exception):
    """The local host cannot do what was asked; the text says what happened and what to do."""


class HostLockedError(HostError):
    """Another process kept the file locked for longer than the wait that was allowed (fault F106)."""

    def __init__(self, path: Path, wait_s: float, cause: sqlite3.OperationalError) -> None:
        super().__init__(
            f"{path.name} stayed locked by another process for {wait_s:g} s ({cause}); "
            "close the other program, or wait until its run has ended, and try again"
        )
        self.path = path
        self.wait_s = wait_s


class Store:
    """One process's way to the file: a connection for writing, and snapshots for reading."""

    def __init__(self, path: Path, lock_wait_s: float) -> None:
        self.path = path
        self.lock_wait_s = lock_wait_s
        with self.translated():
            self._write = self._connect()
            mode = str(self._write.execute("PRAGMA journal_mode=WAL").fetchone()[0])
        if mode.lower() != "wal":
            self._write.close()
            raise HostError(
                f"{path.name} cannot use write-ahead logging here (SQLite chose {mode!r}); "
                "the folder is probably a network share: put it on a local disk"
            )
        with self.transaction() as connection:
            version = int(connection.execute("PRAGMA user_version").fetchone()[0])
            if version not in (0, SCHEMA_VERSION):
                raise HostError(f"{path.name} has format {version}, this program reads {SCHEMA_VERSION}")
            for statement in _SCHEMA.split(";"):
                connection.execute(statement)
            connection.execute(f"PRAGMA user_version={SCHEMA_VERSION}")

    def _connect(self) -> sqlite3.Connection:
        connection = sqlite3.connect(self.path, timeout=self.lock_wait_s, isolation_level=None)
        connection.execute("PRAGMA synchronous=FULL")
        connection.execute(f"PRAGMA cache_size=-{CACHE_SIZE_KIB}")
        return connection

    @contextmanager
    def translated(self) -> Iterator[None]:
        """Turns SQLite's 'locked' into `HostLockedError`, and a damaged file into `HostError`."""
        try:
            yield
        except sqlite3.OperationalError as error:
            if _is_lock(error):
                raise HostLockedError(self.path, self.lock_wait_s, error) from error
            raise HostError(f"{self.path.name} cannot be used: {error}") from error
        except sqlite3.DatabaseError as error:
            if type(error) is sqlite3.DatabaseError:
                raise HostError(f"{self.path.name} is not a usable database: {error}") from error
            raise

    @contextmanager
    def transaction(self) -> Iterator[sqlite3.Connection]:
        """One write transaction: all of it or nothing; durable when the block is left."""
        with self.translated():
            self._write.execute("BEGIN IMMEDIATE")
            try:
                yield self._write
                self._write.execute("COMMIT")
            except BaseException:
                if self._write.in_transaction:
                    self._write.execute("ROLLBACK")
                raise

    def rows(self, sql: str, parameters: tuple[object, ...] = ()) -> list[tuple[Any, ...]]:
        """The rows of one small query against the current state."""
        with self.translated():
            return list(self._write.execute(sql, parameters))

    def snapshot(self) -> sqlite3.Connection:
        """A new connection with an open read transaction: it sees this moment until it is closed."""
        with self.translated():
            connection = self._connect()
            connection.execute("BEGIN")
            # WAL fixes the snapshot at the first read, not at BEGIN.
            connection.execute("SELECT 1 FROM wall LIMIT 1").fetchone()
            return connection

    def close(self) -> None:
        """Closes the writing connection; snapshots are closed by their owners."""
        self._write.close()


def _is_lock(error: sqlite3.OperationalError) -> bool:
    """SQLITE_BUSY and SQLITE_LOCKED with their extended codes (the low byte is the primary code)."""
    return (error.sqlite_errorcode & 0xFF) in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)
