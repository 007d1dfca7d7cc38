"""The catalogue over the real simulated phone: a list that moves, that never ends, that is cut off (design
6).

Rules of this file: what the list holds is read from the phone's own state, never from what the collector
saw. A phone keeps its state folder, so a test that changes the list between two scans changes it between
two lives of the phone.
"""

from __future__ import annotations

import json
import os
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from datetime import date, datetime, timedelta
from pathlib import Path
from typing import Any

import attrs
import pytest

from hibor.clock import Clock
from hibor.collect.feed import ENTRY_TASK, FeedReading, read_feed, scan_key
from hibor.collect.selection import Holdings, choose
from hibor.device.errors import DeviceError
from hibor.discover import EXIT_DONE, EXIT_INCOMPLETE, EXIT_USAGE, EXIT_VANISHED
from hibor.discover import main as discover_main
from hibor.discovery import ScanEnd
from hibor.hosts.local import LocalHost
from hibor.hosts.local_reading import CatalogueEntry as CatalogueRow
from hibor.sim.feed import ServerFeed
from hibor.sim.scenario import parse_scenario
from hibor.sim.server import PrivateAdbServer
from hibor.sim.state import PHONE_ZONE, StateStore
from hibor.task import QuotaTask, Select, Task
from tests.device.phones import PROFILE, Bench, bench

QUICK = "[pace]\ndump_s = 0.1\nload_s = 0.1\ninject_s = 0.02\ntap_s = 0.1\nstart_s = 0.1\n"
SWIFT = attrs.evolve(PROFILE, pace=attrs.evolve(PROFILE.pace, max_dump_age_s=12.0))
EVER = 40_000
"""Days of a horizon that no report of the simulated phone is older than."""
LONG = "[feed]\nreports = 80\n"


@pytest.fixture(scope="module")
def adb_server() -> Iterator[PrivateAdbServer]:
    with PrivateAdbServer() as server:
        yield server


class World:
    """One phone with its catalogue, over as many lives of the phone as a test needs."""

    def __init__(self, server: PrivateAdbServer, folder: Path) -> None:
        self.server, self.folder = server, folder
        self.catalogue = folder / "catalogue.sqlite3"
        self.scenario = ""

    @contextmanager
    def phone(self, scenario: str = "", scale: float = 40.0) -> Iterator[Phone]:
        """A life of the phone, on its list."""
        self.scenario = QUICK + scenario
        with bench(self.server, self.folder, self.scenario, profile=SWIFT, scale=scale) as made:
            made.app.open_app()
            yield Phone(self, made)

    def listed(self) -> list[str]:
        """What the app's server lists, newest first."""
        return [report.report_id for report in self._feed().reports()]

    def ever(self) -> set[str]:
        """All reports there ever were."""
        feed, state = self._feed(), self._state()
        return {report.report_id for report in feed.reports()} | set(state["deleted"])

    def _feed(self) -> ServerFeed:
        settings = parse_scenario('description = "test"\n' + self.scenario).feed
        return ServerFeed(settings, StateStore(self.folder / "state", datetime.now(PHONE_ZONE)).state)

    def _state(self) -> dict[str, Any]:
        state: dict[str, Any] = json.loads((self.folder / "state" / "state.json").read_bytes())
        return state

    def struck(self, kind: str) -> bool:
        """Whether a fault of this kind had its turn."""
        return any(
            key.split(":")[1] == kind and count for key, count in self._state()["fault_counts"].items()
        )

    def change(self, *, insert: list[datetime] | None = None, delete: list[str] | None = None) -> None:
        """Between two lives: new reports on top, the last of `insert` topmost; others taken off."""
        state = self._state()
        for published in insert or ():
            number = state["feed_reports"] + len(state["inserted"]) + 1
            state["inserted"].append({"number": number, "published": published.isoformat()})
        state["deleted"] += delete or []
        (self.folder / "state" / "state.json").write_text(json.dumps(state), encoding="utf-8")

    def rows(self) -> list[CatalogueRow]:
        """The catalogue, newest first."""
        with LocalHost(self.catalogue) as host:
            return list(host.entries(ENTRY_TASK))

    def ids(self) -> list[str]:
        """The catalogue's reports, newest first."""
        return [str(row.entry["report_id"]) for row in self.rows()]

    def owes(self) -> bool:
        """Whether the list still has a stretch nobody has read."""
        with LocalHost(self.catalogue) as host:
            return scan_key("home") in host.debts()


class LookClock:
    """A clock by which every question for the time takes a second: a budget of N is N questions."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._asked = 0

    def now(self) -> datetime:
        return self._clock.now()

    def monotonic_s(self) -> float:
        self._asked += 1
        return float(self._asked)

    def sleep(self, wait_s: float) -> None:
        self._clock.sleep(wait_s)


@attrs.frozen
class Phone:
    """A living phone of a world."""

    world: World
    bench: Bench

    def scan(
        self,
        since_days: int | None = EVER,
        budget_s: float = float("inf"),
        *,
        catalogue: Path | None = None,
        clock: Clock | None = None,
        **more: Any,
    ) -> FeedReading:
        """One scan."""
        app, place = self.bench.app, catalogue or self.world.catalogue
        today = app.looker.phone_now().date()
        clock = clock or self.bench.clock
        return read_feed(app, clock, place, since_days=since_days, today=today, budget_s=budget_s, **more)


@pytest.fixture
def world(adb_server: PrivateAdbServer, tmp_path: Path) -> World:
    return World(adb_server, tmp_path)


def fault(kind: str, site: str = "swipe", **values: Any) -> str:
    lines = "".join(f"{key} = {json.dumps(value)}\n" for key, value in {"site": site, **values}.items())
    return f'\n[[fault]]\nkind = "{kind}"\n{lines}'


SHORT = "[feed]\nreports = 26\npinned = [25]\n"
MOVES = {
    "inserted_while_read": SHORT
    + fault("feed_insert", call=6, amount=3)
    + fault("feed_insert", "dump", call=9, amount=2),
    "read_ones_deleted": SHORT + fault("feed_delete", call=6, amount=4),
    "deleted_in_sight": SHORT
    + fault("feed_delete", "dump", call=6, report=12)
    + fault("feed_delete", call=7, report=20),
    "refreshed": SHORT + fault("feed_refresh", call=7),
    "half_swipes": SHORT + fault("swipe_factor", call=1, times=0, factor=0.45),
    "swipes_too_far": SHORT + fault("swipe_factor", call=5, times=3, factor=1.9),
    "lost_swipes": SHORT
    + fault("swipe_factor", call=5, factor=0.0)
    + fault("swipe_factor", call=7, times=2, factor=0.0),
    "loading_fails": SHORT + fault("load_fails", "load", call=1),
    "loading_sticks": SHORT + fault("load_stuck", "load", call=1),
    "old_dumps": SHORT + fault("dump_stale", "dump", call=5) + fault("dump_stale", "dump", call=8),
    "adverts_and_pins": "[feed]\nreports = 20\nadverts_every = 2\npinned = [3, 9]\nnotices = ['公告']\n",
    "everything": "[feed]\nreports = 30\nadverts_every = 3\npinned = [2, 25]\n"
    + fault("swipe_factor", call=1, times=0, factor=0.7)
    + fault("feed_insert", call=7, amount=2)
    + fault("feed_delete", call=8, report=15)
    + fault("feed_delete", call=9, amount=2)
    + fault("load_fails", "load", call=1)
    + fault("dump_stale", "dump", call=9),
}


FEW = ("inserted_while_read", "deleted_in_sight", "refreshed", "half_swipes", "everything")
"""What is played without HIBOR_DEEP=1; the last one holds a little of all."""


@pytest.mark.parametrize("name", MOVES if os.environ.get("HIBOR_DEEP") == "1" else FEW)
def test_nothing_lost_and_nothing_twice_while_the_list_moves(world: World, name: str) -> None:
    with world.phone(MOVES[name]) as phone:
        for _ in range(4):
            reading = phone.scan()
            if reading.incomplete is None and set(world.listed()) <= set(world.ids()):
                break
        assert reading.incomplete is None
    for line in MOVES[name].splitlines():
        if line.startswith("kind"):
            assert world.struck(line.split('"')[1]), line
    found = world.ids()
    assert set(world.listed()) <= set(found) <= world.ever()
    assert len(found) == len(set(found))
    assert [one for one in found if one in world.listed()] == world.listed(), (
        "the catalogue keeps the list's order"
    )
    assert not world.owes()


def test_a_quiet_day_costs_two_screens(world: World) -> None:
    with world.phone() as phone:
        first = phone.scan()
        assert first.report.new == 40 and first.report.ended == ScanEnd.LAST_PAGE
        quiet = phone.scan()
    assert (quiet.screens, quiet.report.new, quiet.report.ended) == (2, 0, ScanEnd.PAGE_HIT)
    assert quiet.incomplete is None
    assert [entry.report_id for entry in quiet.entries] == world.listed()


def test_pinned_rows_and_adverts_are_no_entries(world: World) -> None:
    """The pinned report is days older than what is read, at whatever hour this runs."""
    with world.phone("[feed]\nreports = 80\npinned = [80]\nadverts_every = 3\n") as phone:
        reading = phone.scan(since_days=1)
    assert world.listed()[-1] not in {entry.report_id for entry in reading.entries}


def test_an_endless_list_is_read_in_budgets_and_never_begun_anew(world: World) -> None:
    readings = list[FeedReading]()
    moves = LONG + fault("feed_insert", call=20, amount=7) + fault("feed_delete", call=40, report=9)
    with world.phone(moves) as phone:
        while not readings or readings[-1].incomplete is not None:
            assert len(readings) < 12
            readings.append(phone.scan(budget_s=6.0, clock=LookClock(phone.bench.clock)))
            assert readings[-1].report.new, "every scan goes on where the one before had ended"
            if readings[-1].incomplete is not None:
                assert "budget" in readings[-1].incomplete and world.owes()
        assert len(readings) >= 3
        assert any(one.report.skipped_to is not None for one in readings)
        whole = len(world.listed()) / 4
        assert sum(one.screens for one in readings) < whole + 8 * len(readings)
    with world.phone(moves) as phone:
        phone.scan()
        assert phone.scan().report.pages <= 4
    assert set(world.listed()) <= set(world.ids())
    assert [one for one in world.ids() if one in world.listed()] == world.listed()


def test_the_budget_bounds_a_scan(world: World) -> None:
    with world.phone(LONG) as phone:
        reading = phone.scan(budget_s=0.0)
        assert reading.incomplete == "the budget of 0 s is used up"
        assert reading.screens == 1 and reading.report.new >= 5
        assert [entry.report_id for entry in reading.entries] == world.listed()[: len(reading.entries)]


def test_a_jump_that_passes_its_place_comes_back_to_it(world: World) -> None:
    """Reports above the place were deleted since: it is nearer than it was, and below it every row is
    unknown.
    """
    with world.phone(LONG) as phone:
        first = phone.scan(max_pages=9)
        assert first.report.ended == ScanEnd.MAX_PAGES
    world.change(delete=world.listed()[8:30])
    with world.phone(LONG) as phone:
        second = phone.scan(max_pages=4)
        assert second.report.skipped_to is not None and second.report.new >= 12
        assert phone.scan().incomplete is None
    assert set(world.listed()) <= set(world.ids())


def test_a_place_that_is_gone_is_given_up_and_the_list_walked(world: World) -> None:
    with world.phone(LONG) as phone:
        phone.scan(max_pages=4)
        known = world.ids()
    world.change(delete=known[8:])
    with world.phone(LONG) as phone:
        reading = phone.scan()
        assert reading.incomplete is None and reading.report.skipped_to is None
    assert set(world.listed()) <= set(world.ids())


def test_the_link_drops_and_the_next_scan_closes_the_debt(world: World) -> None:
    drop = fault("link_drop", "shell", call=9, match="uiautomator")
    with world.phone(drop) as phone:
        cut = phone.scan()
        assert cut.failure == "link_lost" and cut.incomplete is not None
        assert 0 < len(cut.entries) < 40 and world.owes()
    with world.phone() as phone:
        closed = phone.scan()
        assert closed.incomplete is None and closed.report.skipped_to is not None
        assert closed.report.new == 40 - len(cut.entries)
    assert world.ids() == world.listed() and not world.owes()


def test_the_link_drops_on_the_way_to_the_place_and_the_place_is_kept(world: World) -> None:
    with world.phone(LONG) as phone:
        phone.scan(max_pages=12)
        known = len(world.ids())
    with world.phone(LONG + fault("link_drop", "shell", call=12, match="swipe")) as phone:
        cut = phone.scan()
        assert cut.incomplete is not None and cut.failure == "link_lost" and cut.report.new == 0
    with world.phone(LONG) as phone:
        on = phone.scan(max_pages=2)
        assert on.report.skipped_to is not None and on.report.new >= 1
        assert len(world.ids()) == known + on.report.new


def test_not_even_the_first_screen_is_an_error_and_owes(world: World) -> None:
    with world.phone() as phone:
        phone.scan()
        with bench_broken(phone), pytest.raises(DeviceError):
            phone.scan()
    assert len(world.ids()) == 40


@contextmanager
def bench_broken(phone: Phone) -> Iterator[None]:
    """The adb server does not reach the phone."""
    address = phone.bench.device.serial
    phone.world.server.disconnect(address)
    try:
        yield
    finally:
        phone.world.server.connect(address)


# -- horizon


def test_a_horizon_is_read_to_its_end_and_no_further_and_a_deeper_one_past_known_pages(world: World) -> None:
    with world.phone() as phone:
        today = phone.bench.app.looker.phone_now().date()
        near = phone.scan(since_days=1)
        assert near.incomplete is None and near.report.ended == ScanEnd.LAST_PAGE and not world.owes()
        inside = [
            one
            for one in near.entries
            if one.date and date.fromisoformat(one.date) >= today - timedelta(days=1)
        ]
        assert 8 <= len(inside) < near.report.new < 34, "one screen beyond, and no more"
        assert phone.scan(since_days=1).report.pages == 2
        deep = phone.scan(since_days=3)
        assert deep.report.mode == "full" and deep.report.new > 0, "known pages do not end it"
        assert phone.scan(since_days=3).report.pages == 2
        assert phone.scan(since_days=1).report.pages == 2, "a nearer horizon is proven too"
        phone.scan()
    assert world.ids() == world.listed()


def test_one_old_report_among_new_ones_is_not_the_horizon(world: World) -> None:
    """Uploaded late: the list is newest first, its days are not. A small swipe shows it alone."""
    with world.phone("[feed]\nreports = 20\nadverts_every = 0\n") as phone:
        now = phone.bench.app.looker.phone_now()
    late, fresh = now - timedelta(days=30), now + timedelta(minutes=1)
    world.change(insert=[late, *[fresh + timedelta(minutes=n) for n in range(7)]])
    small = "[feed]\nreports = 20\nadverts_every = 0\n" + fault("swipe_factor", call=1, times=0, factor=0.25)
    with world.phone(small) as phone:
        reading = phone.scan(since_days=2)
        assert reading.incomplete is None
    within = [
        row for row in world.rows() if str(row.entry["date"]) >= (now.date() - timedelta(days=2)).isoformat()
    ]
    assert len(within) >= 7 + 12
    assert set(world.listed()[:20]) <= set(world.ids())


# -- the catalogue


def test_a_report_that_comes_back_is_listed_again(world: World) -> None:
    with world.phone() as phone:
        phone.scan(since_days=None)
    gone = world.listed()[5]
    world.change(delete=[gone])
    with world.phone() as phone:
        assert phone.scan(since_days=None).vanished == (), "one scan is no proof"
        assert phone.scan(since_days=None).vanished == (gone,)
        assert gone not in {entry.report_id for entry in phone.scan().entries}
    state = world.folder / "state" / "state.json"
    state.write_text(state.read_text("utf-8").replace(f'"{gone}"', "").replace("[, ", "["), encoding="utf-8")
    with world.phone() as phone:
        assert gone in {entry.report_id for entry in phone.scan(since_days=None).entries}
    assert [row.vanished_at for row in world.rows()] == [None] * 40


def test_a_dry_run_changes_nothing(world: World) -> None:
    with world.phone() as phone:
        dry = phone.scan(dry_run=True)
        assert dry.report.new == 40 and len(dry.entries) == 40 and not world.catalogue.exists()
        phone.scan(since_days=1)
        with LocalHost(world.catalogue):
            pass
        before = dump(world.catalogue)
        again = phone.scan(dry_run=True)
        assert 0 < again.report.new < 40 and dump(world.catalogue) == before
        assert [entry.report_id for entry in again.entries] == [entry.report_id for entry in dry.entries]


def dump(path: Path) -> list[str]:
    """Everything in a database."""
    with closing(sqlite3.connect(path)) as connection:
        return list(connection.iterdump())


def test_selection_is_newest_first_over_many_scans(world: World) -> None:
    """Interrupted, gone on with, and with new reports on top in between: the catalogue is in the list's
    order.
    """
    task = attrs.evolve(
        Task.embedded(), count=60, quota=QuotaTask(limit=60, new_max=60), select=Select(since_days=9000)
    )
    holdings = Holdings(copies={}, cached={}, likeness={})
    scenario = "[feed]\nreports = 30\npinned = []\n"
    with world.phone(scenario) as phone:
        now = phone.bench.app.looker.phone_now()
        phone.scan(max_pages=3)
    for round_number, pages in enumerate((1, 3, None)):
        world.change(insert=[now + timedelta(minutes=10 * round_number + n) for n in range(3)])
        with world.phone(scenario) as phone:
            reading = phone.scan(max_pages=pages)
        selected, spare, _ = choose(reading.entries, task, now.date(), holdings)
        places = [world.listed().index(choice.entry.report_id) for choice in (*selected, *spare)]
        assert places == sorted(places), round_number
    with world.phone(scenario) as phone:
        assert [entry.report_id for entry in phone.scan().entries] == world.listed()


# -- python -m hibor.discover


def discover(world: World, capsys: pytest.CaptureFixture[str], *options: str) -> tuple[int, str, str]:
    """(exit code, stdout, stderr) of the command on a phone of the world's state folder."""
    scenario = world.folder / "scenario.toml"
    scenario.write_text(f'description = "test"\n{world.scenario}', encoding="utf-8")
    base = ["--library", str(world.folder / "library"), "--scenario", str(scenario), "--time-scale", "40"]
    code = discover_main([*base, "--lang", "en", *options])
    captured = capsys.readouterr()
    return code, captured.out, captured.err


def test_the_command_tells_what_it_did_by_its_exit_code(
    tmp_path: Path, adb_server: PrivateAdbServer, capsys: pytest.CaptureFixture[str]
) -> None:
    world = World(adb_server, tmp_path)
    world.scenario = QUICK + "[feed]\nreports = 14\npinned = []\n"
    library = world.folder / "library"
    world.catalogue = library / "catalogue.sqlite3"
    code, out, _ = discover(world, capsys, "--max-pages", "1", "--json")
    document = json.loads(out)
    assert code == EXIT_INCOMPLETE and document["ended"] == "max_pages" and document["debt_after"] is True
    code, out, err = discover(world, capsys, "--full")
    assert code == EXIT_DONE and out == "" and "List read: 14 report(s)" in err
    before = dump(world.catalogue)
    code, out, _ = discover(world, capsys, "--full", "--dry-run", "--json")
    assert code == EXIT_DONE and json.loads(out)["new"] == 0 and dump(world.catalogue) == before
    gone = world.ids()[4]
    phone_state = library / "sim-phone" / "state.json"
    state = json.loads(phone_state.read_bytes())
    phone_state.write_text(json.dumps({**state, "deleted": [gone]}), encoding="utf-8")
    code, out, _ = discover(world, capsys, "--full", "--json")
    assert code == EXIT_DONE and json.loads(out)["vanished"] == []
    code, out, err = discover(world, capsys, "--full", "--json")
    assert code == EXIT_VANISHED and json.loads(out)["vanished"] == [gone] and gone in err
    code, _, err = discover(world, capsys, "--max-pages", "0")
    assert code == EXIT_USAGE and "max-pages" in err
