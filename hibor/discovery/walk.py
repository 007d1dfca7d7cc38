"""One walk down a listing that may move while it is read.

Rules of this file (design 6 'Contract' and 'Where the contract loses items'):

* The listing is newest first and its ids are not ordered, so only membership in the host's complete seen set
  counts. Pages are read from 1 on; the walk ends on an empty page, on a page the fetch calls the last, or
  (incremental, no scan debt) on a page whose every entry was seen before this scan.
* What this scan itself handled or declined never counts as seen: a page that repeats what we have just taken
  says nothing about the pages below it.
* One bad entry is logged, skipped and left for the next run; it never ends the walk.
* With `continuity`, a page is re-read after the page below it. A deletion above pulls entries over the border
  between the two reads; the re-read shows them. If even its first entry is new, more than a page moved, and
  the re-reading goes further up until it meets an entry this scan knows. The page that ends the walk is
  re-read too, and when anything moved at all, all pages are read once more: that catches moves that cancel
  each other around one read. What stays possible is a listing that does so twice around the same entry;
  without a version number of the listing nothing can exclude that.
"""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Callable, Collection, Sequence
from typing import Any

import attrs

from .ids import sanitize_content_id
from .protocols import DiscoveryContext, DiscoveryJob, Frontier, MarkContext
from .report import COMPLETE_ENDS, Declined, Page, ScanEnd

logger = logging.getLogger("hibor.discovery")

_SKIP_PROBES = 8


@attrs.frozen
class WalkRules:
    """The callbacks and switches a walk obeys; see `DiscoveryHandler` for their meaning."""

    fetch_func: Callable[[DiscoveryJob, DiscoveryContext, int], Any]
    id_func: Callable[[Any], str]
    process_item_func: Callable[[DiscoveryJob, DiscoveryContext, Any, str], Any]
    process_task_type: str
    prefix: str
    full: bool
    max_pages: int
    page_hit_ends: bool
    stop_after: int
    continuity: bool
    continuity_rounds: int
    alias_func: Callable[[Any], Sequence[str]] | None
    pinned_func: Callable[[Any], bool] | None
    stop_func: Callable[[DiscoveryJob, DiscoveryContext, int], bool] | None
    skip_func: Callable[[DiscoveryJob, DiscoveryContext, int, Frontier], int | None] | None
    dry_run: bool


@attrs.frozen
class Entry:
    """One item with its ids: its own, and earlier ids of the same item."""

    item: Any
    content_id: str
    alias_ids: tuple[str, ...]
    pinned: bool


@attrs.frozen
class PageRead:
    """One fetched page: its entries, how many items had no usable id, and what the fetch said about it."""

    number: int
    entries: tuple[Entry, ...]
    item_count: int
    bad: int
    page: Page | None

    @property
    def ends_listing(self) -> bool:
        """A list without items is the end of the listing; an empty `Page` is just an empty page."""
        return self.page is None and self.item_count == 0

    @property
    def contiguous(self) -> bool:
        """Whether the fetch itself proved that nothing lies between this page and the one before."""
        return self.page is not None and self.page.contiguous

    @property
    def ids(self) -> tuple[str, ...]:
        """The content ids, newest first."""
        return tuple(entry.content_id for entry in self.entries)


class Walk:
    """One scan in progress: reads pages, hands out new entries, and counts what it saw."""

    def __init__(
        self,
        rules: WalkRules,
        job: DiscoveryJob,
        ctx: DiscoveryContext,
        marks: MarkContext | None,
        frontier: Frontier | None,
        seen_uids: Callable[[Collection[str]], Collection[str]] | None = None,
    ) -> None:
        self._seen_uids = seen_uids
        self._asked: Collection[str] = frozenset()
        self._answered: Collection[str] = frozenset()
        self._rules = rules
        self._job = job
        self._ctx = ctx
        self._marks = marks
        self._frontier = frontier
        self._floor = 1
        self._page_ids: dict[int, tuple[str, ...]] = {}
        self._page_bad: dict[int, int] = {}
        self._attempted: set[str] = set()
        self._digest = hashlib.sha256()
        self._hits_in_a_row = 0
        self._counted_page = 0
        self.read_ids: set[str] = set()
        self.alias_ids: set[str] = set()
        self.new_ids: list[str] = []
        self.pages = 0
        self.fetches = 0
        self.items = 0
        self.seen = 0
        self.bad_ids = 0
        self.bad_items = 0
        self.declined = 0
        self.moved = 0
        self.stable = True
        self.gapless = True
        self.skipped_to: int | None = None
        self.last_read: PageRead | None = None

    def run(self) -> ScanEnd:
        """Walks until an end; exceptions of `fetch_func` pass through (the next run starts from page 1)."""
        end = self._walk_down()
        if self._rules.continuity and self.moved and end in COMPLETE_ENDS:
            self.stable = self._reread_all() and self.stable
        return end

    def _reread_all(self) -> bool:
        """Reads all pages once more, until a pass finds nothing new below what was known; bounded."""
        for _ in range(self._rules.continuity_rounds):
            if not self._reread_pass():
                return True
        logger.warning("discovery: the listing moves faster than it can be re-read")
        return False

    def _reread_pass(self) -> int:
        """One pass over the pages read so far; returns how many new entries lay below known ones.

        Insertions push entries down, so it goes on below the deepest page until it meets what was last there.
        """
        late = 0
        met_known = False
        numbers = sorted(self._page_ids)
        anchor = next(
            (self._page_ids[number][-1] for number in reversed(numbers) if self._page_ids[number]), ""
        )
        met_anchor = not anchor
        beyond = numbers[-1] + 1
        for number in [*numbers, *range(beyond, beyond + self._rules.continuity_rounds)]:
            if number >= beyond and met_anchor:
                break
            again = self._fetch(number)
            self._note_bad(again)
            for entry in again.entries:
                known = entry.content_id in self.read_ids or self._is_seen(entry)
                met_known = met_known or known
                late += met_known and not known
            met_anchor = met_anchor or anchor in again.ids or again.ends_listing
            self._hand_out(again)
        return late

    def _walk_down(self) -> ScanEnd:
        number = 1
        walked = 0
        ready: PageRead | None = None
        while True:
            # The page a jump landed on was read by the scan before; it costs nothing of this scan's pages.
            if ready is None and walked >= self._rules.max_pages:
                logger.warning(
                    "discovery: stopped after max_pages=%d pages; older entries were not read and the scan "
                    "is not complete",
                    self._rules.max_pages,
                )
                return ScanEnd.MAX_PAGES
            if (
                ready is None
                and self._rules.stop_func
                and self._rules.stop_func(self._job, self._ctx, number)
            ):
                return ScanEnd.STOPPED
            walked += ready is None
            read = ready or self._fetch(number)
            ready = None
            end = self._take(read)
            if end is not None:
                return end
            ready = self._skip_known(read)
            number = ready.number if ready is not None else number + 1

    def digest(self) -> str:
        """sha256 (hex) over number, first and last id of every page of the walk."""
        return self._digest.hexdigest()

    def new_frontier(self, end: ScanEnd) -> Frontier | None:
        """Where the next scan may go on, or None when what was read is not one gapless stretch from the
        top.
        """
        if end not in (ScanEnd.MAX_PAGES, ScanEnd.STOPPED, ScanEnd.INTERRUPTED):
            return None
        if not (self.gapless and self.stable) or self.bad_ids or self.bad_items or self.last_read is None:
            return None
        return Frontier(self.last_read.number, self.last_read.ids) if self.last_read.ids else None

    def _fetch(self, number: int) -> PageRead:
        self.fetches += 1
        fetched = self._rules.fetch_func(self._job, self._ctx, number)
        page = fetched if isinstance(fetched, Page) else None
        items = page.items if page is not None else fetched
        # Judged before emptiness: None, "" or a dict is a broken fetch, not the end of the listing.
        if not isinstance(items, (list, tuple)):
            raise ValueError(f"fetch_func must return a list of items, got {type(items).__name__}")
        entries = []
        for item in items:
            entry = self._entry_of(item)
            if entry is not None:
                entries.append(entry)
        return PageRead(number, tuple(entries), len(items), len(items) - len(entries), page)

    def _entry_of(self, item: Any) -> Entry | None:
        """The item with its ids, or None when it has no usable one (logged, retried next run)."""
        try:
            content_id = self._content_id(self._rules.id_func(item))
            alias_func = self._rules.alias_func
            aliases = tuple(self._content_id(alias) for alias in alias_func(item)) if alias_func else ()
            pinned = bool(self._rules.pinned_func(item)) if self._rules.pinned_func else False
        # Callbacks are the user's code and one bad entry must not end the whole chain of discovery.
        except Exception as error:
            logger.error("discovery: no usable id for one item, skipped until the next run: %r", error)
            return None
        return Entry(item, content_id, aliases, pinned)

    def _content_id(self, raw_id: object) -> str:
        if not isinstance(raw_id, str) or not raw_id:
            raise ValueError(f"an id must be a non-empty str, got {raw_id!r}")
        return sanitize_content_id(self._rules.prefix + raw_id)

    def _take(self, read: PageRead) -> ScanEnd | None:
        """Handles one page of the walk; returns why the walk ends here, or None."""
        proven = self._prove(read)
        for _ in range(self._rules.continuity_rounds):
            end = self._judge(read)
            if end not in (ScanEnd.EMPTY_PAGE, ScanEnd.PAGE_HIT, ScanEnd.LAST_PAGE) or not proven:
                return end
            again = self._fetch(read.number)
            if not self._shows_more(read, again):
                return end
            self.moved += 1
            read = again
            proven = self._prove(read)
        self.stable = False
        return None

    def _shows_more(self, before: PageRead, again: PageRead) -> bool:
        """Whether the page that ended the walk shows, read again, an entry this scan has neither read nor
        seen.
        """
        if before.ends_listing:
            return not again.ends_listing
        return any(
            entry.content_id not in self.read_ids and not self._is_seen(entry) for entry in again.entries
        )

    def _judge(self, read: PageRead) -> ScanEnd | None:
        first_time = read.number != self._counted_page and not read.ends_listing
        if first_time:
            self._count_page(read)
        self._note_bad(read)
        if read.ends_listing:
            return ScanEnd.EMPTY_PAGE
        hit = self._hand_out(read)
        if read.item_count and not read.entries:
            logger.error("discovery: not one id could be read on page %d; stopped, not complete", read.number)
            return ScanEnd.NO_IDS
        if hit is not None and first_time:
            self._hits_in_a_row = self._hits_in_a_row + 1 if hit else 0
        if read.page is not None and (read.page.last or read.page.interrupted):
            return ScanEnd.LAST_PAGE if read.page.last else ScanEnd.INTERRUPTED
        if hit and self._rules.page_hit_ends and self._hits_in_a_row >= self._rules.stop_after:
            return ScanEnd.PAGE_HIT
        return None

    def _count_page(self, read: PageRead) -> None:
        self._counted_page = read.number
        if read.ids:
            # A page without entries (adverts, a fetch that gave up) is no place to go on from.
            self.last_read = read
        self.pages += 1
        self.items += read.item_count
        first_and_last = (read.ids[0], read.ids[-1]) if read.ids else ("", "")
        self._digest.update(f"{read.number}\n{first_and_last[0]}\n{first_and_last[1]}\n".encode())

    def _note_bad(self, read: PageRead) -> None:
        """Counts items without an id once, although their page may be read several times."""
        known = self._page_bad.get(read.number, 0)
        self.bad_ids += max(0, read.bad - known)
        self._page_bad[read.number] = max(read.bad, known)

    def _hand_out(self, read: PageRead) -> bool | None:
        """Processes the unseen entries; returns whether all (unpinned) ones were seen, None without any."""
        unpinned_seen: list[bool] = []
        self._ask_for_all(read.entries)
        for entry in read.entries:
            seen = self._is_seen(entry)
            if entry.content_id not in self.read_ids:
                self.read_ids.add(entry.content_id)
                self.alias_ids.update(entry.alias_ids)
                self.seen += seen
            if not entry.pinned:
                unpinned_seen.append(seen)
            if not seen and entry.content_id not in self._attempted:
                self._attempted.add(entry.content_id)
                self._process(entry)
        self._page_ids[read.number] = read.ids
        return all(unpinned_seen) if unpinned_seen else None

    def _process(self, entry: Entry) -> None:
        if not self._rules.dry_run:
            try:
                outcome = self._rules.process_item_func(self._job, self._ctx, entry.item, entry.content_id)
                if isinstance(outcome, Declined):
                    self._decline(entry, outcome)
                    return
            # The user's code; the entry stays unseen and is offered again by the next run.
            except Exception as error:
                self.bad_items += 1
                logger.error(
                    "discovery: processing %s failed, skipped until the next run: %r", entry.content_id, error
                )
                return
        self.new_ids.append(entry.content_id)

    def _decline(self, entry: Entry, outcome: Declined) -> None:
        self.declined += 1
        uid = self._uid(entry.content_id)
        if self._marks is None:
            logger.warning(
                "discovery: %s was declined, but this host keeps no marks; it will be offered again", uid
            )
            return
        mark_declined = getattr(self._marks, "mark_declined", None)
        if mark_declined is not None:
            mark_declined(uid, outcome.reason, outcome.rule_version)
        else:
            self._marks.mark_seen(uid)

    def _is_seen(self, entry: Entry) -> bool:
        if self._is_uid_seen(self._uid(entry.content_id)):
            return True
        if any(self._is_uid_seen(self._uid(alias_id)) for alias_id in entry.alias_ids):
            return True
        # A mark made by this very scan may already be visible; counted at once, a page of declined entries
        # would end the walk above entries nobody has looked at.
        if self._marks is None or entry.content_id in self._attempted:
            return False
        return self._marks.is_marked_seen(self._uid(entry.content_id))

    def _ask_for_all(self, entries: Sequence[Entry]) -> None:
        """Asks a host that can answer for many uids at once about a whole page."""
        if self._seen_uids is not None:
            self._asked = {
                self._uid(content_id)
                for entry in entries
                for content_id in (entry.content_id, *entry.alias_ids)
            }
            self._answered = self._seen_uids(self._asked)

    def _is_uid_seen(self, uid: str) -> bool:
        if uid in self._asked:
            return uid in self._answered
        return self._ctx.is_completed(uid) or self._ctx.is_failed(uid)

    def _uid(self, content_id: str) -> str:
        return f"{self._rules.process_task_type}::{content_id}"

    def _prove(self, read: PageRead) -> bool:
        """Makes sure nothing slipped between this page and the one above; says whether it re-read for
        that.
        """
        if read.number == self._floor or read.contiguous:
            return False
        if not self._rules.continuity:
            self.gapless = False
            return False
        for _ in range(self._rules.continuity_rounds):
            if self._reread_upwards(read.number - 1):
                return True
        self.stable = False
        logger.warning("discovery: the listing moves faster than page %d can be re-read", read.number - 1)
        return True

    def _reread_upwards(self, number: int) -> bool:
        """Re-reads `number` and, while even the first entry is new, the pages above; True when all was
        known.
        """
        settled = True
        while True:
            again = self._fetch(number)
            self._note_bad(again)
            self.moved += again.ids != self._page_ids.get(number)
            begins_known = bool(again.entries) and again.entries[0].content_id in self.read_ids
            settled = settled and all(entry.content_id in self.read_ids for entry in again.entries)
            self._hand_out(again)
            if begins_known or number <= self._floor:
                return settled
            # A page that is empty now says nothing itself: the listing has become shorter, look further up.
            settled = settled and not again.entries
            number -= 1

    def _skip_known(self, read: PageRead) -> PageRead | None:
        """Jumps over a stretch that an earlier, incomplete scan proved gapless; None: walk on page by page.

        Sound because this scan, gapless from the top, has reached a wholly seen page, that is: it has joined
        the earlier stretch, whose far end shows one of the frontier's ids.
        """
        frontier = self._frontier
        if frontier is None or not self._hits_in_a_row or not (self.gapless and self.stable):
            return None
        if self.bad_ids or self.bad_items:
            return None
        self._frontier = None
        for number in self._skip_targets(read.number, frontier):
            if number <= read.number:
                continue
            target = self._fetch(number)
            if not set(frontier.ids).isdisjoint(target.ids):
                self._floor = number
                self.skipped_to = number
                return target
        return None

    def _skip_targets(self, number: int, frontier: Frontier) -> list[int]:
        if self._rules.skip_func is not None:
            target = self._rules.skip_func(self._job, self._ctx, number, frontier)
            return [] if target is None else [target]
        # Everything new pushed the frontier down by at most the pages walked so far; deletions pulled it up.
        guess = frontier.page + number - 1
        return [guess + (-step // 2 if step % 2 else step // 2) for step in range(_SKIP_PROBES)]
