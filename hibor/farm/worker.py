"""The one worker of a phone: each job is one report, collected by a run of its own (design 6 "Hosts",
farm).

1. A job runs the collector as the main job does, for the one report: preflight, recovery of everything
   earlier runs left, then both lanes. A job that was cut off therefore begins with recovery, and never taps
   after a TRIGGER_INTENT.
2. What a report itself cannot be had for ends its job. What stops the phone or its account (quota used up,
   a wall, the breaker, no phone, an item left open) ends the worker: the job stays where it is, for the
   next worker of this phone.
3. Breaker and pace between two triggers are the worker's, not the single run's.
4. One worker a phone: a kernel lock by the phone's name, and the library's lock during each run.
"""

from __future__ import annotations

import hashlib
import logging
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any, Final

import attrs
import filelock

from fsm import Tables, code_class
from generated.governance import GUARD_RAILS
from hibor.clock import SystemClock
from hibor.collect.breaker import CircuitBreaker
from hibor.collect.collector import Collector, Orders
from hibor.collect.deadline import Deadline
from hibor.collect.interrupts import Interrupts
from hibor.collect.services import Pacer
from hibor.collect.session import close_run
from hibor.collect.station import Station
from hibor.collect.stops import RunStop
from hibor.farm.planning import PAID
from hibor.hosts.dbos_host import DbosHost, FatalJobError
from hibor.items.catalogue import CatalogueEntry
from hibor.people.progress import Progress
from hibor.task import Select, Task

_ANY_AGE_DAYS: Final = timedelta(days=36_500).days
_TABLES: Final = Tables.default()
_OWN_WORDS: Final = (
    "foreign_final",
    "likely_duplicate",
    "already_paid",
    "detail_mismatch",
    "cursor_lost",
    "final_conflict",
    "trigger_refused",
)
"""Failures that are about one report, whatever the phone does next."""
_OWN_CODES: Final = frozenset(code for word in _OWN_WORDS for code in _TABLES.failure_codes[word].values())
_UNEXPECTED: Final = frozenset(_TABLES.failure_codes["unexpected"].values())


class LeftForLater(BaseException):
    """The job is left as it is for the phone's next worker. No Exception: the engine would record a
    failure.
    """


@attrs.frozen
class Ended:
    """Why a worker works no more: a code or word, a sentence, an exit code."""

    code: str
    detail: str
    exit_code: int


@attrs.define(kw_only=True)
class Worker:
    """Collects the reports of one phone's queue, one after the other."""

    task: Task
    station: Station
    progress: Progress
    interrupts: Interrupts
    ended: Ended | None = None
    delivered: list[str] = attrs.field(factory=list)
    refused: dict[str, str] = attrs.field(factory=dict)
    breaker: CircuitBreaker = attrs.field(factory=CircuitBreaker)
    pacer: Pacer = attrs.field(init=False)
    _deadline: Deadline | None = None
    _log: logging.Logger = attrs.field(factory=lambda: logging.getLogger("hibor"))

    def __attrs_post_init__(self) -> None:
        spacing_s = max(self.task.quota.spacing_s, GUARD_RAILS["spacing_min_s"])
        self.pacer = Pacer(self.station.clock, spacing_s)

    @property
    def interrupted(self) -> bool:
        """Whether a signal asked for the end."""
        return self._deadline is not None and self._deadline.interrupted

    def collect(self, job: Any, _ctx: Any) -> bool:
        """The handler of a report's job. Raises FatalJobError for what the report cannot be had for,
        LeftForLater when the worker ends.
        """
        if self.ended is not None or self.interrupted:
            raise LeftForLater
        entry = CatalogueEntry.from_dict(job.payload["entry"])
        collector = self._run(entry)
        try:
            with ExitStack() as held:
                collector.run(held)
                document = close_run(collector, self.station)
        except Exception as error:
            # A defect is nobody's report: what was begun is recovered by the next worker.
            self._log.error("the run for %s failed", entry.report_id, exc_info=error)
            self._end(RunStop("unexpected", f"{type(error).__name__}: {error}"), 0)
            raise LeftForLater from error
        return self._settle(entry.report_id, collector, document)

    def _run(self, entry: CatalogueEntry) -> Collector:
        task = attrs.evolve(self.task, count=1, min_count=0, select=Select(since_days=_ANY_AGE_DAYS))
        self._deadline = Deadline(self.station.clock, task.deadline_s, GUARD_RAILS["closing_reserve_s"])
        self.progress.deadline = self._deadline
        self.interrupts.guard(self._deadline, self.progress)
        orders = Orders(entries=(entry,))
        return Collector(
            task, self.station, self.progress, self._deadline, orders, breaker=self.breaker, pacer=self.pacer
        )

    def _settle(self, report_id: str, collector: Collector, document: dict[str, Any]) -> bool:
        """What the run means for the job and for the worker."""
        results = [*collector.recovered, *(one.result for one in collector.results)]
        mine = [result for result in results if result.item["report_id"] == report_id]
        delivered = any(result.item["status"] in ("SUCCESS", "DUPLICATE") for result in mine)
        stop, exit_code = self._stop_of(collector, report_id), int(document["exit_code"])
        if stop is not None:
            self._end(stop, exit_code)
        if delivered:
            self.delivered.append(report_id)
            return True
        if stop is not None:
            raise LeftForLater
        reason = _reason(mine, collector)
        self.refused[report_id] = reason
        raise FatalJobError(reason)

    def _end(self, stop: RunStop, exit_code: int) -> None:
        interrupted = self.interrupted
        self.ended = Ended(stop.code, stop.detail, exit_code or (130 if interrupted else 1))

    def _stop_of(self, collector: Collector, report_id: str) -> RunStop | None:
        """Why the worker ends after this run, None when it goes on."""
        document_stop = collector.stop
        if document_stop is not None:
            return document_stop
        if self.interrupted:
            return RunStop("INTERRUPTED", "ended by a signal")
        results = [*collector.recovered, *(one.result for one in collector.results)]
        for result in results:
            if result.uncertain or result.contract_error or not result.closed:
                return RunStop(result.code, result.detail or "an item is left open")
        if collector.broken:
            return RunStop("disk_uncertain", collector.broken[0].why)
        if self.breaker.open:
            return RunStop(str(self.breaker.reason), "no further download is started by this worker")
        for one in collector.results:
            result = one.result
            missing = result.item["report_id"] == report_id and not one.delivered
            if missing and not _is_own(result.code):
                return RunStop(result.code, result.detail or result.code)
        return None

    def wait(self, host: DbosHost, *, watch: bool, poll_s: float) -> None:
        """Until the queue is empty (with `watch`: for ever), a signal came, or the worker ended."""
        clock = SystemClock()
        while self.ended is None and not (self.interrupted and not host.active()):
            if not watch and not host.active():
                return
            clock.sleep(poll_s)


def _is_own(code: str) -> bool:
    """Whether a code is about the report and not about the phone or the account."""
    return code in _OWN_CODES or (code_class(code) == "FAIL" and code not in _UNEXPECTED)


def _reason(mine: list[Any], collector: Collector) -> str:
    """Why a report was not had; begins with `PAID` when it was, or may have been, paid for."""
    if mine:
        last = mine[-1]
        paid = any(result.item["quota_state"] not in ("NONE", "RELEASED") for result in mine)
        return f"{PAID if paid else ''}{last.code}: {last.detail or last.code}"
    if collector.duplicates:
        return (
            f"{_TABLES.failure_codes['likely_duplicate'][_TABLES.states[0]]}: {collector.duplicates[0].path}"
        )
    return "nothing was opened for it"


@contextmanager
def phone_lock(phone: str, farm: str) -> Iterator[None]:
    """One worker a phone on this machine, which is where the phone is. Raises RunStop BUSY.

    `farm` is empty for a real phone, whose serial names it everywhere; the name of a simulated one means
    something in its own farm only.
    """
    name = hashlib.sha256(f"{phone}\n{farm}".encode()).hexdigest()[:16]
    lock = filelock.FileLock(Path(tempfile.gettempdir()) / f"hibor-farm-{name}.lock")
    try:
        lock.acquire(timeout=0)
    except filelock.Timeout:
        raise RunStop("BUSY", "another worker of this phone runs on this machine") from None
    try:
        yield
    finally:
        lock.release()
