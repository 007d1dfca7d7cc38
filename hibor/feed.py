"""The app's list as catalogue entries, newest first, screen by screen (design 6 "Use in the collector").

A page is the rows newly visible after one swipe; the driver proves the overlap. The list is read to the horizon, to
its end, or until the budget is used up; what was read is returned in any case.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date, timedelta

import attrs

from hibor.catalogue import CatalogueEntry
from hibor.clock import Clock
from hibor.device.errors import DeviceError
from hibor.device.navigate import App
from hibor.device.reading import ListRow


@attrs.define
class FeedReading:
    """What was read: entries newest first, screens, and why the reading is incomplete (None when it is complete)."""

    entries: list[CatalogueEntry] = attrs.field(factory=list)
    screens: int = 0
    incomplete: str | None = None


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


def read_feed(app: App, clock: Clock, *, since_days: int, today: date, budget_s: float) -> FeedReading:
    """Read the list from its top. Raises DeviceError when not even the first screen can be read."""
    reading = FeedReading()
    begun_s = clock.monotonic_s()
    oldest = today - timedelta(days=since_days)
    seen: set[str] = set()
    rows: Sequence[ListRow] = app.to_list_top().rows
    while True:
        reading.screens += 1
        page = [entry for row in rows if _is_entry(row) and (entry := entry_of(row)) is not None]
        for entry in page:
            if entry.report_id not in seen:
                seen.add(entry.report_id)
                reading.entries.append(entry)
        if page and all(_older(entry, oldest) for entry in page):
            return reading
        if clock.monotonic_s() - begun_s >= budget_s:
            reading.incomplete = f"the budget of {budget_s:.0f} s is used up"
            return reading
        try:
            following = app.next_screen()
        except DeviceError as error:
            reading.incomplete = error.detail
            return reading
        if following.end and not following.new_rows:
            return reading
        rows = following.new_rows


def _is_entry(row: ListRow) -> bool:
    return row.kind == "report" and not row.incomplete


def _older(entry: CatalogueEntry, oldest: date) -> bool:
    return entry.date is not None and date.fromisoformat(entry.date) < oldest
