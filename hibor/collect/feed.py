"""The app's list as an incremental discovery (design 6 "Use in the collector").

1. A page is what came into sight with one swipe. The driver proves that a row is on both screens, so every
   page is contiguous and nothing is read again by scrolling up, which at the top would refresh the list.
2. The list is read to a horizon: a screen whose every report is older is the last page. A horizon deeper
   than any that was ever read to its end is scanned without stopping at known pages.
3. A list that jumped away is read again from its top: rows read before cost nothing but the swipes.
4. A budget bounds the scan; when it is used up, or the link fails after the first screen, the scan is
   interrupted: the host keeps the debt and the frontier, and the next scan jumps over what is proven.
5. Every report becomes a catalogue row, whatever a task filters for, so that page hits never depend on a
   filter.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from datetime import date, timedelta
from pathlib import Path
from typing import Any, Final

import attrs

from hibor.clock import Clock
from hibor.collect.stops import RunStop, unusable
from hibor.device.errors import DeviceError
from hibor.device.navigate import App
from hibor.device.reading import ListRow, ListScreen
from hibor.discovery import DiscoveryHandler, Frontier, Page, ScanEnd, ScanReport, sanitize_content_id
from hibor.hosts.local import LocalHost
from hibor.hosts.local_reading import CatalogueEntry as CatalogueRow
from hibor.hosts.local_store import HostError, HostLockedError
from hibor.items.catalogue import CatalogueEntry, ListOrder

SCAN_TASK: Final = "app-list"
ENTRY_TASK: Final = "catalogue"
HORIZON_TASK: Final = "horizon"
REACHED_TASK: Final = "reached"
_LOOKS_FOR_FRONTIER: Final = 8
_MOST_RESTARTS: Final = 2
_EDGE_PX: Final = 2
_CATALOGUE_ANEW: Final = "delete it, and the next run reads the app's list anew"


@attrs.frozen
class UnreadableRow:
    """A report's row that is whole on the screen and lacks what every row must have."""

    what: str


@attrs.define(kw_only=True)
class Scan:
    """One reading of the list: its bounds, and what it has read so far, in the order it was read.

    `known` looks a report up in the catalogue. `reached` is how many screens down an earlier scan had come.
    `kept` is
    the frontier that stays because the way to it was cut off; `corrected` are known reports whose rows are
    written anew.
    """

    app: App
    clock: Clock
    oldest: date | None
    budget_s: float
    order: ListOrder
    known: Callable[[str], CatalogueRow | None]
    reached: int = 0
    read: dict[str, CatalogueEntry] = attrs.field(factory=dict)
    keys: dict[str, str] = attrs.field(factory=dict)
    screens: int = 0
    depth: int = 0
    interrupted: str | None = None
    failure: str | None = None
    kept: Frontier | None = None
    corrected: set[str] = attrs.field(factory=set)
    vanished: list[str] = attrs.field(factory=list)
    report: ScanReport | None = None
    _begun_s: float = attrs.field(
        default=attrs.Factory(lambda self: self.clock.monotonic_s(), takes_self=True)
    )
    _new: int = 0
    _restarts: int = 0
    _jumped: bool = False
    _landed: ListScreen | None = None

    # -- pages -----------------------------------------------------------------------------------------------

    def page(self, number: int) -> Page:
        """The next page of the walk. Raises DeviceError when not even the first screen can be read."""
        if number == 1:
            return self._top()
        if self.interrupted is not None:
            return self._interrupt(self.interrupted)
        if self._landed is not None:
            screen, self._landed = self._landed, None
            return self._as_page(screen, screen.rows, again=True)
        if self._budget_used:
            return self._interrupt(f"the budget of {self.budget_s:.0f} s is used up")
        try:
            following = self.app.next_screen()
        except DeviceError as error:
            return self._lost(error)
        rows = (*following.before.rows, *following.screen.rows)
        return self._as_page(following.screen, rows, end=following.end)

    @property
    def _budget_used(self) -> bool:
        return self.clock.monotonic_s() - self._begun_s >= self.budget_s

    def _top(self) -> Page:
        screen = self.app.to_list_top()
        self.depth = 0
        return self._as_page(screen, screen.rows)

    def _lost(self, error: DeviceError) -> Page:
        """The list moved away under the reader, or did not load on: once more from its top, where that is
        near.
        """
        if error.failure == "cursor_lost" and not self._jumped and self._restarts < _MOST_RESTARTS:
            self._restarts += 1
            try:
                return self._top()
            except DeviceError as still:
                error = still
        self.failure = error.failure
        return self._interrupt(error.detail)

    def _interrupt(self, why: str) -> Page:
        self.interrupted = why
        return Page((), contiguous=True, interrupted=True)

    def _as_page(
        self, screen: ListScreen, rows: Sequence[ListRow], *, end: bool = False, again: bool = False
    ) -> Page:
        """What of `rows` this scan has not read yet; with `again` also what it has."""
        self.screens += 1
        self.depth += 1
        items: list[CatalogueEntry | UnreadableRow] = []
        for row in rows:
            entry = entry_of(row)
            if entry is not None and (self._take(entry) or again):
                items.append(entry)
        items.extend(
            UnreadableRow(row.facts.title or row.facts.report_id or "?")
            for row in screen.rows
            if row.kind == "report" and entry_of(row) is None and _is_inside(row, screen)
        )
        return Page(items, last=end or self._all_older(screen), contiguous=True)

    def _take(self, entry: CatalogueEntry) -> bool:
        """Note a report; False when this scan had it already, and may only learn more of it."""
        report_id = entry.report_id
        if report_id in self.read:
            self._learn(entry, self.read[report_id])
            return False
        row = self.known(report_id)
        if row is None:
            self.keys[report_id] = self.order.next_key(entry.date)
            self.read[report_id] = entry
            self._new += 1
            return True
        self.keys[report_id] = row.sort_key
        self.order.passed(row.sort_key)
        self._learn(entry, CatalogueEntry.from_dict(row.entry))
        if row.vanished_at is not None:
            self.corrected.add(report_id)
        return True

    def _learn(self, entry: CatalogueEntry, before: CatalogueEntry) -> None:
        """A row that was partly out of sight may have shown less than the report has."""
        self.read[entry.report_id] = before.filled_from(entry)
        if self.read[entry.report_id] != before:
            self.corrected.add(entry.report_id)

    def _all_older(self, screen: ListScreen) -> bool:
        """A whole screen beyond the horizon. An undated report is beyond nothing."""
        oldest = self.oldest
        days = [row.facts.date for row in screen.entries()]
        if oldest is None or not days:
            return False
        return all(day is not None and date.fromisoformat(day) < oldest for day in days)

    # -- the jump over what is proven ------------------------------------------------------------------------

    def jump(self, page: int, frontier: Frontier) -> int | None:
        """Swipe on to the frontier of an earlier scan, looking only where it should be; None to walk there.

        Sound because a row of the frontier is on the screen the jump ends with. What stops the jump half-way
        ends the
        scan, and the frontier stays; a frontier that is not in the list any more is given up.
        """
        ids = set(frontier.ids)
        if any(sanitize_content_id(report_id) in ids for report_id in self.read):
            return None
        self._jumped = True
        try:
            screen = self._seek(ids)
        except DeviceError as error:
            self.failure = error.failure
            self._give_up_jump(error.detail, frontier)
            return None
        if screen is not None:
            self._landed = screen
            self.depth = max(self.depth, self._expected_depth) - 1
            return max(page + 1, frontier.page)
        if self._budget_used:
            self._give_up_jump("the budget was used up on the way to where the last scan ended", frontier)
            return None
        self._jumped = False
        self._return_to_top(frontier)
        return None

    def _return_to_top(self, frontier: Frontier) -> None:
        try:
            self._landed, self.depth = self.app.to_list_top(), 0
        except DeviceError as error:
            self.failure = error.failure
            self._give_up_jump(error.detail, frontier)

    def _give_up_jump(self, why: str, frontier: Frontier) -> None:
        self.interrupted, self.kept = why, frontier

    @property
    def _expected_depth(self) -> int:
        """How deep the frontier should be by now: what is new since then stands above it."""
        return self.reached + self._new // max(1, len(self.read) // max(1, self.depth))

    def _seek(self, ids: set[str]) -> ListScreen | None:
        """The screen that shows one of `ids`, None when it is not where it should be."""
        lowest = min((key for key in map(self._key, ids) if key is not None), default="")
        ahead = max(0, self._expected_depth - self.depth - 1)
        self.app.swipe_on(ahead)
        for _ in range(_LOOKS_FOR_FRONTIER + ahead // 4):
            screen = self.app.list_screen()
            self.screens += 1
            if any(sanitize_content_id(row.report_id or "") in ids for row in screen.entries()):
                return screen
            if self._budget_used:
                return None
            self.app.swipe_on(-1 if self._is_below(screen, lowest) else 1)
        return None

    def _is_below(self, screen: ListScreen, lowest: str) -> bool:
        """Whether a screen is past the place with the key `lowest`: above it every report is known."""
        keys = [self._key(row.report_id or "") for row in screen.entries()]
        return None in keys or max((key for key in keys if key is not None), default=lowest) < lowest

    def _key(self, report_id: str) -> str | None:
        """The sort key of a report that is read or catalogued."""
        row = None if report_id in self.keys else self.known(report_id)
        return self.keys.get(report_id) if row is None else row.sort_key


def _is_inside(row: ListRow, screen: ListScreen) -> bool:
    """Whether a row cannot be cut off: it touches neither edge of the list."""
    frame = screen.container
    return row.visible.top > frame.top + _EDGE_PX and row.visible.bottom < frame.bottom - _EDGE_PX


_SCAN: ContextVar[Scan] = ContextVar("hibor_scan")


def fetch_page(_job: Any, _ctx: Any, number: int) -> Page:
    """`fetch_func` of the collector's discovery."""
    return _SCAN.get().page(number)


def id_of(item: CatalogueEntry | UnreadableRow) -> str:
    """`id_func`: the report id. Raises ValueError for a row without one."""
    if isinstance(item, UnreadableRow):
        raise ValueError(f"a row of the list cannot be read: {item.what}")
    return item.report_id


def keep_entry(_job: Any, ctx: Any, entry: CatalogueEntry, content_id: str) -> None:
    """`process_item_func`: every report is a catalogue row."""
    ctx.record(ENTRY_TASK, content_id, entry.to_dict(), sort_key=_SCAN.get().keys[entry.report_id])


def skip_known(_job: Any, _ctx: Any, page: int, frontier: Frontier) -> int | None:
    """`skip_func`: over the stretch an earlier scan proved gapless."""
    return _SCAN.get().jump(page, frontier)


def note_vanished(_job: Any, ctx: Any, content_ids: list[str]) -> None:
    """`on_missing`: reports the app does not list any more."""
    _SCAN.get().vanished.extend(content_ids)
    ctx.vanish(ENTRY_TASK, content_ids)


def scan_handler(scan: Scan, route: str) -> DiscoveryHandler:
    """Discovery with all its additions, for one list route."""
    return DiscoveryHandler(
        fetch_page,
        id_of,
        keep_entry,
        ENTRY_TASK,
        on_missing=note_vanished if scan.oldest is None else None,
        confirm_missing=True,
        skip_func=skip_known,
        stop_after=2,
        resume=True,
        scan_key=scan_key(route),
    )


def read_list(job: Any, ctx: Any) -> bool:
    """The host's handler: one scan, and what it proved: the horizon, or how far it came."""
    scan, route = _SCAN.get(), job.payload["route"]
    scan.report = scan_handler(scan, route).scan(job, ctx)
    if scan.kept is not None:
        ctx.set_scan_frontier(scan_key(route), scan.kept)
    elif not scan.report.complete:
        ctx.record(REACHED_TASK, route, {"screens": scan.depth})
    if scan.report.complete and scan.report.ended in (ScanEnd.LAST_PAGE, ScanEnd.EMPTY_PAGE):
        oldest = "0001-01-01" if scan.oldest is None else scan.oldest.isoformat()
        ctx.record(HORIZON_TASK, route, {"oldest": oldest})
    for report_id in sorted(scan.corrected):
        entry, key = scan.read[report_id], scan.keys[report_id]
        ctx.record(ENTRY_TASK, sanitize_content_id(report_id), entry.to_dict(), sort_key=key)
    return True


@attrs.frozen
class FeedReading:
    """What is known of the list now: entries newest first, screens read, why it is incomplete (None:
    complete).
    `failure` is the failure word where the phone was the reason."""

    entries: tuple[CatalogueEntry, ...]
    screens: int
    incomplete: str | None
    vanished: tuple[str, ...]
    report: ScanReport
    failure: str | None = None


def read_feed(
    app: App,
    clock: Clock,
    catalogue: Path,
    *,
    since_days: int | None,
    today: date,
    budget_s: float,
    dry_run: bool = False,
    max_pages: int | None = None,
) -> FeedReading:
    """Bring the catalogue up to date and say what it holds within the horizon.

    `since_days` None reads to the end of the list, without stopping at known pages, and reports what
    vanished. A dry run changes nothing. Raises DeviceError when not even the first screen can be read,
    RunStop when the catalogue cannot be used.
    """
    oldest = None if since_days is None else today - timedelta(days=since_days)
    route = app.route.name
    with opened_catalogue(catalogue, clock, dry_run) as host:
        reached = host.entry(f"{REACHED_TASK}::{route}")
        scan = Scan(
            app=app,
            clock=clock,
            oldest=oldest,
            budget_s=budget_s,
            order=ListOrder(clock.now(), today.isoformat()),
            known=lambda report_id: host.entry(f"{ENTRY_TASK}::{sanitize_content_id(report_id)}"),
            reached=0 if reached is None else int(reached.entry["screens"]),
        )
        payload: dict[str, Any] = {"route": route}
        if oldest is None or not (_owed(host, route) or _proven(host, route, oldest)):
            payload["scan_mode"] = "full"
        if max_pages is not None:
            payload["max_pages"] = max_pages
        with _current(scan):
            if dry_run:
                scan.report = host.dry_scan(scan_handler(scan, route), payload)
            else:
                host.register_handler(SCAN_TASK, read_list)
                host.run_job(SCAN_TASK, route, payload)
        assert scan.report is not None
        entries = tuple(_merged(scan, host, oldest))
        return FeedReading(entries, scan.screens, _why(scan), tuple(scan.vanished), scan.report, scan.failure)


@contextmanager
def opened_catalogue(catalogue: Path, clock: Clock, dry_run: bool) -> Iterator[LocalHost]:
    """The catalogue; a dry run makes none where there is none. Raises RunStop where it cannot be used."""
    with tempfile.TemporaryDirectory(prefix="hibor-dry-") as folder:
        path = Path(folder) / catalogue.name if dry_run and not os.path.lexists(catalogue) else catalogue
        try:
            with LocalHost(path, clock=clock, max_attempts=1) as host:
                yield host
        except HostLockedError as error:
            raise RunStop("lock_timeout", str(error)) from error
        except HostError as error:
            raise unusable("the catalogue", path, error, now=_CATALOGUE_ANEW) from error


def _why(scan: Scan) -> str | None:
    assert scan.report is not None
    if scan.report.complete:
        return None
    if scan.interrupted is None and scan.report.bad:
        return f"{scan.report.bad} row(s) of the list could not be read"
    return scan.interrupted or f"the scan ended early: {scan.report.ended.value}"


@contextmanager
def _current(scan: Scan) -> Iterator[None]:
    token = _SCAN.set(scan)
    try:
        yield
    finally:
        _SCAN.reset(token)


def scan_key(route: str) -> str:
    """The name debt and frontier of a list route are kept under."""
    return f"{SCAN_TASK}-{route}"


def _owed(host: LocalHost, route: str) -> bool:
    """True while an earlier scan has not come to its end: known pages do not end the next one, and its
    frontier
    says where to go on."""
    return scan_key(route) in host.debts()


def _proven(host: LocalHost, route: str, oldest: date) -> bool:
    """True when the list was read to this horizon, or deeper, once before."""
    row = host.entry(f"{HORIZON_TASK}::{route}")
    return row is not None and str(row.entry["oldest"]) <= oldest.isoformat()


def _merged(scan: Scan, host: LocalHost, oldest: date | None) -> Iterator[CatalogueEntry]:
    """What this scan read and the rest of the catalogue within the horizon, newest first."""
    found = {report_id: (scan.keys[report_id], entry) for report_id, entry in scan.read.items()}
    since = None if oldest is None else oldest.isoformat()
    for row in host.entries(ENTRY_TASK, since_sort_key=since, include_vanished=False):
        entry = CatalogueEntry.from_dict(row.entry)
        found.setdefault(entry.report_id, (row.sort_key, entry))
    for _key, entry in sorted(found.values(), key=lambda pair: pair[0], reverse=True):
        yield entry


def entry_of(row: ListRow) -> CatalogueEntry | None:
    """The catalogue entry of a row; None for one that is no report or lacks what every row must have."""
    facts = row.facts
    if row.kind != "report" or row.incomplete or facts.report_id is None or facts.title is None:
        return None
    return CatalogueEntry(
        report_id=facts.report_id,
        title=facts.title,
        institution=facts.institution,
        date=facts.date,
        analysts=facts.analysts,
        stock_code=facts.stock_code,
        stock_name=facts.stock_name,
        industry=facts.industry,
        report_type=facts.report_type,
        rating=facts.rating,
        page_count_hint=facts.pages,
    )
