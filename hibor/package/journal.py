"""An item's journal: what it is about to do and what it did, one JSON line each (design 9).

Format: `schema_version, seq, at, event, data`, in this order, `seq` from 1 without gaps.
Recovery rule: an unfinished last line was never acknowledged, so nothing was done on its strength; recovery
moves it to a side file. Any other fault is `JournalInvalid`, and nobody guesses what the item did.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, tzinfo
from pathlib import Path
from typing import Any

import attrs

from hibor.clock import Clock
from hibor.durable import Durable, DurableError, MovedTail

SCHEMA_VERSION = 1
EVENTS = frozenset(
    {
        "ITEM_OPENED",
        "TRIGGER_INTENT",
        "STATE",
        "CACHE_IDENTITY",
        "PUBLISH_INTENT",
        "CODE",
        "CLOSING",
        "KEPT",
        "RECOVERED",
    }
)
_KEYS = ("schema_version", "seq", "at", "event", "data")


class JournalInvalid(Exception):
    """A journal with a fault that is not an unfinished last line. `line` counts from 1."""

    failure = "unexpected"

    def __init__(self, path: Path, line: int, what: str) -> None:
        super().__init__(f"{path.name} line {line}: {what}")
        self.path = path
        self.line = line
        self.what = what


@attrs.frozen
class Record:
    """One line; `at` is ISO 8601 with offset and milliseconds."""

    seq: int
    at: str
    event: str
    data: Mapping[str, Any] = attrs.field(hash=False)


@attrs.frozen
class JournalRead:
    """All whole lines, and whether an unfinished one follows them."""

    records: tuple[Record, ...]
    unfinished: bool


def read_journal(path: Path, durable: Durable) -> JournalRead:
    """Read a journal strictly; a missing file has no records. Raises `JournalInvalid`, `DurableError` U."""
    if durable.stat(path) is None:
        return JournalRead((), False)
    data = durable.read_bytes(path)
    whole, lines = split_lines(data)
    records = tuple(_parse(path, number, line) for number, line in enumerate(lines, start=1))
    return JournalRead(records, not whole)


def split_lines(data: bytes) -> tuple[bool, list[bytes]]:
    """Whether the last line is finished, and the finished lines. NUL bytes in the last line make it
    unfinished.
    """
    lines = data.split(b"\n")
    last = lines.pop()
    if last:
        return False, lines
    if lines and b"\0" in lines[-1]:
        return False, lines[:-1]
    return True, lines


class Journal:
    """A journal to read and to add to. One writer: the holder of the library's lock."""

    def __init__(self, path: Path, durable: Durable, clock: Clock, zone: tzinfo = UTC) -> None:
        """Read what is there. Raises `JournalInvalid`; an unfinished last line must be moved before
        appending.
        """
        self.path = path
        self._durable = durable
        self._clock = clock
        self._zone = zone
        found = read_journal(path, durable)
        self._records = list(found.records)
        self.unfinished = found.unfinished

    @property
    def records(self) -> tuple[Record, ...]:
        """All records, oldest first."""
        return tuple(self._records)

    def __iter__(self) -> Iterator[Record]:
        return iter(self.records)

    def last(self, event: str) -> Record | None:
        """The newest record of that event, None when there is none."""
        return next((record for record in reversed(self._records) if record.event == event), None)

    def append(self, event: str, data: Mapping[str, Any], *, step: str) -> Record:
        """Add one record. Raises `DurableError`; after a `U` this object refuses to go on."""
        if event not in EVENTS:
            raise ValueError(f"unknown journal event {event!r}")
        if self.unfinished:
            raise DurableError(
                "unexpected",
                "N",
                step=step,
                path=self.path,
                detail="has an unfinished last line; run recovery",
            )
        moment = self._clock.now().astimezone(self._zone)
        record = Record(len(self._records) + 1, moment.isoformat(timespec="milliseconds"), event, dict(data))
        try:
            self._durable.append_line(self.path, _line(record), step=step)
        except DurableError as error:
            self.unfinished = self.unfinished or error.known == "U"
            raise
        self._records.append(record)
        return record

    def move_unfinished(self, *, step: str) -> MovedTail | None:
        """Move an unfinished last line into a side file, for recovery. Raises `DurableError`."""
        moved = self._durable.move_unfinished_tail(self.path, step=step)
        self.unfinished = False
        return moved


def _line(record: Record) -> bytes:
    value = {"schema_version": SCHEMA_VERSION, **attrs.asdict(record)}
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False).encode()


def _parse(path: Path, number: int, line: bytes) -> Record:
    try:
        value = json.loads(line.decode())
    except ValueError as error:
        raise JournalInvalid(path, number, "not a JSON line") from error
    if not isinstance(value, dict) or tuple(value) != _KEYS:
        raise JournalInvalid(path, number, "unknown, missing or misplaced keys")
    if value["schema_version"] != SCHEMA_VERSION:
        raise JournalInvalid(path, number, "unknown schema_version")
    if value["seq"] != number or isinstance(value["seq"], bool):
        raise JournalInvalid(path, number, f"seq {number} expected: lost or reordered lines")
    if value["event"] not in EVENTS or not isinstance(value["data"], dict):
        raise JournalInvalid(path, number, "unknown event, or data is not an object")
    try:
        aware = datetime.fromisoformat(value["at"]).tzinfo is not None
    except (ValueError, TypeError):
        aware = False
    if not aware:
        raise JournalInvalid(path, number, "at is not a time with offset")
    return Record(number, value["at"], value["event"], value["data"])
