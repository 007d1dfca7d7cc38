"""The ledger races a naive twin: a dict that knows the rules and no file (design 8, habit 8).

A deliberately broken ledger has to lose the race; the last test sees to that.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import attrs
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from hibor.durable import DurableError
from hibor.quota.errors import AlreadyPaid, QuotaError, QuotaExhausted, ReplayConflict
from hibor.quota.events import Event
from hibor.quota.ledger import Ledger
from tests.durable_support import FaultyFileSystem, short
from tests.quota.support import DAY, Bench

LIMIT = 4
REPORTS = ("HB1", "HB2", "HB3")
QUOTA = ("RELEASED", "CONFIRMED", "UNCERTAIN")
ARTIFACT = ("ARTIFACT_SUCCESS", "ARTIFACT_DUPLICATE_OR_FAILED")


@attrs.define
class TwinFamily:
    """What the twin knows of a family."""

    report: str
    item: str
    day: str
    events: dict[str, Any] = attrs.field(factory=dict)

    @property
    def quota(self) -> str:
        return next((kind for kind in QUOTA if kind in self.events), "RESERVED")

    @property
    def artifact(self) -> str | None:
        return next((kind for kind in ARTIFACT if kind in self.events), None)


class Twin:
    """The rules of design 4 on a list in memory."""

    def __init__(self) -> None:
        self.families: list[TwinFamily] = []

    def spent(self, day: str) -> int:
        return sum(family.quota != "RELEASED" for family in self.families if family.day == day)

    def reserve(self, report: str, item: str, day: str, label: int | None) -> TwinFamily | type[QuotaError]:
        mine = [family for family in self.families if family.report == report]
        for family in mine:
            if family.quota == "RESERVED":
                same = (family.item, family.events["RESERVED"]) == (item, label)
                return family if same else ReplayConflict
        if any(family.quota != "RELEASED" for family in mine):
            return AlreadyPaid
        available = LIMIT - self.spent(day)
        if min(available, available if label is None else label) <= 0:
            return QuotaExhausted
        self.families.append(TwinFamily(report, item, day, {"RESERVED": label}))
        return self.families[-1]

    def append(self, family: TwinFamily, kind: str, data: int) -> type[QuotaError] | None:
        if kind in family.events:
            return None if family.events[kind] == data else ReplayConflict
        fits = kind in QUOTA if family.quota == "RESERVED" else kind in ARTIFACT
        if not fits or family.quota == "RELEASED" or family.artifact is not None:
            return ReplayConflict
        family.events[kind] = data
        return None


class Race(RuleBasedStateMachine):
    """Every step is done by both; their answers and sums must agree."""

    make: Callable[..., Ledger] = staticmethod(Bench.open)

    def __init__(self) -> None:
        super().__init__()
        self.folder = Path(tempfile.mkdtemp())
        self.fs = FaultyFileSystem()
        self.bench = Bench(self.folder, self.fs)
        self.twin = Twin()
        self.known: list[tuple[TwinFamily, Event]] = []
        self.day = DAY
        self.ledger = type(self).make(self.bench)

    def teardown(self) -> None:
        self.ledger.close()
        shutil.rmtree(self.folder)

    @rule(report=st.sampled_from(REPORTS), item=st.sampled_from("ab"), label=st.sampled_from([None, 0, 1, 9]))
    def reserve(self, report: str, item: str, label: int | None) -> None:
        expected = self.twin.reserve(report, item, self.day, label)
        arguments = (report, item, "run", self.day, LIMIT, "task", label)
        if isinstance(expected, TwinFamily):
            event = self.ledger.reserve(*arguments)
            if all(family is not expected for family, _ in self.known):
                self.known.append((expected, event))
            assert (
                dict((id(family), event.event_id) for family, event in self.known)[id(expected)]
                == event.event_id
            )
            return
        with pytest.raises(expected):
            self.ledger.reserve(*arguments)

    @precondition(lambda self: bool(self.known))
    @rule(index=st.integers(0, 50), kind=st.sampled_from(QUOTA + ARTIFACT), data=st.integers(0, 1))
    def append(self, index: int, kind: str, data: int) -> None:
        family, event = self.known[index % len(self.known)]
        expected = self.twin.append(family, kind, data)
        if expected is None:
            assert self.ledger.append(kind, event, {"n": data}).type == kind
            return
        with pytest.raises(expected):
            self.ledger.append(kind, event, {"n": data})

    @precondition(lambda self: bool(self.known))
    @rule(index=st.integers(0, 50), attempted=st.sampled_from([True, False, None]))
    def settle(self, index: int, attempted: bool | None) -> None:
        family, event = self.known[index % len(self.known)]
        settled = self.ledger.settle(event, attempted=attempted)
        if family.quota == "RESERVED":
            family.events["RELEASED" if attempted is False else "UNCERTAIN"] = None
        assert settled.type == family.quota

    @rule(size_bytes=st.integers(0, 300))
    def full_disk(self, size_bytes: int) -> None:
        before = self.bench.path.read_bytes() if self.bench.path.exists() else b""
        self.fs.fail("write", short(size_bytes))
        with pytest.raises((DurableError, QuotaExhausted)):
            self.ledger.reserve("DISK", "i", "run", self.day, LIMIT, "task", None)
        self.fs.faults.clear()
        assert (self.bench.path.read_bytes() if self.bench.path.exists() else b"") == before

    @rule()
    def next_day(self) -> None:
        self.bench.clock.moment += timedelta(days=1)
        self.day = self.bench.clock.moment.date().isoformat()

    @rule(index=st.booleans(), close=st.booleans())
    def reopen(self, index: bool, close: bool) -> None:
        """Also without closing: a second object while the first is still open."""
        if close:
            self.ledger.close()
        head = self.ledger.head
        if not index:
            self.bench.path.with_name("ledger.jsonl.index.sqlite3").unlink(missing_ok=True)
        self.ledger = type(self).make(self.bench, [head])

    @invariant()
    def same_sums(self) -> None:
        for day in {self.day, *(family.day for family in self.twin.families)}:
            assert self.ledger.safe_available(day, LIMIT) == LIMIT - self.twin.spent(day)
        assert self.ledger.head.count == sum(len(family.events) for family in self.twin.families)
        waiting = [event.event_id for family, event in self.known if family.quota == "RESERVED"]
        assert [event.event_id for event in self.ledger.open_reservations()] == waiting
        for family, event in self.known:
            view = self.ledger.family_of(event)
            assert view.quota_state == family.quota
            assert (view.artifact.type if view.artifact else None) == family.artifact

    @invariant()
    def verifies(self) -> None:
        assert self.ledger.verify() == self.ledger.head


SETTINGS = settings(max_examples=40, stateful_step_count=25, deadline=None)


def test_ledger_and_twin_agree() -> None:
    run_state_machine_as_test(Race, settings=SETTINGS)


def test_a_broken_ledger_loses_the_race() -> None:
    """The canary: a ledger that forgets that uncertain is spent must be caught."""

    class Forgetful(Ledger):
        def safe_available(self, day: str, limit: int, label: Any = None) -> int:
            return super().safe_available(day, limit, label) + self.sums(day).uncertain

    class BrokenRace(Race):
        @staticmethod
        def make(bench: Bench, heads: Any = ()) -> Ledger:
            ledger = bench.open(heads)
            ledger.__class__ = Forgetful
            return ledger

    with pytest.raises(AssertionError):
        run_state_machine_as_test(BrokenRace, settings=settings(SETTINGS, database=None, print_blob=False))
