"""The manifest: one row a delivered report, of every run (design 9).

Format: JSON lines, keys in the order of `ManifestRow`; `line_sha256` is the sha256 of the line without that
key. Recovery rule: an unfinished last line was never acknowledged and is moved aside; any other fault is
`ManifestInvalid` and names its line.

Rules of this file:
- Appending happens under the manifest lock, after the rows of other processes were read.
- The same row again returns the first one; only `at` may differ, because a replay happens later.
"""

from __future__ import annotations

import hashlib
import json
import stat
import threading
from pathlib import Path
from typing import Any

import attrs

from hibor.durable import Durable, DurableError, MovedTail
from hibor.locks import Locks
from hibor.package.journal import split_lines

SCHEMA_VERSION = 1
Line = bytes
"""A line of the file; the row's own key `bytes` hides the type's name inside the class."""
STEPS = frozenset({"manifest.append", "tail.move"})
"""Names of the manifest's durable steps (spec/steps.yaml)."""


class ManifestInvalid(Exception):
    """A row that is not valid, or a second, different row of one item. `line` counts from 1, 0 for no
    line.
    """

    failure = "manifest_invalid"

    def __init__(self, path: Path, line: int, what: str) -> None:
        super().__init__(f"{path.name} line {line}: {what}" if line else f"{path.name}: {what}")
        self.path = path
        self.line = line
        self.what = what


def row_id(run_id: str, item_id: str) -> str:
    """`m-` and the first 16 hex digits of sha256(run_id, item_id joined by a newline)."""
    return "m-" + hashlib.sha256(f"{run_id}\n{item_id}".encode()).hexdigest()[:16]


@attrs.frozen(kw_only=True)
class ManifestRow:
    """One delivered report. Times ISO 8601, `final_path` relative to the library with `/`, `bytes` a size.

    `line_sha256` is filled when the row is written or read.
    """

    schema_version: int = SCHEMA_VERSION
    manifest_row_id: str
    run_id: str
    item_id: str
    report_id: str
    source: str
    title: str | None
    institution: str | None
    date: str | None
    analysts: tuple[str, ...] | None
    stock_code: str | None
    stock_name: str | None
    industry: str | None
    report_type: str | None
    rating: str | None
    final_path: str | None
    bytes: int | None
    sha256: str | None
    page_count: int | None
    restricted: bool | None
    match_basis: str | None
    quota_state: str
    reservation_event_id: str | None
    quota_terminal_event_id: str | None
    artifact_event_id: str | None
    at: str
    line_sha256: str | None = None

    def to_line(self) -> Line:
        """The row's line without newline."""
        value = attrs.asdict(self)
        value.pop("line_sha256")
        digest = hashlib.sha256(_spell(value)).hexdigest()
        return _spell({**value, "line_sha256": digest})

    def same_but_time(self, other: ManifestRow) -> bool:
        """Whether two rows say the same, whenever they were written."""
        return attrs.evolve(self, at="", line_sha256=None) == attrs.evolve(other, at="", line_sha256=None)


_KEYS = tuple(field.name for field in attrs.fields(ManifestRow))
_NUMBER_KEYS = frozenset({"schema_version", "bytes", "page_count"})
_REQUIRED_KEYS = frozenset(
    {"schema_version", "manifest_row_id", "run_id", "item_id", "report_id", "source", "quota_state", "at"}
)


class Manifest:
    """The manifest of a library. Safe for several threads and processes."""

    def __init__(self, path: Path, durable: Durable, locks: Locks) -> None:
        self.path = path
        self._durable = durable
        self._lock = locks.manifest(path)
        self._guard = threading.RLock()
        self._rows: list[ManifestRow] = []
        self._by_id: dict[str, ManifestRow] = {}
        self._size_bytes = 0
        self._inode = 0
        self._doubt: ManifestInvalid | None = None

    def rows(self) -> tuple[ManifestRow, ...]:
        """All whole rows, oldest first; a line being written right now is left out. Raises
        `ManifestInvalid`.
        """
        with self._guard:
            self._read_on()
            return tuple(self._rows)

    def find(self, run_id: str, item_id: str) -> ManifestRow | None:
        """The row of an item."""
        with self._guard:
            self._read_on()
            return self._by_id.get(row_id(run_id, item_id))

    def by_report(self, report_id: str) -> tuple[ManifestRow, ...]:
        """All rows of a report, oldest first."""
        return tuple(row for row in self.rows() if row.report_id == report_id)

    def by_path(self, final_path: str) -> tuple[ManifestRow, ...]:
        """All rows of a final file, oldest first."""
        return tuple(row for row in self.rows() if row.final_path == final_path)

    def append(self, row: ManifestRow, *, step: str = "manifest.append") -> ManifestRow:
        """Add a row, or return the same row if it is there. The returned row has its `line_sha256`.

        Raises `ManifestInvalid`, `LockTimeout`, `DurableError`; a `DurableError` U leaves this object in
        doubt.
        """
        if row.manifest_row_id != row_id(row.run_id, row.item_id):
            raise ManifestInvalid(self.path, 0, "the row's id does not fit its run and item")
        with self._guard:
            if self._doubt is not None:
                raise self._doubt
            with self._lock:
                return self._append(row, step)

    def move_unfinished(self, *, step: str = "tail.move") -> MovedTail | None:
        """Move an unfinished last line into a side file, for recovery. Raises `DurableError`,
        `LockTimeout`.
        """
        with self._guard, self._lock:
            return self._durable.move_unfinished_tail(self.path, step=step)

    def _append(self, row: ManifestRow, step: str) -> ManifestRow:
        if self._read_on():
            raise ManifestInvalid(
                self.path, len(self._rows) + 1, "the last line is unfinished; run recovery first"
            )
        first = self._by_id.get(row.manifest_row_id)
        if first is not None:
            if first.same_but_time(row):
                return first
            raise ManifestInvalid(self.path, self._rows.index(first) + 1, "the item has another row already")
        line = row.to_line()
        written = parse_row(self.path, len(self._rows) + 1, line)
        try:
            added = self._durable.append_line(self.path, line, step=step)
        except DurableError as error:
            if error.known == "U":
                self._doubt = ManifestInvalid(self.path, len(self._rows) + 1, "the last append is in doubt")
            raise
        self._keep(written)
        self._size_bytes = added.offset_bytes + added.size_bytes
        self._inode = added.file.st_ino
        return written

    def _read_on(self) -> bool:
        """Take in what was appended since; True when an unfinished line follows."""
        facts = self._durable.stat(self.path)
        size_bytes, inode = (0, 0) if facts is None else (facts.st_size, facts.st_ino)
        if size_bytes < self._size_bytes or (self._size_bytes and inode != self._inode):
            self._rows, self._by_id, self._size_bytes = [], {}, 0
        self._inode = inode
        if size_bytes == self._size_bytes and (facts is None or stat.S_ISREG(facts.st_mode)):
            return False  # of anything but a file the reading says what it is
        data = self._durable.read_bytes(self.path, offset_bytes=self._size_bytes)
        whole, lines = split_lines(data)
        for line in lines:
            self._keep(parse_row(self.path, len(self._rows) + 1, line))
            self._size_bytes += len(line) + 1
        return not whole

    def _keep(self, row: ManifestRow) -> None:
        if row.manifest_row_id in self._by_id:
            raise ManifestInvalid(self.path, len(self._rows) + 1, "a second row of one item")
        self._rows.append(row)
        self._by_id[row.manifest_row_id] = row


def _spell(value: dict[str, Any]) -> bytes:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False).encode()


def parse_row(path: Path, number: int, line: bytes) -> ManifestRow:
    """The row of a line, which is line `number` of `path`. Raises `ManifestInvalid`."""
    try:
        value = json.loads(line.decode())
    except ValueError as error:
        raise ManifestInvalid(path, number, "not a JSON line") from error
    if not isinstance(value, dict) or tuple(value) != _KEYS:
        odd = sorted(value.keys() ^ set(_KEYS)) if isinstance(value, dict) else []
        raise ManifestInvalid(
            path, number, f"unknown, missing or misplaced keys {', '.join(odd)[:120]}".rstrip()
        )
    for key, content in value.items():
        if not _fits(key, content):
            raise ManifestInvalid(path, number, f"{key} has the wrong type")
    analysts = value["analysts"]
    row = ManifestRow(**{**value, "analysts": None if analysts is None else tuple(analysts)})
    if row.schema_version != SCHEMA_VERSION:
        raise ManifestInvalid(path, number, "unknown schema_version")
    if row.to_line() != line:
        raise ManifestInvalid(path, number, "line_sha256 does not fit the line, or its spelling is odd")
    if row.manifest_row_id != row_id(row.run_id, row.item_id):
        raise ManifestInvalid(path, number, "the row's id does not fit its run and item")
    return row


def _fits(key: str, content: object) -> bool:
    if content is None:
        return key not in _REQUIRED_KEYS and key != "line_sha256"
    if key in _NUMBER_KEYS:
        return isinstance(content, int) and not isinstance(content, bool) and content >= 0
    if key == "restricted":
        return isinstance(content, bool)
    if key == "analysts":
        return isinstance(content, list) and all(isinstance(name, str) for name in content)
    return isinstance(content, str)
