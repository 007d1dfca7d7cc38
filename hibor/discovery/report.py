"""Values that go into a scan and come out of it.

Rules of this file: plain frozen values, no I/O. `Page` is what a fetch may return instead of a list when it
knows more than the items; `Declined` is what `process_item_func` may return; `ScanReport` is what a scan says
about itself.
"""

from __future__ import annotations

import enum
from collections.abc import Sequence
from typing import Any

import attrs


@attrs.frozen
class Page:
    """One page with what the fetch knows about it (design 6 'Explicit end').

    items: the entries, newest first, a list or a tuple. Empty means only that nothing is left after
    filtering.
    last: nothing older follows; the end of the listing, or of the horizon the caller scans to.
    contiguous: the fetch has itself proved that nothing lies between this page and the one before (rows seen
        on both screens); the scanner then re-reads nothing.
    interrupted: the fetch gave up (budget used, link lost) and nothing follows; the scan stops with success
        but is not complete. The items are still handled.
    """

    items: Sequence[Any]
    last: bool = False
    contiguous: bool = False
    interrupted: bool = False


@attrs.frozen
class Declined:
    """Return value of `process_item_func`: never offer this entry again (optional `MarkContext`).

    reason is for people; rule_version names the rule that declined, so that its marks can be found and
    removed when the rule changes.
    """

    reason: str = ""
    rule_version: str = ""


class ScanEnd(enum.StrEnum):
    """Why a scan ended."""

    EMPTY_PAGE = "empty_page"
    LAST_PAGE = "last_page"
    PAGE_HIT = "page_hit"
    MAX_PAGES = "max_pages"
    NO_IDS = "no_ids"
    STOPPED = "stopped"
    INTERRUPTED = "interrupted"


COMPLETE_ENDS = frozenset({ScanEnd.EMPTY_PAGE, ScanEnd.LAST_PAGE, ScanEnd.PAGE_HIT})
"""Ends after which nothing unread can lie deeper, as far as the listing showed itself."""


@attrs.frozen
class ScanReport:
    """What one scan did (design 6 'Report').

    mode: `incremental` or `full`. pages: pages of the walk; fetches: calls of `fetch_func`, re-reads
    included.
    items: entries on those pages, re-reads not counted twice. new: entries handed to `process_item_func` with
    success (in a dry run: that would be). seen: distinct entries already handled before this scan. bad:
    entries without a usable id, or whose processing raised. declined: entries declined for good in this scan.
    moved: how often a re-read page no longer showed what it had shown. complete: nothing of the listing was
    left unread or unhandled. ended: why. stable: False when the listing moved faster than it could be
    re-read. debt_before/debt_after: None where the host keeps no scan debt. skipped_to: the page a kept
    frontier let the scan jump to. missing: content ids handed to `on_missing`. new_ids: content ids of `new`,
    in order.
    digest: sha256 (hex) over the first and last id of every page, for comparing scans.
    """

    mode: str
    pages: int
    fetches: int
    items: int
    new: int
    seen: int
    bad: int
    declined: int
    moved: int
    complete: bool
    ended: ScanEnd
    stable: bool
    debt_before: bool | None
    debt_after: bool | None
    skipped_to: int | None
    missing: tuple[str, ...]
    new_ids: tuple[str, ...]
    digest: str
    dry_run: bool

    def to_dict(self) -> dict[str, Any]:
        """JSON values only, keys in the order of the fields."""
        values = attrs.asdict(self)
        values["ended"] = self.ended.value
        values["missing"] = list(self.missing)
        values["new_ids"] = list(self.new_ids)
        return values
