"""The moving list: what the server has, and what the app has loaded of it.

Rules: the server's list is newest first and may change at any time; the app pages through it by offset, as
the real one does, so an insert between two pages shows a row twice and a delete hides one (fault F101).
Adverts, notices and pinned rows stand between the reports and are rows of their own. What the app has loaded
moves only when it loads, refreshes or is told of a change; a change above the screen keeps the visible rows
in place.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Literal

import attrs

from hibor.sim.reports import Report, make_catalogue, make_report
from hibor.sim.scenario import FeedSettings
from hibor.sim.state import PHONE_ZONE, Change, PhoneState

RowKind = Literal["report", "advert", "pinned", "notice"]
ROW_HEIGHTS: Mapping[RowKind, int] = {"report": 300, "pinned": 300, "advert": 220, "notice": 150}
FOOTER_HEIGHT = 120
ADVERTS = ("名家私募课堂 限时开放", "Level-2 行情 新客专享", "智能选股工具 免费试用")
FOOTERS = {"more": "正在加载…", "loading": "正在加载…", "failed": "加载失败，点击重试", "end": "没有更多了"}


@attrs.frozen
class Row:
    """One row of the list; `key` is the same whenever the same row is meant."""

    kind: RowKind
    key: str
    report: Report | None = None
    text: str = ""

    @property
    def height(self) -> int:
        """Height in pixels."""
        return ROW_HEIGHTS[self.kind]


class ServerFeed:
    """The list as the server has it now, and every report it ever had."""

    def __init__(self, settings: FeedSettings, state: PhoneState) -> None:
        self._settings = settings
        self._state = state
        first = state.first_start.astimezone(PHONE_ZONE)
        self.original = make_catalogue(settings.seed, first, settings.reports, settings.hostile)
        self._inserted = [self._late_report(change) for change in state.inserted]
        self._by_id = {report.report_id: report for report in (*self.original, *self._inserted)}
        self._ranks = {report.report_id: rank for rank, report in enumerate(self.original, 1)}

    def _late_report(self, change: Change) -> Report:
        return make_report(self._settings.seed, change.number, change.published.astimezone(PHONE_ZONE))

    def report(self, report_id: str) -> Report:
        """A report by id, also one that is no longer listed."""
        return self._by_id[report_id]

    def at_rank(self, rank: int) -> Report:
        """The report that stood at `rank` (1 = newest) when the phone was first started."""
        return self.original[rank - 1]

    def rank(self, report_id: str | None) -> int:
        """The rank at the first start, 0 for a later report or None."""
        return self._ranks.get(report_id or "", 0)

    def reports(self) -> list[Report]:
        """What is listed now, newest first."""
        gone = set(self._state.deleted)
        return [one for one in (*reversed(self._inserted), *self.original) if one.report_id not in gone]

    def insert(self, now: datetime, amount: int) -> None:
        """`amount` new reports on top, published just now."""
        for _ in range(amount):
            number = self._settings.reports + len(self._inserted) + 1
            change = Change(number, now.replace(microsecond=0) - timedelta(seconds=30))
            self._state.inserted.append(change)
            report = self._late_report(change)
            self._inserted.append(report)
            self._by_id[report.report_id] = report

    def delete(self, report_id: str) -> None:
        """Take one report off the list."""
        if report_id not in self._state.deleted:
            self._state.deleted.append(report_id)

    def rows(self) -> list[Row]:
        """The whole list with everything that stands between the reports."""
        listed = self.reports()
        rows = [Row("notice", f"notice:{i}", text=text) for i, text in enumerate(self._settings.notices)]
        for rank in self._settings.pinned:
            if rank <= len(self.original) and self.at_rank(rank).report_id not in self._state.deleted:
                report = self.at_rank(rank)
                rows.append(Row("pinned", f"pinned:{report.report_id}", report))
        every = self._settings.adverts_every
        for place, report in enumerate(listed):
            if every and place and place % every == 0:
                number = place // every - 1
                rows.append(Row("advert", f"advert:{number}", text=ADVERTS[number % len(ADVERTS)]))
            rows.append(Row("report", report.report_id, report))
        return rows


class AppList:
    """What the app has loaded, and how far it is scrolled. `offset` is in pixels from the top."""

    def __init__(self, server: ServerFeed, page_rows: int) -> None:
        self._server = server
        self._page_rows = page_rows
        self.rows: list[Row] = []
        self.offset = 0
        self.status: Literal["more", "loading", "failed", "end"] = "more"
        self.refresh()

    def refresh(self) -> None:
        """Load the first page again and go to the top."""
        self.rows = self._server.rows()[: self._page_rows]
        self.offset = 0
        self.status = "end" if len(self.rows) >= len(self._server.rows()) else "more"

    def load_page(self) -> None:
        """Append the next page by offset: the number of rows loaded so far, whatever moved meanwhile."""
        rows = self._server.rows()
        self.rows += rows[len(self.rows) : len(self.rows) + self._page_rows]
        self.status = "end" if len(self.rows) >= len(rows) else "more"

    def follow_server(self) -> None:
        """Show inserts and deletes in the loaded part at once; the first visible row stays where it is.

        A list that has said that it is loaded to its end stays so.
        """
        anchor, shift = self._first_visible()
        rows = self._server.rows()
        self.rows = rows if self.status == "end" else rows[: max(len(self.rows), self._page_rows)]
        top = 0
        for row in self.rows:
            if anchor is not None and row.key == anchor:
                self.offset = top + shift
                return
            top += row.height

    def _first_visible(self) -> tuple[str | None, int]:
        top = 0
        for row in self.rows:
            if top + row.height > self.offset:
                # At the very top a list shows what is new, it does not scroll away from it.
                return (row.key, self.offset - top) if self.offset > 0 else (None, 0)
            top += row.height
        return None, 0

    def height(self) -> int:
        """Height of everything loaded, with the footer."""
        return sum(row.height for row in self.rows) + FOOTER_HEIGHT

    def scroll(self, distance: int, viewport: int) -> int:
        """Move by `distance` pixels (positive: towards older rows) as far as the list goes; the moved part.
        """
        before = self.offset
        self.offset = max(0, min(self.offset + distance, self.height() - viewport))
        return self.offset - before

    def near_end(self, viewport: int) -> bool:
        """Whether the app would load its next page now."""
        return self.offset + 2 * viewport > self.height()

    def visible(self, viewport: int) -> list[tuple[Row, int]]:
        """Rows at least partly in the viewport, with the top of each relative to the viewport's top."""
        found: list[tuple[Row, int]] = []
        top = -self.offset
        for row in self.rows:
            if top + row.height > 0 and top < viewport:
                found.append((row, top))
            top += row.height
        return found

    def footer_top(self) -> int:
        """Top of the footer relative to the viewport's top."""
        return sum(row.height for row in self.rows) - self.offset
