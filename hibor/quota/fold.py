"""The fold: what a ledger's events add up to, one event at a time.

Rules of this file:
- Applying an event either succeeds or raises `FoldRefused` and changes nothing.
- The fold keeps places in the file, not events: memory grows with families only, and only with those touched
  since the base was taken. A base (the index) answers for the rest.
- Everything but a released reservation counts as spent: uncertain is spent (design 4).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Protocol

import attrs

from hibor.quota.events import CONFIRMED, OUTSIDE_TYPES, RELEASED, RESERVED, UNCERTAIN, Event
from hibor.quota.family import START, Automaton

Span = tuple[int, int]
"""Offset and length in bytes of a line without its newline."""


class FoldRefused(ValueError):
    """An event that does not follow from the events before it."""


@attrs.define
class Family:
    """One family's state. `quota_state` is the type of its last quota event; spans say where its lines
    are.
    """

    family: str
    report_id: str
    day: str
    ordinal: int
    item_id: str
    state: str
    quota_state: str
    reserved: Span
    quota: Span | None = None
    artifact: Span | None = None
    artifact_type: str | None = None

    def span_of(self, event_type: str) -> Span | None:
        """Where the family's event of that type is, None when it has none."""
        if event_type == RESERVED:
            return self.reserved
        if event_type == self.quota_state:
            return self.quota
        return self.artifact if event_type == self.artifact_type else None


@attrs.frozen
class DaySums:
    """Number of families of one quota day by what became of their reservation."""

    reserved: int = 0
    released: int = 0
    confirmed: int = 0
    uncertain: int = 0

    @property
    def spent(self) -> int:
        """What counts against the limit: open, confirmed and uncertain reservations."""
        return self.reserved + self.confirmed + self.uncertain


class FoldBase(Protocol):
    """Families and sums as of an earlier event."""

    def family(self, family: str) -> Family | None:
        """A family by id."""

    def families_of(self, report_id: str) -> list[Family]:
        """All families of a report."""

    def open_families(self) -> list[Family]:
        """All families whose reservation is not settled."""

    def day_counts(self, day: str) -> dict[str, int]:
        """Number of the day's families by quota state."""


class Fold:
    """The incremental fold of one account's ledger."""

    def __init__(self, automaton: Automaton, base: FoldBase | None = None) -> None:
        self._automaton = automaton
        self._base: FoldBase | None = None
        self._families: dict[str, Family] = {}
        self._reports: dict[str, dict[str, Family]] = {}
        self._days: dict[str, Counter[str]] = {}
        self._open: dict[str, Family] = {}
        if base is not None:
            self.rebase(base)

    def apply(self, event: Event, span: Span) -> None:
        """Add one event whose line lies at `span`. Raises `FoldRefused`."""
        if event.type in OUTSIDE_TYPES:
            return
        if event.type not in self._automaton.types:
            raise FoldRefused(f"unknown type {event.type[:40]}")
        assert event.family is not None
        family = self.family(event.family)
        state = self._automaton.next_state(START if family is None else family.state, event.type)
        if state is None:
            having = "no reservation" if family is None else family.state
            raise FoldRefused(f"{event.type} does not follow {having}")
        if family is None:
            self._open_family(event, span, state)
            return
        if event.item_id != family.item_id:
            raise FoldRefused("the event belongs to another item than its reservation")
        family.state = state
        if event.type in self._automaton.quota:
            counts = self._counts(family.day)
            counts[family.quota_state] -= 1
            counts[event.type] += 1
            family.quota_state, family.quota = event.type, span
            self._open.pop(family.family, None)
        else:
            family.artifact, family.artifact_type = span, event.type

    def family(self, family: str) -> Family | None:
        """A family by id, None when there is none."""
        found = self._families.get(family)
        if found is None and self._base is not None:
            stored = self._base.family(family)
            found = None if stored is None else self._adopt(stored)
        return found

    def families_of(self, report_id: str) -> list[Family]:
        """A report's families of every day, oldest first."""
        if self._base is not None:
            for stored in self._base.families_of(report_id):
                self._adopt(stored)
        return sorted(self._reports.get(report_id, {}).values(), key=lambda family: family.reserved)

    def open_families(self) -> list[Family]:
        """Families whose reservation is not settled, oldest first."""
        return sorted(self._open.values(), key=lambda family: family.reserved)

    def next_ordinal(self, day: str, report_id: str) -> int:
        """The ordinal the report's next family of that day takes, from 1."""
        return 1 + sum(family.day == day for family in self.families_of(report_id))

    def sums(self, day: str) -> DaySums:
        """What happened to the day's reservations."""
        counts = self._counts(day)
        return DaySums(counts[RESERVED], counts[RELEASED], counts[CONFIRMED], counts[UNCERTAIN])

    def touched(self) -> Iterable[Family]:
        """Families that the base does not have, or may have in an older state."""
        return self._families.values()

    def touched_days(self) -> dict[str, dict[str, int]]:
        """Counts of the days that were looked at or changed since the base."""
        return {day: dict(counts) for day, counts in self._days.items()}

    def rebase(self, base: FoldBase) -> None:
        """Forget what `base` now holds; it must be exactly this fold's content."""
        self._base = base
        for kept in (self._families, self._reports, self._days, self._open):
            kept.clear()
        self._open.update({family.family: self._adopt(family) for family in base.open_families()})

    def _open_family(self, event: Event, span: Span, state: str) -> None:
        assert event.family is not None and event.report_id is not None
        assert event.item_id is not None and event.ordinal is not None
        if event.ordinal != self.next_ordinal(event.day, event.report_id):
            raise FoldRefused(f"ordinal {event.ordinal} does not follow the report's earlier reservations")
        family = Family(
            event.family, event.report_id, event.day, event.ordinal, event.item_id, state, event.type, span
        )
        self._adopt(family)
        self._open[family.family] = family
        self._counts(event.day)[event.type] += 1

    def _adopt(self, family: Family) -> Family:
        known = self._families.setdefault(family.family, family)
        self._reports.setdefault(family.report_id, {})[family.family] = known
        return known

    def _counts(self, day: str) -> Counter[str]:
        counts = self._days.get(day)
        if counts is None:
            counts = Counter(self._base.day_counts(day) if self._base is not None else {})
            self._days[day] = counts
        return counts
