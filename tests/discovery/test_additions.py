"""The four losses of the plain contract, shown, and the additions that prevent them (design 6)."""

from __future__ import annotations

import logging
from typing import Any

import pytest

from hibor.discovery import Declined, DiscoveryHandler, Page, ScanEnd

from .listing import Job, Listing, MemoryHost, PlainContext, names, same, spawn
from .test_contract import MissingSpy, make


def unread(host: MemoryHost, listing: Listing) -> set[str]:
    """Listed entries that were never handled."""
    return {content_id for content_id in listing.alive if f"proc::{content_id}" not in host.wall}


def scan(host: MemoryHost, listing: Listing, payload: dict[str, Any] | None = None, **options: Any) -> Any:
    listing.start()
    return host.scan(make(listing, **options), payload)


# T1: a first scan cut by max_pages.


def test_t1_plain_contract_hides_everything_below_a_cut_scan() -> None:
    listing, host = Listing(names(100)), MemoryHost()
    scan(host, listing, max_pages=3)
    for _ in range(3):
        scan(host, listing)
    assert unread(host, listing) == set(names(100)[30:])


def test_t1_scan_debt_reads_on() -> None:
    listing, host = Listing(names(100)), MemoryHost(extended=True)
    first = scan(host, listing, max_pages=3)
    assert (first.debt_before, first.debt_after, first.complete) == (False, True, False)
    second = scan(host, listing)
    assert (second.debt_before, second.debt_after, second.complete) == (True, False, True)
    assert unread(host, listing) == set()
    assert scan(host, listing).fetches == 1


def test_t1_debt_is_set_before_the_first_fetch_and_survives_a_crash() -> None:
    listing, host = Listing(names(100)), MemoryHost(extended=True)
    seen_at_fetch: list[set[str]] = []

    def broken(job: Any, ctx: Any, page: int) -> list[str]:
        seen_at_fetch.append(set(host.debts))
        if page == 3:
            raise ConnectionError
        return listing.fetch(job, ctx, page)

    with pytest.raises(ConnectionError):
        DiscoveryHandler(broken, same, spawn, "proc").scan(Job(), host.context())
    assert seen_at_fetch == [{"proc"}] * 3
    assert host.debts == {"proc"}
    host.wall.update(f"proc::{content_id}" for content_id in names(100)[:20])
    scan(host, listing)
    assert unread(host, listing) == set()


def test_one_failed_entry_deep_down_keeps_the_debt_until_it_is_handled() -> None:
    """The contract says 'retried next run', but a wholly seen page 1 would stop that run above it."""
    for extended in (False, True):
        listing, host = Listing(names(50)), MemoryHost(extended=extended)
        broken = {names(50)[35]}

        def sometimes(job: Any, ctx: Any, item: Any, content_id: str, broken: set[str] = broken) -> None:
            if item in broken:
                raise RuntimeError
            spawn(job, ctx, item, content_id)

        handler = DiscoveryHandler(listing.fetch, same, sometimes, "proc")
        host.scan(handler)
        broken.clear()
        host.scan(handler)
        assert unread(host, listing) == (set() if extended else {names(50)[35]})


def test_scans_of_an_endless_listing_with_few_pages_each_go_on_where_the_last_one_stopped() -> None:
    listing, host = Listing(names(300)), MemoryHost(extended=True)
    options: dict[str, Any] = {"max_pages": 5, "continuity": True, "resume": True}
    depths = []
    for day in range(12):
        listing.insert(f"new-{day}")
        report = scan(host, listing, **options)
        depths.append(max(listing.fetched))
        assert report.fetches <= 2 * 5 + 10
        if report.complete:
            break
    assert report.complete
    assert unread(host, listing) == set()
    assert depths == sorted(depths)
    assert scan(host, listing, **options).fetches == 1


def test_without_resume_the_same_few_pages_are_read_again_and_again() -> None:
    listing, host = Listing(names(300)), MemoryHost(extended=True)
    for _ in range(5):
        scan(host, listing, max_pages=5)
    assert unread(host, listing) == set(names(300)[50:])


def test_a_scan_cut_above_the_known_stretch_gives_up_its_frontier() -> None:
    """Otherwise the next scan would jump over what the cut scan left unread between both stretches."""
    listing, host = Listing(names(300)), MemoryHost(extended=True)
    options: dict[str, Any] = {"continuity": True, "resume": True}
    scan(host, listing, max_pages=8, **options)
    listing.insert(*[f"new-{n}" for n in range(45)])
    scan(host, listing, max_pages=2, **options)
    for _ in range(20):
        report = scan(host, listing, max_pages=4, **options)
        if report.complete:
            break
    assert report.complete
    assert unread(host, listing) == set()


def test_frontier_ids_that_vanished_mean_walking_page_by_page() -> None:
    listing, host = Listing(names(100)), MemoryHost(extended=True)
    options: dict[str, Any] = {"continuity": True, "resume": True}
    scan(host, listing, max_pages=4, **options)
    del listing.alive[30:40]
    report = scan(host, listing, **options)
    assert report.skipped_to is None
    assert report.complete
    assert unread(host, listing) == set()


def test_skip_func_brings_a_listing_without_random_access_to_the_frontier() -> None:
    listing, host = Listing(names(100)), MemoryHost(extended=True)
    asked: list[tuple[int, int]] = []

    def jump(job: Any, ctx: Any, page: int, frontier: Any) -> int:
        asked.append((page, frontier.page))
        return 4

    options: dict[str, Any] = {"continuity": True, "resume": True, "skip_func": jump}
    scan(host, listing, max_pages=4, **options)
    report = scan(host, listing, **options)
    assert asked == [(1, 4)]
    assert report.skipped_to == 4
    assert report.complete
    assert unread(host, listing) == set()


# T2: an entry deleted while we page.


def test_t2_plain_contract_hides_an_entry_pulled_over_the_page_border() -> None:
    listing, host = Listing(names(40)), MemoryHost()
    listing.at(2, lambda: listing.delete(names(40)[12]))
    for _ in range(3):
        scan(host, listing)
    assert unread(host, listing) == {names(40)[20]}


@pytest.mark.parametrize("fetch", range(1, 9))
@pytest.mark.parametrize("count", [1, 3, 10, 11, 25])
def test_t2_continuity_finds_entries_pulled_over_the_border(fetch: int, count: int) -> None:
    listing, host = Listing(names(60)), MemoryHost()

    def cut() -> None:
        del listing.alive[2 : 2 + count]

    listing.at(fetch, cut)
    report = scan(host, listing, continuity=True)
    assert unread(host, listing) == set()
    assert report.complete
    assert set(host.executions.values()) == {1}


def test_t2_deletion_and_insertion_that_cancel_each_other_around_the_last_page() -> None:
    listing, host = Listing([*names(20), "old-1", "old-2"], page_size=10), MemoryHost()
    host.wall.update({"proc::old-1", "proc::old-2"})
    listing.at(2, lambda: listing.delete(names(20)[3]))
    listing.at(4, lambda: listing.insert("new"))
    scan(host, listing, continuity=True)
    assert unread(host, listing) <= {"new"}


def test_continuity_doubles_fetches_in_the_new_zone_only() -> None:
    listing, host = Listing(names(100)), MemoryHost()
    scan(host, listing)
    listing.insert(*[f"new-{n}" for n in range(20)])
    report = scan(host, listing, continuity=True)
    assert (report.pages, report.fetches, report.moved) == (3, 3 + 2 + 1, 0)
    assert scan(host, listing, continuity=True).fetches == 1


def test_pages_that_prove_themselves_are_not_read_twice() -> None:
    listing, host = Listing(names(40)), MemoryHost()

    def proven(job: Any, ctx: Any, page: int) -> Page:
        items = listing.fetch(job, ctx, page)
        return Page(items, last=len(items) < 10, contiguous=True)

    report = host.scan(DiscoveryHandler(proven, same, spawn, "proc", continuity=True))
    assert listing.fetched == [1, 2, 3, 4, 5]
    assert report.complete


def test_a_listing_that_never_holds_still_ends_incomplete(caplog: pytest.LogCaptureFixture) -> None:
    listing, host = Listing(names(500)), MemoryHost(extended=True)
    for fetch in range(1, 400):
        listing.at(fetch, lambda: listing.alive.pop(0))
    report = scan(host, listing, continuity=True, max_pages=20)
    assert not report.complete
    assert host.debts == {"proc"}
    assert report.moved > 0


# T3: filtering inside the fetch.


def filtered(listing: Listing, explicit: bool) -> Any:
    def fetch(job: Any, ctx: Any, page: int) -> Any:
        items = listing.fetch(job, ctx, page)
        kept = [item for item in items if not item.startswith("ad-")]
        return Page(kept, last=not items) if explicit else kept

    return fetch


def adverts_in_the_middle() -> Listing:
    return Listing([*names(20), *[f"ad-{n}" for n in range(10)], *names(20, 20)])


def test_t3_plain_contract_takes_a_page_emptied_by_a_filter_for_the_end() -> None:
    listing, host, spy = adverts_in_the_middle(), MemoryHost(), MissingSpy()
    host.wall.update(f"proc::{content_id}" for content_id in names(40))
    handler = DiscoveryHandler(
        filtered(listing, False), same, spawn, "proc", scan_mode="full", on_missing=spy
    )
    host.scan(handler)
    assert spy.calls == [sorted(names(20, 20))]


def test_t3_explicit_end_keeps_reading() -> None:
    listing, host, spy = adverts_in_the_middle(), MemoryHost(), MissingSpy()
    handler = DiscoveryHandler(filtered(listing, True), same, spawn, "proc", scan_mode="full", on_missing=spy)
    report = host.scan(handler)
    assert host.handled == names(40)
    assert report.ended is ScanEnd.LAST_PAGE
    assert report.complete
    assert spy.calls == []


def test_an_empty_page_decides_no_page_hit() -> None:
    listing, host = adverts_in_the_middle(), MemoryHost()
    host.wall.update(f"proc::{content_id}" for content_id in names(20, 20))
    host.scan(DiscoveryHandler(filtered(listing, True), same, spawn, "proc"))
    assert host.handled == names(20)


def test_page_items_must_be_a_list_too() -> None:
    handler = DiscoveryHandler(lambda job, ctx, page: Page("abc"), same, spawn, "proc")
    with pytest.raises(ValueError, match="list"):
        handler(Job(), PlainContext())


def test_interrupted_page_is_handled_and_leaves_debt() -> None:
    host = MemoryHost(extended=True)
    handler = DiscoveryHandler(lambda job, ctx, page: Page(["a"], interrupted=True), same, spawn, "proc")
    report = host.scan(handler)
    assert (report.ended, report.complete, host.handled, host.debts) == (
        ScanEnd.INTERRUPTED, False, ["a"], {"proc"}
    )  # fmt: skip


def test_a_scan_that_gave_up_leaves_the_place_it_had_come_to() -> None:
    """The page that says so has no entries itself; the place is the last page that had some."""
    host = MemoryHost(extended=True)

    def fetch(job: Any, ctx: Any, page: int) -> Page:
        entries = names(10, 10 * (page - 1)) if page < 3 else []
        return Page(entries, contiguous=True, interrupted=page == 3)

    host.scan(DiscoveryHandler(fetch, same, spawn, "proc", resume=True))
    frontier = host.frontiers["proc"]
    assert frontier is not None and (frontier.page, list(frontier.ids)) == (2, names(10, 10))


# T4: one transient empty page.


class Flaky:
    """Page 3 of one chosen scan comes back empty, as overloaded servers do."""

    def __init__(self, listing: Listing, bad_scan: int) -> None:
        self.listing = listing
        self.bad_scan = bad_scan
        self.scans = 0

    def __call__(self, job: Any, ctx: Any, page: int) -> list[str]:
        self.scans += page == 1
        return [] if page == 3 and self.scans == self.bad_scan else self.listing.fetch(job, ctx, page)


def test_t4_plain_contract_reports_everything_below_a_transient_empty_page_as_deleted() -> None:
    listing, host, spy = Listing(names(50)), MemoryHost(), MissingSpy()
    handler = DiscoveryHandler(Flaky(listing, 2), same, spawn, "proc", scan_mode="full", on_missing=spy)
    host.scan(handler)
    host.scan(handler)
    assert spy.calls == [sorted(names(50)[20:])]


@pytest.mark.parametrize("extended", [False, True])
@pytest.mark.parametrize("count", [25, 50])
def test_t4_two_scans_must_agree(extended: bool, count: int) -> None:
    listing, host, spy = Listing(names(count)), MemoryHost(extended=extended), MissingSpy()
    handler = DiscoveryHandler(
        Flaky(listing, 2), same, spawn, "proc", scan_mode="full", on_missing=spy, confirm_missing=True
    )
    for _ in range(4):
        host.scan(handler)
    assert spy.calls == []
    gone = listing.alive.pop(1)
    host.scan(handler)
    assert spy.calls == []
    host.scan(handler)
    assert spy.calls == [[gone]]


def test_nothing_is_reported_when_more_than_the_share_would_vanish(caplog: pytest.LogCaptureFixture) -> None:
    listing, host, spy = Listing(names(20)), MemoryHost(), MissingSpy()
    options: dict[str, Any] = {"scan_mode": "full", "on_missing": spy, "confirm_missing": True}
    handler = make(listing, **options)
    host.scan(handler)
    del listing.alive[:11]
    with caplog.at_level(logging.ERROR):
        for _ in range(3):
            host.scan(handler)
    assert spy.calls == []
    assert "broken listing" in caplog.text
    generous = make(listing, missing_share=1.0, **options)
    host.scan(generous)
    host.scan(generous)
    assert spy.calls == [sorted(names(20)[:11])]


# Marks, aliases, pinned entries, stop_after, stop_func, dry run, report.


def decline_adverts(job: Any, ctx: Any, item: Any, content_id: str) -> Declined | None:
    if item.startswith("ad-"):
        return Declined("advert", "rule-2")
    spawn(job, ctx, item, content_id)
    return None


def test_declined_entries_count_from_the_next_scan_on_and_never_as_missing() -> None:
    listing = Listing([*[f"ad-{n}" for n in range(10)], *[f"ad-{n}" for n in range(10)], *names(10)])
    host, spy = MemoryHost(extended=True), MissingSpy()
    handler = DiscoveryHandler(listing.fetch, same, decline_adverts, "proc", on_missing=spy)
    report = host.scan(handler)
    assert (report.declined, report.new) == (10, 10)
    assert host.handled == names(10)
    assert host.marks["proc::ad-3"] == "rule-2: advert"
    listing.start()
    assert host.scan(handler).ended is ScanEnd.PAGE_HIT
    assert listing.fetched == [1]
    listing.alive = names(10)
    host.scan(handler, {"scan_mode": "full"})
    assert spy.calls == []


def test_marks_that_show_at_once_do_not_end_the_scan_that_made_them() -> None:
    """A home-made context may answer `is_marked_seen` from a live set."""

    class Live(PlainContext):
        def __init__(self) -> None:
            super().__init__()
            self.live: set[str] = set()

        def mark_seen(self, uid: str) -> None:
            self.live.add(uid)

        def is_marked_seen(self, uid: str) -> bool:
            return uid in self.live

    listing = Listing([*["ad-1", "ad-2"] * 5, *["ad-1", "ad-2"] * 5, *names(10)])
    context = Live()
    DiscoveryHandler(listing.fetch, same, decline_adverts, "proc")(Job(), context)
    assert context.spawned == names(10)
    assert context.live == {"proc::ad-1", "proc::ad-2"}


def old_ids(item: str) -> list[str]:
    return [item.removeprefix("v2-")] if item.startswith("v2-") else []


def test_a_changed_id_scheme_brings_nothing_back() -> None:
    host, spy = MemoryHost(), MissingSpy()
    host.scan(make(Listing(names(30))))
    renamed = Listing(["v2-fresh", *[f"v2-{content_id}" for content_id in names(30)]])
    report = host.scan(make(renamed, alias_func=old_ids))
    assert host.handled[30:] == ["v2-fresh"]
    assert report.pages == 2
    host.scan(make(renamed, alias_func=old_ids, scan_mode="full", on_missing=spy))
    assert spy.calls == []


def is_pinned(item: str) -> bool:
    return item.startswith("pin-")


def test_a_page_of_seen_pinned_entries_hides_nothing() -> None:
    listing = Listing([f"pin-{n}" for n in range(10)] + names(30))
    plain, careful = MemoryHost(), MemoryHost()
    for host, options in ((plain, {}), (careful, {"pinned_func": is_pinned})):
        listing.alive = [f"pin-{n}" for n in range(10)] + names(30)
        host.scan(make(listing, **options))
        listing.alive.insert(10, "new")
        host.scan(make(listing, **options))
    assert "new" not in plain.handled
    assert careful.handled[-1] == "new"


def test_stop_after_asks_for_several_wholly_seen_pages() -> None:
    listing, host = Listing(names(60)), MemoryHost()
    host.wall.update(f"proc::{content_id}" for content_id in [*names(60)[:10], *names(60)[20:]])
    listing.start()
    host.scan(make(listing, stop_after=2))
    assert host.handled == names(60)[10:20]
    assert listing.fetched == [1, 2, 3, 4]


def test_stop_func_ends_with_success_and_debt() -> None:
    listing, host = Listing(names(60)), MemoryHost(extended=True)
    report = scan(host, listing, stop_func=lambda job, ctx, page: page > 2)
    assert (report.ended, report.pages, report.complete) == (ScanEnd.STOPPED, 2, False)
    assert host.debts == {"proc"}


def test_dry_run_lists_and_changes_nothing() -> None:
    listing, host, spy = Listing(names(15)), MemoryHost(extended=True), MissingSpy()
    host.wall.add("proc::gone")
    report = scan(host, listing, {"scan_mode": "full"}, dry_run=True, on_missing=spy)
    assert report.new_ids == tuple(names(15))
    assert report.dry_run
    assert (host.handled, host.debts, spy.calls) == ([], set(), [])
    assert make(listing).scan(Job(), PlainContext(), dry_run=True).new == 15


def test_report_says_what_happened() -> None:
    listing, host = Listing(names(25)), MemoryHost()
    host.wall.update(f"proc::{content_id}" for content_id in names(25)[3:7])
    report = scan(host, listing)
    assert (report.mode, report.pages, report.fetches, report.items) == ("incremental", 3, 4, 25)
    assert (report.new, report.seen, report.bad, report.declined, report.moved) == (21, 4, 0, 0, 0)
    assert (report.ended, report.complete, report.debt_before, report.debt_after) == (
        ScanEnd.EMPTY_PAGE, True, None, None
    )  # fmt: skip
    assert scan(host, listing, {"scan_mode": "full"}).digest == report.digest
    listing.insert("new")
    assert scan(host, listing, {"scan_mode": "full"}).digest != report.digest
    assert report.to_dict()["ended"] == "empty_page"


@pytest.mark.parametrize(
    "options",
    [{"max_pages": 0}, {"max_pages": True}, {"scan_mode": "x"}, {"stop_after": 0}, {"missing_share": 0},
     {"missing_share": 1.5}, {"continuity_rounds": 0}],
)  # fmt: skip
def test_bad_options_are_refused(options: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="must be"):
        make(Listing(), **options)
