"""A ledger read once and never written: for looking at it while nothing may change, not even an index."""

from __future__ import annotations

from pathlib import Path

from generated.ledger import AUTOMATON
from hibor.quota.events import Event, Head
from hibor.quota.family import Automaton
from hibor.quota.fold import Family, Fold
from hibor.quota.ledger import FamilyView
from hibor.quota.scan import Marks, check_heads, read_event, scan


class LedgerReading:
    """What the ledger said when it was read. Raises LedgerInvalid."""

    def __init__(self, path: Path, account: str, heads: list[Head]) -> None:
        self.path = path
        self._fold, marks = Fold(Automaton(AUTOMATON)), Marks()
        self._place = scan(path, account, self._fold, marks)
        check_heads(path, self._place, marks, heads)

    @property
    def head(self) -> Head:
        """Number of events and hash of the last one."""
        return self._place.head

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
