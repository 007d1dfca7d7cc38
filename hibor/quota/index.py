"""The ledger's index: its fold in an SQLite file beside it, so that a million events open at once (design 4).

Rules of this file:
- The index is a saving of time, never a source of truth. It is used only when size, mtime, inode and last
  line of the ledger are exactly those it was made from, and at most a day ago; else everything is verified
  anew.
- Losing it, or failing to write it, costs one full verification and nothing else.
- A reader that finds the index at another event than the one it opened raises `BaseMoved`: another process
  has saved a newer one, and mixing two ages would be wrong.
"""

from __future__ import annotations

import json
import os
import sqlite3
from array import array
from collections.abc import Iterable
from contextlib import closing
from pathlib import Path
from typing import Any

import attrs

from hibor.quota.events import RESERVED, Head
from hibor.quota.fold import Family, Fold
from hibor.quota.scan import Marks, Place
from hibor.reading import is_kept

VERSION = 1
FULL_VERIFY_EVERY_S = 86400.0
"""Age in seconds after which the whole ledger is read again whatever the index says (design 4)."""
_BUSY_S = 2.0
_COLUMNS = (
    "family, report_id, day, ordinal, item_id, state, quota_state, reserved_at, reserved_size, "
    "quota_at, quota_size, artifact_at, artifact_size, artifact_type"
)
_SCHEMA = f"""
create table if not exists meta (id integer primary key check (id = 1), count integer not null, value text
not null); create table if not exists marks (id integer primary key check (id = 1), offsets blob not null);
create table if not exists families (
  family text primary key, report_id text not null, day text not null, ordinal integer not null,
  item_id text not null, state text not null, quota_state text not null,
  reserved_at integer not null, reserved_size integer not null, quota_at integer, quota_size integer,
  artifact_at integer, artifact_size integer, artifact_type text
) without rowid;
create index if not exists families_report on families (report_id);
create index if not exists families_open on families (quota_state) where quota_state = '{RESERVED}';
create table if not exists days (day text primary key, counts text not null) without rowid;
"""


class BaseMoved(Exception):
    """The index is no longer at the event this reader opened it at."""


@attrs.frozen
class FileMark:
    """What identifies the state of a file without reading it."""

    size_bytes: int
    mtime_ns: int
    inode: int

    @classmethod
    def of(cls, facts: os.stat_result) -> FileMark:
        """The mark of a stat result."""
        return cls(facts.st_size, facts.st_mtime_ns, facts.st_ino)


@attrs.frozen
class IndexState:
    """What an index was made from: file mark, place, account, and when everything was last verified (epoch
    s).
    """

    account: str
    file: FileMark
    place: Place
    verified_s: float


def index_path(ledger: Path) -> Path:
    """Where a ledger's index lies."""
    return ledger.with_name(ledger.name + ".index.sqlite3")


class Index:
    """An opened index at one event; a `FoldBase` for the fold. Raises `sqlite3.Error`, `BaseMoved`."""

    def __init__(self, connection: sqlite3.Connection, state: IndexState) -> None:
        self._connection = connection
        self.state = state

    @classmethod
    def open(cls, path: Path) -> Index | None:
        """Open an existing index; None when there is none that can be used."""
        if not is_kept(path):
            return None
        connection: sqlite3.Connection | None = None
        try:
            connection = _connect(path)
            row = connection.execute("select value from meta where id = 1").fetchone()
            value = json.loads(row[0])
            if value["version"] != VERSION:
                raise ValueError("another version")
            state = IndexState(
                value["account"],
                FileMark(**value["file"]),
                Place(**value["place"]),
                float(value["verified_s"]),
            )
        except (sqlite3.Error, ValueError, TypeError, KeyError):
            if connection is not None:
                connection.close()
            return None
        return cls(connection, state)

    def close(self) -> None:
        """Close the file."""
        self._connection.close()

    def marks(self) -> Marks:
        """The remembered line offsets."""
        rows = self._rows("select offsets from marks where id = 1")
        offsets = array("Q")
        offsets.frombytes(rows[0][0])
        return Marks(offsets)

    def family(self, family: str) -> Family | None:
        """A family by id."""
        rows = self._families("family = ?", family)
        return rows[0] if rows else None

    def families_of(self, report_id: str) -> list[Family]:
        """All families of a report."""
        return self._families("report_id = ?", report_id)

    def open_families(self) -> list[Family]:
        """All families whose reservation is not settled."""
        # The state is spelled out, not bound: SQLite uses a partial index only for a literal it can compare.
        return self._families(f"quota_state = '{RESERVED}'")

    def day_counts(self, day: str) -> dict[str, int]:
        """Number of the day's families by quota state."""
        rows = self._rows("select counts from days where day = ?", day)
        return dict(json.loads(rows[0][0])) if rows else {}

    def _families(self, condition: str, *values: str) -> list[Family]:
        return [
            _family(row) for row in self._rows(f"select {_COLUMNS} from families where {condition}", *values)
        ]

    def _rows(self, query: str, *values: str) -> list[tuple[Any, ...]]:
        """Rows of one query together with the event the index stands at, read in one statement."""
        joined = f"select meta.count, found.* from meta left join ({query}) as found on 1 where meta.id = 1"
        rows = self._connection.execute(joined, values).fetchall()
        if not rows or rows[0][0] != self.state.place.count:
            raise BaseMoved
        return [row[1:] for row in rows if row[1] is not None]


def noted_by_index(path: Path, account: str) -> list[Head]:
    """The head that a ledger's index stands at: noted once, so the ledger has to contain it."""
    index = Index.open(index_path(path))
    if index is None:
        return []
    state = index.state
    index.close()
    return [state.place.head] if state.account == account else []


def save_index(path: Path, state: IndexState, fold: Fold, marks: Marks, *, whole: bool) -> Index:
    """Write what changed (`whole`: everything) in one transaction and open the result. Raises
    `sqlite3.Error`.

    The caller holds the ledger's lock.
    """
    _save(path, state, fold, marks, whole=whole)
    opened = Index.open(path)
    if opened is None:
        raise sqlite3.OperationalError("the index cannot be opened after it was written")
    return opened


def _save(path: Path, state: IndexState, fold: Fold, marks: Marks, *, whole: bool) -> None:
    value = {"version": VERSION, **attrs.asdict(state)}
    with closing(_connect(path)) as connection:
        connection.executescript(_SCHEMA)
        connection.execute("begin immediate")
        try:
            if whole:
                connection.execute("delete from families")
                connection.execute("delete from days")
            connection.executemany(
                f"insert or replace into families values ({', '.join('?' * 14)})", _rows_of(fold)
            )
            connection.executemany(
                "insert or replace into days values (?, ?)",
                [(day, json.dumps(counts)) for day, counts in fold.touched_days().items()],
            )
            connection.execute("insert or replace into marks values (1, ?)", (marks.offsets.tobytes(),))
            connection.execute(
                "insert or replace into meta values (1, ?, ?)", (state.place.count, json.dumps(value))
            )
            connection.execute("commit")
        except BaseException:
            connection.execute("rollback")
            raise


def _connect(path: Path) -> sqlite3.Connection:
    connection = sqlite3.connect(path, timeout=_BUSY_S, isolation_level=None, check_same_thread=False)
    connection.execute("pragma synchronous = full")
    return connection


def _rows_of(fold: Fold) -> Iterable[tuple[Any, ...]]:
    for family in fold.touched():
        yield (
            family.family,
            family.report_id,
            family.day,
            family.ordinal,
            family.item_id,
            family.state,
            family.quota_state,
            *family.reserved,
            *(family.quota or (None, None)),
            *(family.artifact or (None, None)),
            family.artifact_type,
        )


def _family(row: tuple[Any, ...]) -> Family:
    (
        name,
        report,
        day,
        ordinal,
        item,
        state,
        quota_state,
        at,
        size,
        quota_at,
        quota_size,
        art_at,
        art_size,
        kind,
    ) = row
    return Family(
        name,
        report,
        day,
        ordinal,
        item,
        state,
        quota_state,
        (at, size),
        None if quota_at is None else (quota_at, quota_size),
        None if art_at is None else (art_at, art_size),
        kind,
    )
