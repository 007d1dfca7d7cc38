"""The scan: options, snapshot extensions, one walk, then what the host should remember.

Rules of this file (design 6): the handler holds configuration only and is picklable when its callbacks are;
everything a scan learns lives in its `Walk`, everything that must survive lives in the host. Called as the
contract writes it, with a context of the three contract methods, it behaves as the contract says; every
addition is switched on by a keyword or by an optional context protocol (`protocols.py`), looked for once per
scan.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Any, cast

from .ids import Namespace, namespace_prefix, sanitize_content_id
from .protocols import DiscoveryContext, DiscoveryJob, Frontier, MarkContext
from .report import COMPLETE_ENDS, ScanEnd, ScanReport
from .walk import Walk, WalkRules

logger = logging.getLogger("hibor.discovery")

SCAN_MODES = ("incremental", "full")


def check_max_pages(max_pages: object, where: str = "max_pages") -> int:
    """`max_pages` as a positive int; a bool or anything else raises `ValueError`."""
    if not isinstance(max_pages, int) or isinstance(max_pages, bool) or max_pages < 1:
        raise ValueError(f"{where} must be a positive int, got {max_pages!r}")
    return max_pages


def check_scan_mode(scan_mode: object, where: str = "scan_mode") -> str:
    """`scan_mode` as one of `incremental` and `full`; anything else raises `ValueError`."""
    if scan_mode not in SCAN_MODES:
        raise ValueError(f"{where} must be 'incremental' or 'full', got {scan_mode!r}")
    return str(scan_mode)


class DiscoveryHandler:
    """Finds what is new in a newest-first listing with unordered ids (design 6).

    fetch_func(job, ctx, page) -> list: one page, from 1; an empty list is the end of the listing. It may
        return a `Page` instead, which says explicitly whether it is the last one.
    id_func(item) -> str: the item's id, unique in the listing.
    process_item_func(job, ctx, item, content_id): called once for every unseen item; usually spawns the job
        `process_task_type::content_id`. May return `Declined`.
    cursor_key_func(payload) -> str: a namespace for ids; no cursor.
    on_missing(job, ctx, content_ids): after a complete full scan, what was seen once and is not listed any
    more.

    Keyword-only additions, all off by default:
    continuity: re-read each page after the next one, so that a deletion while paging hides nothing;
        continuity_rounds bounds the re-reads where the listing keeps moving.
    confirm_missing: hand out only ids missed by two consecutive complete full scans, and nothing when more
        than missing_share (0 < share ≤ 1) of the known ids would vanish.
    alias_func(item) -> list of str: earlier ids of the same item; they count as seen.
    pinned_func(item) -> bool: pinned entries are processed but do not decide page hits.
    stop_after: so many wholly seen pages in a row end an incremental scan.
    stop_func(job, ctx, page) -> bool: asked before each page; True stops with success, not complete.
    resume: an incomplete scan leaves its frontier (optional `FrontierContext`), and the next one, having
        joined the known stretch, jumps to it; skip_func(job, ctx, page, frontier) -> page | None does the
        jump on listings without random access (default: probe the pages around the expected place).
    scan_key: names the listing in the host's scan debt; two listings must not share it (default:
        process_task_type, `register_discovery` passes its task_type).
    dry_run: read and report only; nothing is processed or remembered.

    Raises `ValueError` for a bad max_pages, scan_mode, stop_after, continuity_rounds or missing_share.
    """

    def __init__(
        self,
        fetch_func: Callable[[Any, Any, int], Any],
        id_func: Callable[[Any], str],
        process_item_func: Callable[[Any, Any, Any, str], Any],
        process_task_type: str,
        cursor_key_func: Callable[[dict[str, Any]], str] | None = None,
        max_pages: int = 1000,
        scan_mode: str = "incremental",
        on_missing: Callable[[Any, Any, list[str]], Any] | None = None,
        *,
        continuity: bool = False,
        continuity_rounds: int = 8,
        confirm_missing: bool = False,
        missing_share: float = 0.5,
        alias_func: Callable[[Any], Sequence[str]] | None = None,
        pinned_func: Callable[[Any], bool] | None = None,
        stop_after: int = 1,
        stop_func: Callable[[Any, Any, int], bool] | None = None,
        resume: bool = False,
        skip_func: Callable[[Any, Any, int, Frontier], int | None] | None = None,
        scan_key: str | None = None,
        dry_run: bool = False,
    ) -> None:
        self.fetch_func = fetch_func
        self.id_func = id_func
        self.process_item_func = process_item_func
        self.process_task_type = process_task_type
        self.cursor_key_func = cursor_key_func
        self.max_pages = check_max_pages(max_pages)
        self.scan_mode = check_scan_mode(scan_mode)
        self.on_missing = on_missing
        self.continuity = continuity
        self.continuity_rounds = check_max_pages(continuity_rounds, "continuity_rounds")
        self.confirm_missing = confirm_missing
        if not 0 < missing_share <= 1:
            raise ValueError(f"missing_share must be above 0 and at most 1, got {missing_share!r}")
        self.missing_share = missing_share
        self.alias_func = alias_func
        self.pinned_func = pinned_func
        self.stop_after = check_max_pages(stop_after, "stop_after")
        self.stop_func = stop_func
        self.resume = resume
        self.skip_func = skip_func
        self.scan_key = scan_key
        self.dry_run = dry_run
        self._missing_before: dict[str, frozenset[str]] = {}

    def __call__(self, job: DiscoveryJob, ctx: DiscoveryContext) -> bool:
        """Runs a scan as a host's handler; True (success) unless an exception passes through."""
        self.scan(job, ctx)
        return True

    def scan(self, job: DiscoveryJob, ctx: DiscoveryContext, *, dry_run: bool | None = None) -> ScanReport:
        """Runs one scan and says what it did.

        Raises `ValueError` for bad options in the payload, for a bad namespace key, and for a `fetch_func`
        that returns no list; exceptions of `fetch_func` pass through. `dry_run` overrides the handler's own.
        """
        prefix = self._prefix(job)
        full, max_pages = self._options(job)
        dry = self.dry_run if dry_run is None else dry_run
        key = self.debt_key(prefix)
        debts: Any = ctx if hasattr(ctx, "scan_debt") and hasattr(ctx, "set_scan_debt") else None
        has_marks = hasattr(ctx, "mark_seen") and hasattr(ctx, "is_marked_seen")
        frontiers: Any = ctx if self.resume and debts is not None and hasattr(ctx, "scan_frontier") else None
        debt_before = bool(debts.scan_debt(key)) if debts is not None else None
        frontier = (
            frontiers.scan_frontier(key) if frontiers is not None and debt_before and not full else None
        )
        rules = self._rules(prefix, full, max_pages, page_hit_ends=not full and not debt_before, dry_run=dry)
        seen_uids = getattr(ctx, "seen_uids", None) if debts is not None else None
        walk = Walk(rules, job, ctx, cast(MarkContext, ctx) if has_marks else None, frontier, seen_uids)
        if debts is not None and not dry:
            debts.set_scan_debt(key, True)
        end = walk.run()
        missing: list[str] = []
        if full and self.on_missing is not None and end in COMPLETE_ENDS and not walk.bad_ids and walk.stable:
            missing = [] if dry else self._report_missing(job, ctx, prefix, key, walk)
        complete = end in COMPLETE_ENDS and walk.stable and not walk.bad_ids and not walk.bad_items
        debt_after = debt_before if dry or debt_before is None else not complete
        report = _report(walk, end, full, complete, debt_before, debt_after, missing, dry)
        if debts is not None and not dry:
            if complete:
                debts.set_scan_debt(key, False)
            if frontiers is not None:
                frontiers.set_scan_frontier(key, walk.new_frontier(end))
            if hasattr(ctx, "store_scan_report"):
                cast(Any, ctx).store_scan_report(key, report.to_dict())
        return report

    def debt_key(self, prefix: str = "") -> str:
        """The name under which the host keeps what belongs to this listing and namespace."""
        name = self.scan_key or self.process_task_type
        return f"{name}::{sanitize_content_id(prefix)}" if prefix else name

    def _prefix(self, job: DiscoveryJob) -> str:
        if self.cursor_key_func is None:
            return ""
        key = self.cursor_key_func(job.payload)
        if not isinstance(key, str) or not key:
            raise ValueError(f"cursor_key_func must return a non-empty str, got {key!r}")
        return namespace_prefix(key)

    def _options(self, job: DiscoveryJob) -> tuple[bool, int]:
        """(full mode?, max_pages): the payload's, where it names them, else the handler's."""
        payload = job.payload if isinstance(job.payload, Mapping) else {}
        mode = check_scan_mode(payload.get("scan_mode", self.scan_mode), "scan_mode in payload")
        max_pages = check_max_pages(payload.get("max_pages", self.max_pages), "max_pages in payload")
        return mode == "full", max_pages

    def _rules(
        self, prefix: str, full: bool, max_pages: int, page_hit_ends: bool, dry_run: bool
    ) -> WalkRules:
        return WalkRules(
            fetch_func=self.fetch_func,
            id_func=self.id_func,
            process_item_func=self.process_item_func,
            process_task_type=self.process_task_type,
            prefix=prefix,
            full=full,
            max_pages=max_pages,
            page_hit_ends=page_hit_ends,
            stop_after=self.stop_after,
            continuity=self.continuity,
            continuity_rounds=self.continuity_rounds,
            alias_func=self.alias_func,
            pinned_func=self.pinned_func,
            stop_func=self.stop_func,
            skip_func=self.skip_func,
            dry_run=dry_run,
        )

    def _report_missing(
        self, job: DiscoveryJob, ctx: DiscoveryContext, prefix: str, key: str, walk: Walk
    ) -> list[str]:
        """Hands the vanished content ids to `on_missing` and returns them; never raises."""
        assert self.on_missing is not None
        # What follows may be destructive and is the user's code: a failure here must not turn a good scan
        # bad.
        try:
            missing, known = self._missing(ctx, prefix, walk)
            if self.confirm_missing:
                missing = self._confirmed(ctx, key, missing, known)
            handed = sorted(missing)
            if handed:
                logger.warning("discovery: %d entries seen before are not listed any more", len(handed))
                self.on_missing(job, ctx, list(handed))
            return handed
        except Exception as error:
            logger.error("discovery: on_missing failed: %r", error)
            return []

    def _missing(self, ctx: DiscoveryContext, prefix: str, walk: Walk) -> tuple[set[str], int]:
        """(seen minus found, number of seen ids), both within this scan's own namespace."""
        namespace = Namespace(prefix)
        own_type = f"{self.process_task_type}::"
        missing: set[str] = set()
        found = 0
        for uid in ctx.attempted_uids():
            if not uid.startswith(own_type):
                continue
            content_id = uid[len(own_type) :]
            if content_id in walk.read_ids or content_id in walk.alias_ids:
                found += 1
            elif namespace.certainly_holds(content_id):
                missing.add(content_id)
        return missing, found + len(missing)

    def _confirmed(self, ctx: DiscoveryContext, key: str, missing: set[str], known: int) -> set[str]:
        """The ids also missed by the complete full scan before; remembers this scan's for the next one."""
        store = (
            cast(Any, ctx) if hasattr(ctx, "missing_before") and hasattr(ctx, "set_missing_before") else None
        )
        before = frozenset(store.missing_before(key)) if store else self._missing_before.get(key, frozenset())
        too_many = len(missing) > self.missing_share * known
        if too_many:
            logger.error(
                "discovery: %d of %d known entries are not listed; that looks like a broken listing, not "
                "like deletions: nothing is reported",
                len(missing),
                known,
            )
        now = frozenset() if too_many else frozenset(missing)
        if store:
            store.set_missing_before(key, now)
        else:
            self._missing_before[key] = now
        return set(before & now)


def _report(
    walk: Walk,
    end: ScanEnd,
    full: bool,
    complete: bool,
    debt_before: bool | None,
    debt_after: bool | None,
    missing: list[str],
    dry_run: bool,
) -> ScanReport:
    return ScanReport(
        mode="full" if full else "incremental",
        pages=walk.pages,
        fetches=walk.fetches,
        items=walk.items,
        new=len(walk.new_ids),
        seen=walk.seen,
        bad=walk.bad_ids + walk.bad_items,
        declined=walk.declined,
        moved=walk.moved,
        complete=complete,
        ended=end,
        stable=walk.stable,
        debt_before=debt_before,
        debt_after=debt_after,
        skipped_to=walk.skipped_to,
        missing=tuple(missing),
        new_ids=tuple(walk.new_ids),
        digest=walk.digest(),
        dry_run=dry_run,
    )
