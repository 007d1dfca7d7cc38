"""What a run is doing right now, as facts a view can draw at any moment.

Rules of this file:

* Writers (both lanes, the collector) only set facts under one short lock and never write to a terminal: a
  console that stands still cannot slow a run.
* Nothing is decided by what stands here; the documents and books of the run are elsewhere.
* `interrupted` is set from a signal handler and therefore without the lock.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterable
from typing import Any, Final

import attrs

from hibor.collect.deadline import Deadline
from hibor.package.names import writable

KEPT_EVENTS: Final = 12


@attrs.define(kw_only=True)
class Row:
    """One report of the run: how far it has come, and how it ended. Stages are indices of the contract's
    states, 0 to 10; `since_s` is when the current one began, on the run's window.
    """

    report_id: str
    title: str
    source: str
    number: int | None = None
    stage: int | None = None
    passed: set[int] = attrs.field(factory=set)
    since_s: float = 0.0
    pays: bool = False  # a reservation of this run stands, whatever became of it
    status: str | None = None
    code: str | None = None
    recovered: bool = False


@attrs.frozen
class Action:
    """What the phone is asked to do: a key below `live.doing`, the report's title, and since when."""

    key: str
    title: str = ""
    since_s: float = 0.0


@attrs.define(kw_only=True)
class Board:
    """The facts of one run, for one view. `last_stage` is the index of the state an item closes in."""

    last_stage: int
    deadline: Deadline | None = None
    phone: tuple[str, str] | None = None  # model and app version
    simulated: bool = False
    quota_before: int | None = None
    turn_left_s: Callable[[], float] = lambda: 0.0
    rows: dict[str, Row] = attrs.field(factory=dict)
    action: Action | None = None
    events: deque[str] = attrs.field(factory=lambda: deque(maxlen=KEPT_EVENTS))
    warnings: list[str] = attrs.field(factory=list)
    interrupted: bool = False
    ended: bool = False
    ended_s: float | None = None
    ended_left_s: float | None = None
    _lock: threading.Lock = attrs.field(factory=threading.Lock)

    def elapsed_s(self) -> float:
        """Seconds of the window that have passed; those at the end once the run is over."""
        if self.ended_s is not None:
            return self.ended_s
        return 0.0 if self.deadline is None else self.deadline.elapsed_s()

    def left_s(self) -> float:
        """Seconds of phone work that are left, as the lines say them; those at the end once it is over."""
        if self.ended_left_s is not None:
            return self.ended_left_s
        return 0.0 if self.deadline is None else self.deadline.remaining_s()

    def chosen(self, choices: Iterable[tuple[str, str, str]]) -> None:
        """(report id, title, source) of every selected report, in the order they are to be opened."""
        with self._lock:
            for report_id, title, source in choices:
                self.rows.setdefault(report_id, Row(report_id=report_id, title=plain(title), source=source))

    def doing(self, key: str) -> None:
        """The phone is at something that belongs to no item."""
        with self._lock:
            self.action = Action(key, since_s=self.elapsed_s())

    def item_at(self, item: Any) -> None:
        """An item (`ItemRun`) begins a piece of work, or has ended."""
        job, machine, result = item.job, item.machine, item.result
        states = item.services.tables.states
        with self._lock:
            row = self.rows.get(job.entry.report_id)
            if row is None or row.number != job.index or row.recovered != item.recovering:
                row = Row(report_id=job.entry.report_id, title=plain(job.entry.title), source=job.source)
                row.number, row.recovered = job.index, item.recovering
                self.rows[job.entry.report_id] = row
            stage = states.index(result.item["state"] if result is not None else machine.state)
            if stage != row.stage:
                row.stage, row.since_s = stage, self.elapsed_s()
                row.passed.add(stage)
            row.pays = not item.recovering and _pays(item)
            if result is not None:
                row.status, row.code = result.item["status"], result.item["stop_code"]
            elif not item.needs_host and job.source != "PROJECT_REUSE":
                self.action = Action(machine.work(item.recovering), row.title, self.elapsed_s())

    def event(self, line: str, *, warning: bool = False) -> None:
        """Something happened that a person may want to read."""
        with self._lock:
            (self.warnings if warning else self.events).append(line)

    def close(self) -> None:
        """The run is over; the facts stand still."""
        self.ended_s, self.ended_left_s = self.elapsed_s(), self.left_s()
        self.ended, self.action = True, None

    def seen(self) -> Board:
        """A copy to draw from, taken at one moment."""
        with self._lock:
            rows = {key: attrs.evolve(row, passed=set(row.passed)) for key, row in self.rows.items()}
            return attrs.evolve(
                self,
                rows=rows,
                events=deque(self.events),
                warnings=list(self.warnings),
                lock=threading.Lock(),
            )

    @property
    def quota_left(self) -> int | None:
        """Downloads that may still be used today, None before that is known."""
        if self.quota_before is None:
            return None
        return self.quota_before - sum(row.pays for row in self.rows.values())


def plain(title: str) -> str:
    """A title that moves no cursor and turns no line round: an app's titles hold whatever somebody typed."""
    return "".join(map(writable, " ".join(title.split())))


def _pays(item: Any) -> bool:
    """Whether a download of this item counts as used: it is reserved and neither released nor to be."""
    draft, result = item.draft, item.result
    given_back = result is not None and result.closed and draft.intent is None
    return draft.reservation is not None and draft.quota_state != "RELEASED" and not given_back
