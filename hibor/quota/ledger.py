"""The quota ledger of one account: decide and append under one lock, refuse everything in doubt (design 4).

Format: append-only JSON lines, hash-chained (see `events.py`). Recovery rule: an unfinished last line was
never acknowledged, but only a person may cut it off (`Ledger.repair`); anything else that is wrong ends in
`LedgerInvalid` and no line is ever changed.

Rules of this file:
- The decision and the append of a reservation happen under one kernel lock, after the tail written by other
  processes has been folded; so two processes cannot spend the same remaining download.
- An append that failed and could not be undone leaves the ledger *in doubt*: from then on this object appends
  nothing (ruling R28).
- Appending the same event again returns the first one; another payload is a `ReplayConflict`.
- Times are the host clock's, written in the account's zone.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from datetime import datetime
from pathlib import Path
from typing import Any

import attrs

from hibor.clock import Clock
from hibor.durable import Durable
from hibor.locks import Locks
from hibor.quota import events
from hibor.quota.day import QuotaCalendar, check_host_clock
from hibor.quota.errors import AlreadyPaid, LedgerInvalid, QuotaExhausted, ReplayConflict
from hibor.quota.events import Event, Head
from hibor.quota.family import Automaton
from hibor.quota.fold import DaySums, Family
from hibor.quota.scan import read_event
from hibor.quota.store import LedgerStore

RETRIGGER_AFTER_S = 900.0
"""A retrigger is refused for 15 minutes after the report's last event, in seconds (design 4)."""
_APPEND_STEPS = {
    events.RESERVED: "reserve.append",
    events.RELEASED: "release.append",
    events.CONFIRMED: "confirm.append",
    events.UNCERTAIN: "doubt.append",
    "ARTIFACT_SUCCESS": "artifact.append",
    "ARTIFACT_DUPLICATE_OR_FAILED": "reject.append",
}
_SETTLE_STEPS = {events.RELEASED: "settle.release", events.UNCERTAIN: "settle.doubt"}
_OWN_STEPS = ("ledger.clock", "ledger.repair", "ledger.repaired")
STEPS = frozenset({*_APPEND_STEPS.values(), *_SETTLE_STEPS.values(), *_OWN_STEPS})
"""Names of the ledger's durable steps (spec/steps.yaml); an effect that has several names for one passes its
own.
"""


@attrs.frozen
class Label:
    """The app's own remaining count together with what the ledger counted as spent when it was read.

    What is reserved afterwards is taken off, so one reading holds for a whole run.
    """

    remaining: int
    spent: int


@attrs.frozen
class FamilyView:
    """A family's events as of some head; `quota_state` is the type of the last quota event."""

    reservation: Event
    quota: Event | None
    artifact: Event | None

    @property
    def quota_state(self) -> str:
        """Type of the last quota event."""
        return self.reservation.type if self.quota is None else self.quota.type


class Ledger:
    """One account's ledger, verified when it was opened. Use `Ledger.open`, end with `close` or `with`.

    Safe for several threads and processes.
    """

    def __init__(
        self, store: LedgerStore, clock: Clock, automaton: Automaton, calendar: QuotaCalendar
    ) -> None:
        self.path = store.path
        self.account = store.account
        self.calendar = calendar
        self._store = store
        self._clock = clock
        self._automaton = automaton

    @classmethod
    def open(
        cls,
        path: Path,
        account: str,
        *,
        durable: Durable,
        locks: Locks,
        clock: Clock,
        automaton: Automaton,
        calendar: QuotaCalendar | None = None,
        known_heads: Iterable[Head] = (),
        save_index: bool = True,
    ) -> Ledger:
        """Open and verify. The folder must exist; a missing file is an empty ledger. Without `save_index` not
        even the index is written before `close`.

        `known_heads` are heads noted in journals, terminals and run files: a file that does not contain
        them is invalid. Raises `LedgerInvalid`, `LockTimeout`, `LockUnusable`.
        """
        days = calendar or QuotaCalendar()
        store = LedgerStore(
            path,
            account,
            durable=durable,
            lock=locks.ledger(path),
            clock=clock,
            automaton=automaton,
            calendar=days,
        )
        store.load(known_heads, save_index=save_index)
        return cls(store, clock, automaton, days)

    # ---- what it says ------------------------------------------------------------------------------------

    @property
    def head(self) -> Head:
        """Number of events and hash of the last one, as far as this object has read."""
        return self._store.place.head

    @property
    def last_at(self) -> str | None:
        """Time of the last event, None when the ledger is empty."""
        return self._store.place.last_at

    @property
    def verified_whole(self) -> bool:
        """Whether opening read every line instead of trusting the index."""
        return self._store.verified_whole

    @property
    def index_note(self) -> str | None:
        """Why the index could not be saved; None when all is well. It costs time only."""
        return self._store.index_note

    def sums(self, day: str) -> DaySums:
        """What became of a day's reservations, including what other processes have appended."""
        return self._store.read(lambda: self._store.fold.sums(day))

    def read_label(self, day: str, remaining: int) -> Label:
        """Tie the app's remaining count, read just now, to the ledger's own count."""
        return Label(remaining, self.sums(day).spent)

    def safe_available(self, day: str, limit: int, label: Label | int | None = None) -> int:
        """How many downloads may still be reserved: the smaller of limit and label, uncertain being spent."""
        return self._store.read(lambda: self._available(day, limit, label))

    def open_reservations(self) -> tuple[Event, ...]:
        """Reservations without a quota event, oldest first, of every day (ruling R19)."""
        store = self._store
        return store.read(
            lambda: tuple(self._event(family.reserved) for family in store.fold.open_families())
        )

    def history(self, report_id: str) -> tuple[FamilyView, ...]:
        """All families of a report, oldest first."""
        store = self._store
        return store.read(lambda: tuple(self._view(family) for family in store.fold.families_of(report_id)))

    def family_of(self, reservation: Event, *, head: Head | None = None) -> FamilyView:
        """A reservation's family, only as far as `head` if one is given (ruling R19). Raises
        `LedgerInvalid`.
        """
        view = self._store.read(lambda: self._find(reservation))
        if head is None:
            return view
        if view.reservation.seq > head.count:
            raise LedgerInvalid(
                self.path, view.reservation.seq, "the reservation is younger than the noted head"
            )
        return FamilyView(
            view.reservation,
            view.quota if view.quota and view.quota.seq <= head.count else None,
            view.artifact if view.artifact and view.artifact.seq <= head.count else None,
        )

    def verify(self, head: Head | None = None) -> Head:
        """Read and verify every line again, and compare with a head noted elsewhere. Raises
        `LedgerInvalid`.
        """
        return self._store.verify([head] if head else [])

    def close(self, *, save_index: bool = True) -> None:
        """Save the index and forget the file."""
        self._store.close(save_index=save_index)

    def __enter__(self) -> Ledger:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    # ---- what it writes ----------------------------------------------------------------------------------

    def reserve(
        self,
        report_id: str,
        item_id: str,
        run_id: str,
        day: str,
        limit: int,
        limit_source: str,
        label: Label | int | None,
        attempted_reports: Collection[str] = (),
        *,
        retrigger: bool = False,
        step: str = _APPEND_STEPS[events.RESERVED],
    ) -> Event:
        """Decide and append RESERVED under one lock.

        `attempted_reports` are reports with a journalled trigger intent that no ledger event settles yet.
        Raises `QuotaExhausted`, `AlreadyPaid`, `ReplayConflict`, `ClockInvalid`, `QuotaDateUncertain`,
        `LedgerInvalid`, `LockTimeout`; `DurableError` N when the append failed and left nothing.
        """
        shown = label.remaining if isinstance(label, Label) else label
        data: dict[str, Any] = {"label": shown, "limit": limit, "limit_source": limit_source}
        if retrigger:
            data["retrigger"] = True

        def decide() -> Event:
            now = self._clock.now()
            earlier = self._store.fold.families_of(report_id)
            for family in earlier:
                if family.quota_state in self._automaton.opening:
                    return self._same_reservation(family, item_id, run_id, data)
            self._refuse_paid(report_id, earlier, report_id in attempted_reports, retrigger, now)
            check_host_clock(now, self._store.place.last_at)
            self.calendar.check(now, day)
            available = self._available(day, limit, label)
            if available <= 0:
                raise QuotaExhausted(day, available, limit, shown)
            ordinal = self._store.fold.next_ordinal(day, report_id)
            ids = {"report_id": report_id, "ordinal": ordinal, "item_id": item_id, "run_id": run_id}
            return self._store.append(events.RESERVED, now, step, day=day, data=data, **ids)

        return self._store.write(decide)

    def append(
        self, event_type: str, reservation: Event, data: Mapping[str, Any], *, step: str | None = None
    ) -> Event:
        """Append a quota or artifact event to a reservation's family; the same event again returns the first.

        Raises `ReplayConflict` when the family holds another payload or no longer takes the event.
        """

        def decide() -> Event:
            family = self._store.fold.family(reservation.family or "")
            if family is None:
                raise ReplayConflict(f"reservation {reservation.event_id} is not in the ledger")
            span = family.span_of(event_type)
            if span is not None:
                first = self._event(span)
                if events.canonical(first.data) != events.canonical(data):
                    raise ReplayConflict(
                        f"{event_type} of report {family.report_id} is there with another payload"
                    )
                return first
            if self._automaton.next_state(family.state, event_type) is None:
                raise ReplayConflict(
                    f"{event_type} does not follow {family.state} (report {family.report_id})"
                )
            ids = {"report_id": family.report_id, "ordinal": family.ordinal, "item_id": family.item_id}
            run_id = reservation.run_id
            now = self._clock.now()
            name = step or _APPEND_STEPS[event_type]
            return self._store.append(event_type, now, name, day=family.day, data=data, run_id=run_id, **ids)

        return self._store.write(decide)

    def settle(self, reservation: Event, *, attempted: bool | None, step: str | None = None) -> Event:
        """End an open reservation: released if surely not attempted, else uncertain (ruling R19).

        `attempted` None means that the item's folder is missing, which counts as attempted. A family that
        has its quota event keeps it, whatever it is.
        """
        view = self.family_of(reservation)
        if view.quota is not None:
            return view.quota
        event_type = events.RELEASED if attempted is False else events.UNCERTAIN
        data = {"attempted": attempted, "settled": True}
        return self.append(event_type, reservation, data, step=step or _SETTLE_STEPS[event_type])

    def accept_clock(self, reason: str, *, step: str = "ledger.clock") -> Event:
        """Record that the host's clock is right although it is behind the last event, which ends the
        lock-out.
        """
        if not reason.strip():
            raise ValueError("a reason is required")
        previous_at = self.last_at
        return self._outside(events.CLOCK_ACCEPTED, {"previous_at": previous_at, "reason": reason}, step)

    def record_repair(self, data: Mapping[str, Any], *, step: str = "ledger.repaired") -> Event:
        """Append REPAIRED; `hibor.quota.repair` calls it after it has moved an unfinished line aside."""
        return self._outside(events.REPAIRED, data, step)

    # ---- parts -------------------------------------------------------------------------------------------

    def _outside(self, event_type: str, data: Mapping[str, Any], step: str) -> Event:
        now = self._clock.now()
        day = self.calendar.day(now)
        return self._store.write(lambda: self._store.append(event_type, now, step, day=day, data=data))

    def _available(self, day: str, limit: int, label: Label | int | None) -> int:
        spent = self._store.fold.sums(day).spent
        if isinstance(label, Label):
            return min(limit - spent, label.remaining - max(0, spent - label.spent))
        return limit - spent if label is None else min(limit - spent, label)

    def _same_reservation(self, family: Family, item_id: str, run_id: str, data: Mapping[str, Any]) -> Event:
        first = self._event(family.reserved)
        if (first.item_id, first.run_id) != (item_id, run_id):
            raise ReplayConflict(
                f"report {family.report_id} has an open reservation of another item ({first.item_id}); "
                "it has to be settled first"
            )
        if events.canonical(first.data) != events.canonical(data):
            raise ReplayConflict(
                f"the reservation of report {family.report_id} is there with another payload"
            )
        return first

    def _refuse_paid(
        self, report_id: str, earlier: list[Family], attempted: bool, retrigger: bool, now: datetime
    ) -> None:
        paid = [family for family in earlier if family.quota_state != events.RELEASED]
        if not paid and not attempted:
            return
        views = [self._view(family) for family in paid]
        evidence = tuple(view.reservation.event_id for view in views)
        if not retrigger:
            raise AlreadyPaid(report_id, evidence, 0.0, "it was paid for or attempted before")
        last = [(view.artifact or view.quota or view.reservation).at for view in views]
        waited_s = min((now - datetime.fromisoformat(at)).total_seconds() for at in last) if last else 0.0
        if waited_s < RETRIGGER_AFTER_S:
            wait_s = RETRIGGER_AFTER_S - waited_s
            raise AlreadyPaid(report_id, evidence, wait_s, f"a retrigger is possible in {wait_s:.0f} s")

    def _view(self, family: Family) -> FamilyView:
        spans = (family.quota, family.artifact)
        quota, artifact = (None if span is None else self._event(span) for span in spans)
        return FamilyView(self._event(family.reserved), quota, artifact)

    def _find(self, reservation: Event) -> FamilyView:
        family = self._store.fold.family(reservation.family or "")
        if family is None:
            raise LedgerInvalid(self.path, 0, f"reservation {reservation.event_id} is not in the ledger")
        return self._view(family)

    def _event(self, span: tuple[int, int]) -> Event:
        return read_event(self.path, span)
