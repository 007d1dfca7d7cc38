"""A ledger read once and never written: for looking at it while nothing may change, not even an index."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

from generated.ledger import AUTOMATON
from hibor.quota.errors import LedgerInvalid
from hibor.quota.events import Event, Head, parse_event
from hibor.quota.family import Automaton
from hibor.quota.fold import DaySums, Family, Fold
from hibor.quota.index import index_path, noted_by_index
from hibor.quota.ledger import FamilyView
from hibor.quota.scan import Marks, check_heads, read_event, scan
from hibor.quota.tail import unfinished_tail
from hibor.reading import open_kept

_BLOCK_BYTES = 1 << 16


class LedgerReading:
    """What the ledger said when it was read: every line verified, every noted head and its index's in it.

    `in_use`: another process may be writing a line right now, so an unfinished last line is left out; else it
    is a fault. Raises `LedgerInvalid`.
    """

    def __init__(self, path: Path, account: str, heads: Iterable[Head], *, in_use: bool = False) -> None:
        self.path = path
        self._fold, marks = Fold(Automaton(AUTOMATON)), Marks()
        heads = tuple(heads)
        indexed = noted_by_index(path, account)
        end_bytes = _whole_bytes(path) if in_use else None
        try:
            self._place = scan(path, account, self._fold, marks, end_bytes=end_bytes)
        except LedgerInvalid as error:
            if error.torn:
                unfinished_tail(path, account, Automaton(AUTOMATON), heads)  # is it that line alone?
            raise
        check_heads(path, self._place, marks, heads)
        check_heads(path, self._place, marks, indexed, index=index_path(path).name)

    @property
    def head(self) -> Head:
        """Number of events and hash of the last one."""
        return self._place.head

    def lines(self) -> Iterator[bytes]:
        """The verified lines again, each with its newline, oldest first."""
        if not self._place.count:
            return
        with open_kept(self.path) as stream:
            for _ in range(self._place.count):
                yield stream.readline()

    def events(self) -> Iterator[Event]:
        """The verified events again, oldest first."""
        return (parse_event(line.rstrip(b"\n")) for line in self.lines())

    def sums(self, day: str) -> DaySums:
        """What became of a day's reservations."""
        return self._fold.sums(day)

    def history(self, report_id: str) -> tuple[FamilyView, ...]:
        """All families of a report, oldest first."""
        return tuple(self._view(family) for family in self._fold.families_of(report_id))

    def open_reservations(self) -> tuple[Event, ...]:
        """Reservations without a quota event."""
        return tuple(read_event(self.path, family.reserved) for family in self._fold.open_families())

    def _view(self, family: Family) -> FamilyView:
        spans = (family.quota, family.artifact)
        quota, artifact = (None if span is None else read_event(self.path, span) for span in spans)
        return FamilyView(read_event(self.path, family.reserved), quota, artifact)


def _whole_bytes(path: Path) -> int:
    """Length of a file up to its last newline; 0 where there is none."""
    try:
        with open_kept(path) as stream:
            end = stream.seek(0, 2)
            while end > 0:
                start = max(0, end - _BLOCK_BYTES)
                stream.seek(start)
                found = stream.read(end - start).rfind(b"\n")
                if found >= 0:
                    return start + found + 1
                end = start
            return 0
    except FileNotFoundError:
        return 0
    except OSError as error:
        raise LedgerInvalid(path, 0, f"cannot be read: {error.strerror}") from error

