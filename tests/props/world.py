"""A library on a real disk with real ledger, manifest and durable writes, on a clock that moves when somebody
waits.

No phone: what needs one is in `station.py`. Everything here is the run's own code; only the clock is made.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime, timedelta
from functools import cache
from pathlib import Path
from typing import Any

import attrs

from fsm import Tables
from generated.governance import GUARD_RAILS
from generated.ledger import AUTOMATON
from generated.steps import STEPS
from hibor.clock import Clock
from hibor.collect.deadline import Deadline
from hibor.collect.services import Pace, Services
from hibor.durable import Durable
from hibor.durable_fs import FileSystem, OsFileSystem
from hibor.items.catalogue import CatalogueEntry
from hibor.items.draft import ItemJob
from hibor.locks import Locks
from hibor.package.layout import Library, item_id, new_run_id
from hibor.package.manifest import Manifest
from hibor.package.names import final_relative_path
from hibor.quota.family import Automaton
from hibor.quota.ledger import Ledger
from hibor.sim.reports import Report, make_catalogue, make_pdf
from hibor.sim.state import PHONE_ZONE
from hibor.task import Task

MORNING = datetime(2026, 11, 30, 9, 30, tzinfo=PHONE_ZONE)
SEED = 20261130
LANE_OF = {"NEW_TRIGGER": "NEW_TRIGGER", "CACHE_REUSE": "PURE_REUSE", "PROJECT_REUSE": "PURE_REUSE"}


class SetClock:
    """A clock that stands still until somebody sleeps on it or moves it."""

    def __init__(self, moment: datetime = MORNING) -> None:
        self.moment = moment

    def now(self) -> datetime:
        """Aware wall clock."""
        return self.moment.astimezone(UTC)

    def monotonic_s(self) -> float:
        """Seconds since the epoch: it only goes forward here."""
        return self.moment.timestamp()

    def sleep(self, wait_s: float) -> None:
        """Move on."""
        self.moment += timedelta(seconds=max(0.0, wait_s))


@cache
def reports() -> tuple[Report, ...]:
    """The simulated app's catalogue; real titles, institutions and ids."""
    return make_catalogue(SEED, MORNING, 40)


@cache
def pdf(number: int, variant: str = "good") -> bytes:
    """The PDF of a report."""
    return make_pdf(reports()[number], variant)


def entry_of(report: Report, report_id: str | None = None) -> CatalogueEntry:
    """What the app's list shows of a report."""
    return CatalogueEntry(
        report_id=report_id or report.report_id,
        title=report.title,
        institution=report.institution,
        date=report.published.date().isoformat(),
        stock_code=report.stock_code,
        stock_name=report.stock_name,
        page_count_hint=report.pages,
    )


@attrs.define
class World:
    """One library under one run; `reopened` looks at the same disk with fresh eyes."""

    root: Path
    services: Services
    clock: Clock
    account: str = "props"
    held: list[Any] = attrs.field(factory=list)
    _serial: int = 0

    def let_go(self) -> None:
        """Release the locks that a test took in another's place."""
        while self.held:
            self.held.pop().release()

    @property
    def ledger_path(self) -> Path:
        """The quota ledger."""
        return self.services.library.ledger(self.account)

    def job(self, source: str, number: int = 0, report_id: str | None = None, **changes: Any) -> ItemJob:
        """A job for one of the catalogue's reports; every call gives another item."""
        self._serial += 1
        entry = entry_of(reports()[number], report_id or f"HB20261130{self._serial:05}")
        run_id = self.services.run_id
        facts: dict[str, Any] = {
            "index": self._serial,
            "item_id": item_id(run_id, entry.report_id, source),
            "run_id": run_id,
            "source": source,
            "lane": LANE_OF[source],
            "entry": entry,
            "final_path": final_relative_path(
                entry.date, entry.institution, entry.title, entry.report_id, root_length=60
            ),
        }
        return ItemJob(**{**facts, **changes})


def tables() -> Tables:
    """The contract as compiled."""
    return Tables.default()


class UnsyncedDisk(OsFileSystem):
    """The real disk, where fsync costs nothing: no power is cut here."""

    def fsync(self, descriptor: int) -> None:
        """Nothing."""

    def fsync_dir(self, path: Path) -> None:
        """Nothing."""


@contextmanager
def world(
    root: Path,
    *,
    run_id: str | None = None,
    clock: Clock | None = None,
    contract: Tables | None = None,
    file_system: FileSystem | None = None,
    limit: int = 100_000,
    deadline_s: float = 3600.0,
    steps: tuple[str, ...] = (),
) -> Iterator[World]:
    """Open (or make) a library at `root` for one run."""
    clock = clock or SetClock()
    with ExitStack() as stack:
        durable = Durable(file_system or UnsyncedDisk(), clock, frozenset({*STEPS, *steps}))
        library, locks = Library(root), Locks(durable, clock)
        for folder in (root, library.runs, library.reports, library.ledger_folder("props")):
            folder.mkdir(parents=True, exist_ok=True)
        ledger = stack.enter_context(
            Ledger.open(
                library.ledger("props"), "props", durable=durable, locks=locks, clock=clock,
                automaton=Automaton(AUTOMATON),
            )
        )  # fmt: skip
        task = attrs.evolve(Task.embedded(root), account="props")
        services = Services(
            run_id=run_id or new_run_id(clock.now()),
            tables=contract or tables(),
            clock=clock,
            deadline=Deadline(clock, deadline_s, GUARD_RAILS["closing_reserve_s"]),
            durable=durable,
            library=library,
            manifest=Manifest(library.manifest, durable, locks),
            task=task,
            ledger=ledger,
            quota_limit=limit,
            pace=Pace(),
            pages_are_exact=True,
            log=quiet_log(),
        )
        services.day = services.calendar.day(clock.now())
        services.started_at = services.stamp()
        opened = World(root, services, clock)
        try:
            yield opened
        finally:
            opened.let_go()


def quiet_log() -> logging.Logger:
    """A log nobody reads: what goes wrong on purpose is not news."""
    log = logging.getLogger("hibor.tests.props")
    log.propagate = False
    if not log.handlers:
        log.addHandler(logging.NullHandler())
    return log
