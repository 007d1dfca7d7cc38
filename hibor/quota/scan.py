"""Strict reading of a ledger file, line by line, from any proven place on.

Rules of this file:
- A place (`Place`) is proven: everything before it has been verified. A scan goes from a place to another.
- The first fault ends the scan with `LedgerInvalid`; nothing is skipped, guessed or repaired.
- A file that is shorter than a head somebody noted has lost lines, which the chain alone cannot notice.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import BinaryIO

import attrs

from hibor.quota.errors import COPY_ADVICE, REPAIR_ADVICE, LedgerInvalid
from hibor.quota.events import ZERO_HASH, Event, EventInvalid, Head, parse_event, sha256_hex
from hibor.quota.fold import Fold, FoldRefused
from hibor.reading import open_kept

MARK_EVERY = 256
"""Distance in events between remembered offsets, for looking up an event by its number."""


@attrs.frozen
class Place:
    """A proven position: events so far, bytes so far, `hash` and `prev` value of the last line, its time
    and span.
    """

    count: int = 0
    size_bytes: int = 0
    hash: str = ZERO_HASH
    prev: str = ZERO_HASH
    last_at: str | None = None
    last_bytes: int = 0

    @property
    def head(self) -> Head:
        """The head at this place."""
        return Head(self.count, self.hash)


class Marks:
    """Offsets of every 256th line, so that line N is found by reading at most 256 lines."""

    def __init__(self, offsets: Iterable[int] = ()) -> None:
        self.offsets = array("Q", offsets)

    def note(self, seq: int, offset_bytes: int) -> None:
        """Remember where event `seq` (from 1) begins."""
        if (seq - 1) % MARK_EVERY == 0 and (seq - 1) // MARK_EVERY == len(self.offsets):
            self.offsets.append(offset_bytes)

    def nearest(self, seq: int) -> tuple[int, int]:
        """Number and offset of the last remembered line at or before `seq`."""
        index = min((seq - 1) // MARK_EVERY, len(self.offsets) - 1)
        return index * MARK_EVERY + 1, self.offsets[index]


def scan(
    path: Path,
    account: str,
    fold: Fold,
    marks: Marks,
    *,
    start: Place | None = None,
    end_bytes: int | None = None,
) -> Place:
    """Verify the lines from `start` to `end_bytes` (default: the file's end) and fold them.

    A missing file is an empty one. Returns the place reached; raises `LedgerInvalid`. The fold is unusable
    after a failure.
    """
    place = start or Place()
    try:
        with open_kept(path) as stream:
            stream.seek(place.size_bytes)
            last: tuple[Event, int, int, str] | None = None
            for event, size_bytes, offset, digest in _events(stream, path, account, place, end_bytes):
                try:
                    fold.apply(event, (offset, size_bytes))
                except FoldRefused as error:
                    raise LedgerInvalid(path, event.seq, str(error)) from error
                marks.note(event.seq, offset)
                last = (event, size_bytes, offset, digest)
            if last is not None:
                event, size_bytes, offset, digest = last
                place = Place(event.seq, offset + size_bytes + 1, event.hash, digest, event.at, size_bytes)
    except FileNotFoundError:
        if place.count:
            raise LedgerInvalid(path, 0, "the file is gone") from None
    except OSError as error:
        raise LedgerInvalid(path, place.count + 1, f"cannot be read: {error.strerror}") from error
    return place


def check_heads(
    path: Path, place: Place, marks: Marks, heads: Iterable[Head], *, index: str | None = None
) -> None:
    """Compare the file with heads noted elsewhere (journals, terminals, people), or by the index of that
    name. Raises `LedgerInvalid`.
    """
    noted, advice = "noted", COPY_ADVICE
    if index is not None:
        noted = f"noted by the index {index}"
        advice = f"{COPY_ADVICE}; or remove {index} if it is another ledger's"
    for head in heads:
        if head.count > place.count:
            what = f"lines are missing at the end: {place.count} events, but {head.count} were {noted}"
            raise LedgerInvalid(path, place.count, what, now=advice)
        found = hash_at(path, place, marks, head.count)
        if found != head.hash:
            what = f"its hash differs from the one {noted} earlier: the file was replaced"
            raise LedgerInvalid(path, head.count, what, now=advice)


def hash_at(path: Path, place: Place, marks: Marks, seq: int) -> str:
    """`hash` of event number `seq` (0: 64 zeros) of a verified file. Raises `LedgerInvalid`."""
    if seq == 0:
        return ZERO_HASH
    if seq == place.count:
        return place.hash
    number, offset = marks.nearest(seq)
    try:
        with open_kept(path) as stream:
            stream.seek(offset)
            for _ in range(seq - number):
                stream.readline()
            return parse_event(stream.readline().rstrip(b"\n")).hash
    except (OSError, EventInvalid) as error:
        raise LedgerInvalid(path, seq, f"cannot be read again: {error}") from error


def read_event(path: Path, span: tuple[int, int]) -> Event:
    """Read one verified line again. Raises `LedgerInvalid` when it is no longer there."""
    offset, size_bytes = span
    try:
        with open_kept(path) as stream:
            stream.seek(offset)
            return parse_event(stream.read(size_bytes))
    except (OSError, EventInvalid) as error:
        raise LedgerInvalid(
            path, 0, f"the line at byte {offset} changed since it was verified: {error}"
        ) from error


def _events(
    stream: BinaryIO, path: Path, account: str, place: Place, end_bytes: int | None
) -> Iterator[tuple[Event, int, int, str]]:
    """Events from the stream's position on, each checked against the one before.

    With the line's length, offset and sha256, which the next line names as `prev`.
    """
    seq, prev, offset = place.count, place.prev, place.size_bytes
    while end_bytes is None or offset < end_bytes:
        raw = stream.readline()
        if not raw:
            return
        line = raw[:-1]
        if not raw.endswith(b"\n") or b"\0" in raw:
            torn = not stream.read(1)
            advice = {"now": REPAIR_ADVICE} if torn else {}
            raise LedgerInvalid(
                path, seq + 1, "the line is unfinished (a write was interrupted)", torn=torn, **advice
            )
        try:
            event = parse_event(line)
        except EventInvalid as error:
            raise LedgerInvalid(path, seq + 1, str(error)) from error
        if event.account != account:
            raise LedgerInvalid(path, seq + 1, "the event belongs to another account")
        if event.seq != seq + 1:
            raise LedgerInvalid(
                path, seq + 1, f"event {seq + 1} expected, {event.seq} found: lost or reordered lines"
            )
        if event.prev != prev:
            raise LedgerInvalid(
                path, seq + 1, "the chain breaks here: the line before is not the one it was built on"
            )
        seq, prev = event.seq, sha256_hex(line)
        yield event, len(line), offset, prev
        offset += len(raw)
