"""Which reports a run collects, and how (design 1 "Selection").

Newest first, matching the task's filter, at most `count`. A verified library copy is reused before a cached
file,
a cached file before a new download; what reuse is allowed is the task's policy. Pure functions.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import date, timedelta
from typing import Final

import attrs

from fsm import FinalFile
from hibor.collect.stops import RunStop
from hibor.device.protocol import RemoteFile
from hibor.items.catalogue import CatalogueEntry
from hibor.package.names import normalise_text
from hibor.task import Select, Task

DUPLICATE_WITHIN_DAYS: Final = 7
"""A library file of the same institution, stock and title this near in days makes a report a likely
duplicate.
"""


@attrs.frozen
class Choice:
    """One selected report and the file it can be had from; both None means a new download."""

    entry: CatalogueEntry
    copy: FinalFile | None = None
    cached: RemoteFile | None = None
    retrigger: bool = False

    @property
    def source(self) -> str:
        """PROJECT_REUSE, CACHE_REUSE or NEW_TRIGGER."""
        if self.copy is not None:
            return "PROJECT_REUSE"
        return "CACHE_REUSE" if self.cached is not None else "NEW_TRIGGER"

    @property
    def lane(self) -> str:
        """The lane of the source."""
        return "NEW_TRIGGER" if self.source == "NEW_TRIGGER" else "PURE_REUSE"


@attrs.frozen
class LikelyDuplicate:
    """A report that is not opened because the library holds what looks like the same one."""

    entry: CatalogueEntry
    path: str


@attrs.frozen(kw_only=True)
class Holdings:
    """What can be reused: library copies and cached files by report id, and the library's rows by likeness.
    """

    copies: Mapping[str, FinalFile]
    cached: Mapping[str, RemoteFile]
    likeness: Mapping[tuple[str, str, str], Sequence[tuple[str, str]]]  # key -> (report id, date, path) pairs


def matches(entry: CatalogueEntry, select: Select, today: date) -> bool:
    """Whether a report passes the task's filter. An undated report is not refused for its date."""
    if select.report_ids and entry.report_id not in select.report_ids:
        return False
    text = normalise_text(" ".join(filter(None, (entry.title, entry.stock_name, entry.industry))))
    if select.keywords_any and not any(normalise_text(word) in text for word in select.keywords_any):
        return False
    if any(normalise_text(word) in text for word in select.keywords_not):
        return False
    wanted = {normalise_text(name) for name in select.institutions}
    if wanted and normalise_text(entry.institution or "") not in wanted:
        return False
    if entry.page_count_hint is not None and entry.page_count_hint < select.pages_min:
        return False
    return entry.date is None or date.fromisoformat(entry.date) > today - timedelta(
        days=select.since_days + 1
    )


def likeness(institution: str | None, stock_code: str | None, title: str | None) -> tuple[str, str, str]:
    """What two tellings of one report have in common: institution, stock code, title without digits."""
    words = normalise_text(title or "")
    return (
        normalise_text(institution or ""),
        normalise_text(stock_code or ""),
        "".join(letter for letter in words if not letter.isdigit()),
    )


def find_duplicate(entry: CatalogueEntry, holdings: Holdings) -> LikelyDuplicate | None:
    """The library file this report is a likely duplicate of: same likeness, another id, at most a week apart.
    """
    key = likeness(entry.institution, entry.stock_code, entry.title)
    for row_date, path in holdings.likeness.get(key, ()):
        if entry.date is None or not row_date:
            continue
        apart = abs((date.fromisoformat(entry.date) - date.fromisoformat(row_date)).days)
        if apart <= DUPLICATE_WITHIN_DAYS and path:
            return LikelyDuplicate(entry, path)
    return None


def choose(
    entries: Iterable[CatalogueEntry],
    task: Task,
    today: date,
    holdings: Holdings,
    retrigger: frozenset[str] = frozenset(),
) -> tuple[list[Choice], list[Choice], list[LikelyDuplicate]]:
    """(selected, spare, likely duplicates): `spare` are further matches, newest first, to replace rejected
    ones.
    """
    selected: list[Choice] = []
    spare: list[Choice] = []
    duplicates: list[LikelyDuplicate] = []
    new_left = task.quota.new_max
    for entry in entries:
        if not matches(entry, task.select, today):
            continue
        choice = _choice(entry, task, holdings, retrigger)
        if choice is None:
            continue
        if choice.source == "NEW_TRIGGER":
            duplicate = None if choice.retrigger else find_duplicate(entry, holdings)
            if duplicate is not None:
                duplicates.append(duplicate)
                continue
            if new_left <= 0:
                spare.append(choice)
                continue
        if len(selected) >= task.count:
            spare.append(choice)
            continue
        new_left -= choice.source == "NEW_TRIGGER"
        selected.append(choice)
    return selected, spare, duplicates


def require_named(
    again: Collection[str], entries: Iterable[CatalogueEntry], selected: Iterable[Choice], holdings: Holdings
) -> None:
    """A report that is named to be downloaded again is selected, or its file is here. Raises RunStop for one
    that is neither: what a person named is never left out in silence.
    """
    listed = {entry.report_id for entry in entries}
    chosen = {choice.entry.report_id for choice in selected}
    for report_id in sorted(set(again) - chosen - holdings.copies.keys()):
        unlisted = "it is not in the app's list as it was read"
        why = "the task leaves it out" if report_id in listed else unlisted
        raise RunStop("task_invalid", f"--retrigger {report_id}: {why}; nothing was paid for")


def _choice(
    entry: CatalogueEntry, task: Task, holdings: Holdings, retrigger: frozenset[str]
) -> Choice | None:
    if entry.report_id in retrigger and entry.report_id not in holdings.copies:
        return Choice(entry, retrigger=True)  # of one that is here already nothing is to be paid again
    if task.policy.reuse != "never":
        copy = holdings.copies.get(entry.report_id)
        if copy is not None:
            return Choice(entry, copy=copy)
        cached = holdings.cached.get(entry.report_id)
        if cached is not None:
            return Choice(entry, cached=cached)
    return None if task.policy.reuse == "only" else Choice(entry)
