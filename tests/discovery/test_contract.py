"""The contract's scenarios (V1) and the published behaviour of the reference implementation, design 6."""

from __future__ import annotations

import logging
import pickle
from typing import Any

import pytest

from hibor.discovery import DiscoveryHandler, ScanEnd, sanitize_content_id

from .listing import Job, Listing, MemoryHost, PlainContext, names, same, spawn


def make(listing: Listing, **options: Any) -> DiscoveryHandler:
    return DiscoveryHandler(listing.fetch, same, spawn, "proc", **options)


def run(
    host: MemoryHost, listing: Listing, payload: dict[str, Any] | None = None, **options: Any
) -> list[str]:
    """One scan; returns what it handed out."""
    listing.start()
    before = len(host.handled)
    host.scan(make(listing, **options), payload)
    return host.handled[before:]


def test_first_scan_reads_every_page_and_ends_on_the_empty_one() -> None:
    listing, host = Listing(names(25)), MemoryHost()
    assert run(host, listing) == names(25)
    assert listing.fetched == [1, 2, 3, 4]


def test_call_returns_true() -> None:
    assert make(Listing(names(5)))(Job(), PlainContext()) is True
    assert make(Listing(names(50)), max_pages=2)(Job(), PlainContext()) is True


def test_partly_seen_page_does_not_end_the_scan_and_a_wholly_seen_one_does() -> None:
    listing, host = Listing(names(40)), MemoryHost()
    for content_id in [*names(40)[:5], *names(40)[12:17], *names(40)[20:]]:
        host.wall.add(f"proc::{content_id}")
    assert run(host, listing) == [*names(40)[5:12], *names(40)[17:20]]
    assert listing.fetched == [1, 2, 3]


def test_failed_entries_count_as_seen() -> None:
    listing, host = Listing(names(30)), MemoryHost()
    host.failed.update(f"proc::{content_id}" for content_id in names(10))
    assert run(host, listing) == []
    assert listing.fetched == [1]


def test_rediscovery_takes_the_new_and_skips_the_old() -> None:
    listing, host = Listing(names(30)), MemoryHost()
    run(host, listing)
    listing.insert("n3", "n2", "n1")
    assert run(host, listing) == ["n3", "n2", "n1"]
    assert listing.fetched == [1, 2]
    assert run(host, listing) == []


@pytest.mark.parametrize("gone", [0, 15, 29])
def test_deletion_between_runs_loses_nothing_and_repeats_nothing(gone: int) -> None:
    listing, host = Listing(names(30)), MemoryHost()
    run(host, listing)
    listing.delete(names(30)[gone])
    listing.insert("new")
    assert run(host, listing) == ["new"]
    assert set(host.executions.values()) == {1}


def test_crash_before_the_wall_moved_means_a_full_rescan_and_duplicates_are_absorbed() -> None:
    listing, host = Listing(names(30)), MemoryHost()
    lost = host.context()
    make(listing).scan(Job(), lost)
    assert lost.spawned == names(30)
    listing.start()
    assert run(host, listing) == names(30)
    assert listing.fetched == [1, 2, 3, 4]
    assert set(host.executions.values()) == {1}


def test_fetch_error_passes_through_and_the_next_run_starts_from_page_1() -> None:
    listing, host = Listing(names(30)), MemoryHost()

    def broken(job: Any, ctx: Any, page: int) -> list[str]:
        if page == 2:
            raise ConnectionError("link lost")
        return listing.fetch(job, ctx, page)

    with pytest.raises(ConnectionError):
        DiscoveryHandler(broken, same, spawn, "proc").scan(Job(), host.context())
    assert run(host, listing) == names(30)


@pytest.mark.parametrize("value", [None, "", "text", {}, False, 0, {"a"}, iter([])])
def test_fetch_that_returns_no_list_is_an_error_even_when_it_is_empty(value: Any) -> None:
    handler = DiscoveryHandler(lambda job, ctx, page: value, same, spawn, "proc")
    with pytest.raises(ValueError, match="list"):
        handler(Job(), PlainContext())


def test_tuples_are_lists() -> None:
    handler = DiscoveryHandler(lambda job, ctx, page: ("a",) if page == 1 else (), same, spawn, "proc")
    context = PlainContext()
    assert handler(Job(), context)
    assert context.spawned == ["a"]


def test_full_mode_walks_past_seen_pages_and_skips_seen_entries() -> None:
    listing, host = Listing(names(30)), MemoryHost()
    host.wall.update(f"proc::{content_id}" for content_id in names(30)[:25])
    assert run(host, listing, scan_mode="full") == names(30)[25:]
    assert listing.fetched == [1, 2, 3, 4]


def test_payload_overrides_mode_and_pages() -> None:
    listing, host = Listing(names(50)), MemoryHost()
    assert run(host, listing, {"max_pages": 2}) == names(50)[:20]
    assert run(host, listing, {"scan_mode": "full"}) == names(50)[20:]


@pytest.mark.parametrize(
    "payload",
    [{"max_pages": 0}, {"max_pages": True}, {"max_pages": "3"}, {"max_pages": 1.0}, {"scan_mode": "fast"}],
)
def test_bad_payload_options_are_refused(payload: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="in payload"):
        make(Listing(names(3)))(Job(payload), PlainContext())


def test_max_pages_stops_loudly_with_success_and_is_not_complete(caplog: pytest.LogCaptureFixture) -> None:
    listing, host = Listing(names(50)), MemoryHost()
    with caplog.at_level(logging.WARNING):
        report = host.scan(make(listing, max_pages=2))
    assert report.ended is ScanEnd.MAX_PAGES
    assert not report.complete
    assert "max_pages=2" in caplog.text


class MissingSpy:
    def __init__(self) -> None:
        self.calls: list[list[str]] = []

    def __call__(self, job: Any, ctx: Any, content_ids: list[str]) -> None:
        self.calls.append(content_ids)


def full(listing: Listing, spy: MissingSpy, **options: Any) -> DiscoveryHandler:
    return make(listing, scan_mode="full", on_missing=spy, **options)


def test_on_missing_gets_what_vanished_sorted_and_only_then() -> None:
    listing, host, spy = Listing(names(30)), MemoryHost(), MissingSpy()
    host.scan(full(listing, spy))
    assert spy.calls == []
    gone = [names(30)[3], names(30)[17], names(30)[29]]
    for content_id in gone:
        listing.delete(content_id)
    host.scan(full(listing, spy))
    assert spy.calls == [sorted(gone)]


def test_incremental_never_reports_missing() -> None:
    listing, host, spy = Listing(names(30)), MemoryHost(), MissingSpy()
    host.wall.add("proc::gone")
    host.scan(make(listing, on_missing=spy))
    assert spy.calls == []


def test_mode_in_payload_decides_about_missing_and_what_was_found() -> None:
    listing, host, spy = Listing(names(30)), MemoryHost(), MissingSpy()
    host.wall.update({"proc::gone", f"proc::{names(30)[0]}"})
    host.scan(make(listing, on_missing=spy), {"scan_mode": "full"})
    assert spy.calls == [["gone"]]


def test_truncated_full_scan_never_reports_missing() -> None:
    listing, host, spy = Listing(names(50)), MemoryHost(), MissingSpy()
    host.wall.update(f"proc::{content_id}" for content_id in names(50))
    host.scan(full(listing, spy, max_pages=2))
    assert spy.calls == []


def test_scan_whose_every_id_failed_stops_and_never_reports_missing(caplog: pytest.LogCaptureFixture) -> None:
    host, spy = MemoryHost(), MissingSpy()
    host.wall.add("proc::x")

    def no_id(item: Any) -> str:
        raise KeyError("id")

    handler = DiscoveryHandler(
        Listing(names(30)).fetch, no_id, spawn, "proc", scan_mode="full", on_missing=spy
    )
    with caplog.at_level(logging.ERROR):
        report = host.scan(handler)
    assert report.ended is ScanEnd.NO_IDS
    assert (report.pages, report.bad, report.complete) == (1, 10, False)
    assert spy.calls == []
    assert "not one id" in caplog.text


@pytest.mark.parametrize("bad", ["", None, 7, "\ud800"])
def test_one_item_without_id_is_skipped_and_makes_missing_silent(bad: Any) -> None:
    host, spy = MemoryHost(), MissingSpy()
    host.wall.add("proc::gone")
    pages = {1: ["a", bad, "b"], 2: ["c"]}
    handler = DiscoveryHandler(
        lambda job, ctx, page: pages.get(page, []), same, spawn, "proc", scan_mode="full", on_missing=spy
    )
    report = host.scan(handler)
    assert host.handled == ["a", "b", "c"]
    assert report.bad == 1
    assert spy.calls == []


def test_process_error_skips_one_item_and_the_next_run_retries_it() -> None:
    listing, host = Listing(names(5)), MemoryHost()
    broken = {names(5)[2]}

    def sometimes(job: Any, ctx: Any, item: Any, content_id: str) -> None:
        if item in broken:
            raise RuntimeError("detail page")
        spawn(job, ctx, item, content_id)

    handler = DiscoveryHandler(listing.fetch, same, sometimes, "proc")
    host.scan(handler)
    assert host.handled == [*names(5)[:2], *names(5)[3:]]
    broken.clear()
    host.scan(handler)
    assert host.handled[-1] == names(5)[2]


def test_bad_on_missing_does_not_fail_the_job(caplog: pytest.LogCaptureFixture) -> None:
    listing, host = Listing(names(5)), MemoryHost()
    host.wall.add("proc::gone")

    def broken(job: Any, ctx: Any, content_ids: list[str]) -> None:
        raise RuntimeError("disk full")

    with caplog.at_level(logging.ERROR):
        assert make(listing, scan_mode="full", on_missing=broken)(Job(), host.context()) is True
    assert "disk full" in caplog.text


def key_of(payload: dict[str, Any]) -> str:
    return payload["key"]  # type: ignore[no-any-return]


KEYS = ["a", "ab", "研报", "x" * 95, "k%_::", "y" * 50]


@pytest.mark.parametrize("key", KEYS)
def test_namespaces_sharing_a_task_type_report_only_their_own(key: str) -> None:
    host = MemoryHost()
    listings = {
        other: Listing([f"{other[:3]}-{n}" for n in range(12)]) for other in [*KEYS, "b", "abc", "x" * 94]
    }
    for other, listing in listings.items():
        host.scan(
            DiscoveryHandler(listing.fetch, same, spawn, "proc", cursor_key_func=key_of), {"key": other}
        )
    host.wall.update({"proc::plain", "other::1%3Aazz", "proc::" + sanitize_content_id("long" * 50)})
    spy, own = MissingSpy(), listings[key]
    gone = own.alive[4]
    own.delete(gone)
    handler = DiscoveryHandler(
        own.fetch, same, spawn, "proc", cursor_key_func=key_of, scan_mode="full", on_missing=spy
    )
    host.scan(handler, {"key": key})
    assert spy.calls == [[sanitize_content_id(f"{len(key)}:{key}{gone}")]]


def test_missing_with_cut_ids_of_ones_own_namespace() -> None:
    host, spy = MemoryHost(), MissingSpy()
    listing = Listing([f"{'long-' * 40}{n}" for n in range(12)])
    options: dict[str, Any] = {"cursor_key_func": key_of}
    host.scan(make(listing, **options), {"key": "mine"})
    host.scan(make(listing, **options), {"key": "mind"})
    gone = listing.alive.pop(3)
    host.scan(full(listing, spy, **options), {"key": "mine"})
    assert spy.calls == [[sanitize_content_id(f"4:mine{gone}")]]


def test_keys_too_long_to_tell_apart_are_left_out() -> None:
    host, spy = MemoryHost(), MissingSpy()
    mine, other = "k" * 150, "k" * 149 + "z"
    options: dict[str, Any] = {"cursor_key_func": key_of}
    listing = Listing(names(12))
    host.scan(make(listing, **options), {"key": mine})
    host.scan(make(Listing(names(30)), **options), {"key": other})
    host.scan(full(listing, spy, **options), {"key": mine})
    assert spy.calls == []


def test_plain_handler_leaves_out_ids_that_read_like_another_namespace() -> None:
    host, spy = MemoryHost(), MissingSpy()
    listing = Listing(["4:abcX", "3:abcX", "03:abcX", "12:30 report", "keep"])
    host.scan(make(listing))
    listing.alive = ["keep"]
    host.wall.update(
        {"proc::" + sanitize_content_id("3:abc" + "z" * 200), "proc::not escaped", "proc::%untitled"}
    )
    host.scan(full(listing, spy))
    assert spy.calls == [sorted(map(sanitize_content_id, ["4:abcX", "03:abcX", "12:30 report"]))]


@pytest.mark.parametrize("key", ["", None, 5])
def test_bad_namespace_key_fails_the_job(key: Any) -> None:
    with pytest.raises(ValueError, match="cursor_key_func"):
        make(Listing(names(3)), cursor_key_func=key_of)(Job({"key": key}), PlainContext())


def test_an_item_listed_twice_in_one_scan_is_handed_out_once() -> None:
    listing, host = Listing(["a", "b", "a", "c"], page_size=2), MemoryHost()
    assert run(host, listing) == ["a", "b", "c"]


def test_own_finds_of_this_scan_never_count_as_seen() -> None:
    """A listing that shows its first page twice must not end the scan above page 3."""
    pages = {1: ["a", "b"], 2: ["a", "b"], 3: ["c"]}
    host = MemoryHost()
    host.scan(DiscoveryHandler(lambda job, ctx, page: pages.get(page, []), same, spawn, "proc"))
    assert host.handled == ["a", "b", "c"]


def test_the_scanner_asks_plain_contexts_for_nothing_but_the_extensions() -> None:
    asked: set[str] = set()

    class Watched(PlainContext):
        def __getattr__(self, name: str) -> Any:
            asked.add(name)
            raise AttributeError(name)

    listing, spy = Listing(names(5)), MissingSpy()
    full(listing, spy)(Job(), Watched({"proc::gone"}))
    assert asked <= {"scan_debt", "set_scan_debt", "mark_seen", "is_marked_seen"}
    assert spy.calls == [["gone"]]


def test_handler_is_picklable_and_scans_after_it() -> None:
    handler = DiscoveryHandler(module_fetch, same, spawn, "proc")
    context = PlainContext()
    assert pickle.loads(pickle.dumps(handler))(Job(), context) is True
    assert context.spawned == ["only"]


def module_fetch(job: Any, ctx: Any, page: int) -> list[str]:
    return ["only"] if page == 1 else []
