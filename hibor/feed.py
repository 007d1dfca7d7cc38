"""The app's list as an incremental discovery (design 6 "Use in the collector").

1. A page is the rows newly visible after one swipe. The driver proves that a row is on both screens, so every page is
   contiguous and nothing is read again by scrolling up, which at the top would refresh the list.
2. The list is read to a horizon: a screen whose every report is older is the last page. A horizon deeper than any that
   was ever read to its end is scanned without stopping at known pages.
3. A budget bounds the scan; when it is used up, or the link fails after the first screen, the scan is interrupted: the
   host keeps the debt and the frontier, and the next scan jumps over what is proven.
4. Every report becomes a catalogue row, whatever a task filters for, so that page hits never depend on a filter.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from datetime import date, timedelta
from pathlib import Path
from typing import Any, Final

import attrs

from hibor.catalogue import CatalogueEntry
from hibor.clock import Clock
from hibor.device.errors import DeviceError
from hibor.device.navigate import App
from hibor.device.reading import ListRow
from hibor.discovery import DiscoveryHandler, Frontier, Page, ScanReport
from hibor.hosts.local import LocalHost

SCAN_TASK: Final = "app-list"
ENTRY_TASK: Final = "catalogue"
HORIZON_TASK: Final = "horizon"
_MOST_LOOKS_TO_FRONTIER: Final = 8


@attrs.define(kw_only=True)
class Scan:
    """One reading of the list: its bounds, and what it has read so far, newest first."""

    app: App
    clock: Clock
    oldest: date | None
    budget_s: float
    begun_s: float
    begun_at: str
    rows_read: list[CatalogueEntry] = attrs.field(factory=list)
    screens: int = 0
    interrupted: str | None = None
    failure: str | None = None
    vanished: list[str] = attrs.field(factory=list)
    report: ScanReport | None = None
    _jumped: Sequence[ListRow] | None = None

    def page(self, number: int) -> Page:
        """The next page of the walk. Raises DeviceError when not even the first screen can be read."""
        if number == 1:
            return self._as_page(self.app.to_list_top().rows, end=False)
        if self._jumped is not None:
            rows, self._jumped = self._jumped, None
            return self._as_page(rows, end=False)
        if self.clock.monotonic_s() - self.begun_s >= self.budget_s:
            return self._interrupt(f"the budget of {self.budget_s:.0f} s is used up")
        try:
            following = self.app.next_screen()
        except DeviceError as error:
            self.failure = error.failure
            return self._interrupt(error.detail)
        return self._as_page(following.new_rows, end=following.end)

    def _interrupt(self, why: str) -> Page:
        self.interrupted = why
        return Page((), contiguous=True, interrupted=True)

    def _as_page(self, rows: Sequence[ListRow], *, end: bool) -> Page:
        self.screens += 1
        entries = [
            entry
            for row in rows
            if row.kind == "report" and not row.incomplete and (entry := entry_of(row)) is not None
        ]
        known = {entry.report_id for entry in self.rows_read}
        self.rows_read.extend(entry for entry in entries if entry.report_id not in known)
        return Page(entries, last=end or self._all_older(entries), contiguous=True)

    def _all_older(self, entries: Sequence[CatalogueEntry]) -> bool:
        """A whole screen beyond the horizon. An undated report is beyond nothing."""
        oldest = self.oldest
        if oldest is None or not entries:
            return False
        return all(entry.date is not None and date.fromisoformat(entry.date) < oldest for entry in entries)

    def jump(self, page: int, frontier: Frontier) -> int | None:
        """Swipe on to the frontier of an earlier scan, looking only where it should be; None to walk there.

        Sound because a row of the frontier is on the screen the jump ends with.
        """
        ids = set(frontier.ids)
        self.app.swipe_on(max(0, frontier.page - page - 1))
        for _ in range(_MOST_LOOKS_TO_FRONTIER):
            screen = self.app.list_screen()
            self.screens += 1
            if ids & {row.report_id for row in screen.entries()}:
                self._jumped = screen.rows
                return page + 1
            if self.clock.monotonic_s() - self.begun_s >= self.budget_s:
                break
            self.app.swipe_on(1)
        self.interrupted = "the place an earlier scan had reached was not found again"
        self.budget_s = 0.0  # what comes next on the screen is not joined to what was read
        return None

    def key_of(self, entry: CatalogueEntry) -> str:
        """Sort key: day, then the later scan first, then the list's own order."""
        place = next((n for n, one in enumerate(self.rows_read) if one.report_id == entry.report_id), 0)
        day = entry.date or self.begun_at[:10]
        return f"{day}|{self.begun_at}|{999_999 - place:06}"


_SCAN: ContextVar[Scan] = ContextVar("hibor_scan")


def fetch_page(_job: Any, _ctx: Any, number: int) -> Page:
    """`fetch_func` of the collector's discovery."""
    return _SCAN.get().page(number)


def id_of(entry: CatalogueEntry) -> str:
    """`id_func`: the report id."""
    return entry.report_id


def keep_entry(_job: Any, ctx: Any, entry: CatalogueEntry, content_id: str) -> None:
    """`process_item_func`: every report is a catalogue row."""
    ctx.record(ENTRY_TASK, content_id, entry.to_dict(), sort_key=_SCAN.get().key_of(entry))


def skip_known(_job: Any, _ctx: Any, page: int, frontier: Frontier) -> int | None:
    """`skip_func`: over the stretch an earlier scan proved gapless."""
    return _SCAN.get().jump(page, frontier)


def note_vanished(_job: Any, ctx: Any, content_ids: list[str]) -> None:
    """`on_missing`: reports the app does not list any more."""
    _SCAN.get().vanished.extend(content_ids)
    ctx.vanish(ENTRY_TASK, content_ids)


def read_list(job: Any, ctx: Any) -> bool:
    """The host's handler: one scan, and the horizon it proved."""
    scan = _SCAN.get()
    handler = DiscoveryHandler(
        fetch_page,
        id_of,
        keep_entry,
        ENTRY_TASK,
        on_missing=note_vanished if scan.oldest is None else None,
        confirm_missing=True,
        skip_func=skip_known,
        stop_after=2,
        resume=True,
        scan_key=scan_key(job.payload["route"]),
    )
    scan.report = handler.scan(job, ctx, dry_run=job.payload["dry_run"])
    read_to_end = scan.report.complete and scan.report.ended in ("last_page", "empty_page")
    if read_to_end and not job.payload["dry_run"]:
        oldest = "0001-01-01" if scan.oldest is None else scan.oldest.isoformat()
        ctx.record(HORIZON_TASK, job.payload["route"], {"oldest": oldest})
    return True


@attrs.frozen
class FeedReading:
    """What is known of the list now: entries newest first, screens read, why it is incomplete (None: complete).
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

    `since_days` None reads to the end of the list, without stopping at known pages, and reports what vanished.
    Raises DeviceError when not even the first screen can be read; HostError when the catalogue is locked.
    """
    oldest = None if since_days is None else today - timedelta(days=since_days)
    scan = Scan(
        app=app,
        clock=clock,
        oldest=oldest,
        budget_s=budget_s,
        begun_s=clock.monotonic_s(),
        begun_at=clock.now().isoformat(timespec="milliseconds"),
    )
    with LocalHost(catalogue, clock=clock, max_attempts=1) as host, _current(scan):
        host.register_handler(SCAN_TASK, read_list)
        payload: dict[str, Any] = {"route": app.route.name, "dry_run": dry_run}
        if oldest is None or not (_owed(host, app.route.name) or _proven(host, app.route.name, oldest)):
            payload["scan_mode"] = "full"
        if max_pages is not None:
            payload["max_pages"] = max_pages
        host.run_job(SCAN_TASK, app.route.name, payload)
        assert scan.report is not None
        entries = tuple(_merged(scan, host, oldest))
        return FeedReading(entries, scan.screens, _why(scan), tuple(scan.vanished), scan.report, scan.failure)


def _why(scan: Scan) -> str | None:
    assert scan.report is not None
    if scan.report.complete:
        return None
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
    """True while an earlier scan has not come to its end: known pages do not end the next one, and its frontier
    says where to go on."""
    return scan_key(route) in host.debts()


def _proven(host: LocalHost, route: str, oldest: date) -> bool:
    """True when the list was read to this horizon, or deeper, once before."""
    row = host.entry(f"{HORIZON_TASK}::{route}")
    return row is not None and str(row.entry["oldest"]) <= oldest.isoformat()


def _merged(scan: Scan, host: LocalHost, oldest: date | None) -> Iterator[CatalogueEntry]:
    """What this scan read, in the list's order, then the rest of the catalogue within the horizon."""
    seen = set()
    for entry in scan.rows_read:
        seen.add(entry.report_id)
        yield entry
    since = None if oldest is None else oldest.isoformat()
    for row in host.entries(ENTRY_TASK, since_sort_key=since, include_vanished=False):
        entry = CatalogueEntry.from_dict(row.entry)
        if entry.report_id not in seen:
            yield entry


def entry_of(row: ListRow) -> CatalogueEntry | None:
    """The catalogue entry of a row, None when the row has no identity or no title."""
    facts = row.facts
    if facts.report_id is None or facts.title is None:
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
