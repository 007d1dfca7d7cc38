"""What the quota tests share: a settable clock, the family table, a ledger on a real disk."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from pathlib import Path

from hibor.durable import Durable
from hibor.durable_fs import FileSystem, OsFileSystem
from hibor.locks import NOTE_STEPS, Locks
from hibor.quota.events import Event, Head
from hibor.quota.family import Automaton
from hibor.quota.ledger import STEPS, Ledger

FAMILY_TABLE = {
    "": {"RESERVED": "RESERVED"},
    "RESERVED": {"RELEASED": "RELEASED", "CONFIRMED": "CONFIRMED", "UNCERTAIN": "UNCERTAIN"},
    "CONFIRMED": {
        "ARTIFACT_SUCCESS": "ARTIFACT_SUCCESS",
        "ARTIFACT_DUPLICATE_OR_FAILED": "ARTIFACT_DUPLICATE_OR_FAILED",
    },
    "UNCERTAIN": {
        "ARTIFACT_SUCCESS": "ARTIFACT_SUCCESS",
        "ARTIFACT_DUPLICATE_OR_FAILED": "ARTIFACT_DUPLICATE_OR_FAILED",
    },
}
AUTOMATON = Automaton(FAMILY_TABLE)
ACCOUNT = "team-a"
DAY = "2026-11-30"
NOON = datetime(2026, 11, 30, 4, 0, tzinfo=UTC)
"""Noon in Shanghai on `DAY`."""


class SetClock:
    """A clock that stands still until it is moved; sleeping moves it."""

    def __init__(self, moment: datetime = NOON) -> None:
        self.moment = moment

    def now(self) -> datetime:
        return self.moment

    def monotonic_s(self) -> float:
        return self.moment.timestamp()

    def sleep(self, wait_s: float) -> None:
        self.moment += timedelta(seconds=max(0.0, wait_s))


class Bench:
    """One folder with one ledger, opened as often as a test likes."""

    def __init__(self, folder: Path, fs: FileSystem | None = None) -> None:
        self.path = folder / "ledger.jsonl"
        self.clock = SetClock()
        self.durable = Durable(fs or OsFileSystem(), self.clock, STEPS | NOTE_STEPS)
        self.locks = Locks(self.durable, self.clock)

    def open(self, heads: Iterable[Head] = (), account: str = ACCOUNT) -> Ledger:
        return Ledger.open(
            self.path,
            account,
            durable=self.durable,
            locks=self.locks,
            clock=self.clock,
            automaton=AUTOMATON,
            known_heads=heads,
        )

    def open_without_index(self, heads: Iterable[Head] = ()) -> Ledger:
        self.path.with_name(self.path.name + ".index.sqlite3").unlink(missing_ok=True)
        return self.open(heads)


def reserve(
    ledger: Ledger, report: str, limit: int = 1000, day: str = DAY, label: int | None = None
) -> Event:
    """Reserve with the usual arguments."""
    return ledger.reserve(report, f"item-{report}", "run-1", day, limit, "task", label, frozenset())


def fill(ledger: Ledger, events: int) -> None:
    """Append exactly `events` events of every kind."""
    number = 0
    while ledger.head.count < events:
        number += 1
        reservation = reserve(ledger, f"HB{number:05}")
        kind = ("CONFIRMED", "UNCERTAIN", "RELEASED")[number % 3]
        if ledger.head.count < events:
            ledger.append(kind, reservation, {"label": None, "why": "报告"})
        if ledger.head.count < events and kind != "RELEASED":
            ledger.append("ARTIFACT_SUCCESS", reservation, {"sha256": "0" * 64})
