"""Hypothesis drives a listing that moves at any moment, also between two fetches, against the truth."""

from __future__ import annotations

import contextlib
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hibor.discovery import DiscoveryHandler

from .listing import Job, Listing, MemoryHost, names, same, spawn

PAGE = 4
# Eight bumped entries can bury a new one under two wholly seen pages; `stop_after` looks one page further.
BURY = 3

moves = st.tuples(
    st.sampled_from(["insert", "delete", "bump", "fail_item", "break_fetch"]), st.integers(0, 40)
)
script = st.lists(st.tuples(st.integers(0, 25), moves), max_size=8)


class World:
    """A moving listing, a host, and callbacks that fail when told to."""

    def __init__(self, *, extended: bool) -> None:
        self.listing = Listing(names(18), page_size=PAGE)
        self.host = MemoryHost(extended=extended)
        self.fresh = 0
        self.failing: set[str] = set()
        self.broken_fetch = False
        self.ever = set(self.listing.alive)

    def move(self, what: str, where: int) -> None:
        alive = self.listing.alive
        chosen = alive[where % len(alive)] if alive else ""
        if what == "insert":
            self.fresh += 1
            self.listing.insert(f"new-{self.fresh}")
            self.ever.add(f"new-{self.fresh}")
        elif what == "delete":
            self.listing.delete(chosen)
        elif what == "bump":
            self.listing.bump(chosen)
        elif what == "fail_item":
            self.failing.add(chosen)
        else:
            self.broken_fetch = True

    def fetch(self, job: Any, ctx: Any, page: int) -> list[str]:
        items = self.listing.fetch(job, ctx, page)
        if self.broken_fetch:
            self.broken_fetch = False
            raise ConnectionError
        return items

    def process(self, job: Any, ctx: Any, item: Any, content_id: str) -> None:
        if item in self.failing:
            self.failing.discard(item)
            raise RuntimeError(item)
        spawn(job, ctx, item, content_id)

    def handler(self, **options: Any) -> DiscoveryHandler:
        return DiscoveryHandler(self.fetch, same, self.process, "proc", **options)

    def scan(self, **options: Any) -> None:
        self.listing.start()
        with contextlib.suppress(ConnectionError):
            self.host.scan(self.handler(**options))
        self.listing.before_fetch.clear()

    def unread(self) -> set[str]:
        return {name for name in self.listing.alive if f"proc::{name}" not in self.host.wall}


@settings(deadline=None)
@given(scans=st.lists(script, min_size=1, max_size=4), max_pages=st.integers(1, 12), resume=st.booleans())
def test_quiet_scans_after_any_history_find_everything_once(
    scans: list[list[tuple[int, tuple[str, int]]]], max_pages: int, resume: bool
) -> None:
    """Moves between scans, broken fetches, failing entries, cut scans: with debt nothing stays hidden."""
    world = World(extended=True)
    for moves_of_scan in scans:
        for at, (what, where) in moves_of_scan:
            if what in ("fail_item", "break_fetch"):
                world.listing.at(at, lambda what=what, where=where: world.move(what, where))  # type: ignore[misc]
            else:
                world.move(what, where)
        world.scan(max_pages=max_pages, resume=resume, continuity=True, stop_after=BURY)
    world.failing.clear()
    world.broken_fetch = False
    world.scan(continuity=True, resume=resume, stop_after=BURY)
    assert world.unread() == set()
    assert world.host.debts == set()
    assert set(world.host.executions.values()) <= {1}


@settings(deadline=None)
@given(scans=st.lists(st.tuples(st.integers(1, 20), moves), min_size=1, max_size=4))
def test_one_move_between_two_fetches_of_each_scan_hides_nothing(
    scans: list[tuple[int, tuple[str, int]]],
) -> None:
    """Whatever moves once while a scan pages, that scan or the next quiet one has it."""
    world = World(extended=True)
    for at, (what, where) in scans:
        world.listing.at(at, lambda what=what, where=where: world.move(what, where))  # type: ignore[misc]
        world.scan(continuity=True, stop_after=BURY)
    world.failing.clear()
    world.broken_fetch = False
    world.scan(continuity=True, stop_after=BURY)
    assert world.unread() == set()
    assert set(world.host.executions.values()) <= {1}


@settings(deadline=None)
@given(deletions=st.lists(st.tuples(st.integers(1, 20), st.integers(0, 40)), max_size=10))
def test_any_number_of_deletions_while_paging_hides_nothing(deletions: list[tuple[int, int]]) -> None:
    """Deletions only pull up, so nothing can cancel out: one scan finds all that is left."""
    world = World(extended=False)
    for at, where in deletions:
        world.listing.at(at, lambda where=where: world.move("delete", where))  # type: ignore[misc]
    world.scan(continuity=True)
    assert world.unread() == set()


@settings(deadline=None)
@given(script=st.lists(st.tuples(st.integers(1, 30), moves), max_size=8))
def test_a_full_scan_never_calls_a_listed_entry_missing(script: list[tuple[int, tuple[str, int]]]) -> None:
    """Confirmed over two scans, `on_missing` only names entries that are gone."""
    world = World(extended=True)
    world.scan()
    reported: set[str] = set()

    def remember(job: Any, ctx: Any, content_ids: list[str]) -> None:
        reported.update(content_ids)

    for index, (at, (what, where)) in enumerate(script):
        if what in ("insert", "delete"):
            world.listing.at(at, lambda what=what, where=where: world.move(what, where))  # type: ignore[misc]
        if index % 2:
            world.scan(scan_mode="full", on_missing=remember, confirm_missing=True, continuity=True)
            assert reported.isdisjoint(world.listing.alive)


@given(st.lists(st.sampled_from(["insert", "delete"]), max_size=12), st.integers(0, 40))
def test_between_runs_the_plain_contract_is_immune(between: list[str], where: int) -> None:
    world = World(extended=False)
    world.scan()
    for what in between:
        world.move(what, where)
    context = world.host.context()
    world.handler()(Job(), context)
    world.host.commit(context)
    assert world.unread() == set()
    assert set(world.host.executions.values()) <= {1}


def test_bumped_entries_bury_a_new_one_unless_stop_after_looks_further() -> None:
    for stop_after, hidden in ((1, {"new-1"}), (2, set())):
        world = World(extended=True)
        world.scan()
        world.move("insert", 0)
        for _ in range(PAGE):
            world.move("bump", 10)
        world.scan(stop_after=stop_after)
        assert world.unread() == hidden


pairs = st.lists(
    st.tuples(st.integers(1, 20), st.sampled_from(["insert", "delete", "bump"]), st.integers(0, 40)),
    max_size=2,
)


@settings(deadline=None)
@given(pair=pairs, fresh=st.integers(0, 14), known=st.booleans())
def test_two_moves_in_one_scan_that_may_cancel_each_other_hide_nothing(
    pair: list[tuple[int, str, int]], fresh: int, known: bool
) -> None:
    world = World(extended=True)
    if known:
        world.scan(continuity=True)
        world.listing.insert(*[f"fresh-{n}" for n in range(fresh)])
    for at, what, where in pair:
        world.listing.at(at, lambda what=what, where=where: world.move(what, where))  # type: ignore[misc]
    world.scan(continuity=True)
    world.scan(continuity=True)
    assert world.unread() == set()


@pytest.mark.parametrize(
    "moves_of_scan",
    [
        [(8, "insert", 2), (5, "delete", 37), (10, "delete", 27), (4, "delete", 38)],
        [(8, "insert", 2), (4, "insert", 30), (10, "delete", 8), (6, "delete", 24)],
        [(5, "delete", 1), (7, "delete", 0), (7, "delete", 30), (6, "insert", 11)],
        [(5, "delete", 26), (11, "insert", 3), (7, "delete", 18), (6, "insert", 33)],
    ],
)
def test_moves_that_hide_an_entry_from_every_re_read_but_the_last_pass(
    moves_of_scan: list[tuple[int, str, int]],
) -> None:
    """Found by search: without reading all pages once more after a movement, each loses one entry."""
    world = World(extended=True)
    for at, what, where in moves_of_scan:
        world.listing.at(at, lambda what=what, where=where: world.move(what, where))  # type: ignore[misc]
    world.scan(continuity=True)
    world.scan(continuity=True)
    assert world.unread() == set()
