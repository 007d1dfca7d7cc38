"""The floor: the shortest time in which a phone can do the 6 + 4 package, for one scenario.

The planner knows what no collector can know: when the server will have prepared each file, how large it
is, where every row of the list lies. It uses nothing of the collector. Rules it keeps (designs 1, 5, 6 and
7):

1. The phone does one thing at a time. A dump lasts the scenario's `dump_s` and shows a page that was
   tapped open before it once `tap_s` has passed; both run at the same time. An input event lasts
   `inject_s`, a swipe its length over the profile's speed in addition (a faster one would fling past rows
   unread).
2. Every page is looked at exactly once before something on it is tapped: list, report, dialog; once more
   after the tap that pays. A dump may serve a tap for 3 s; one that has to be renewed is free here,
   because the planner can take it while it waits.
3. The list is read whole, from a top that one fling and one dump have proven, to its end, with at least
   one whole report on two neighbouring screens. A report that is not on the screen is swiped to, by the
   way it is away.
4. One download at a time; the tap that pays comes at least `spacing_s` after the last one. The next
   report's page is opened while the server prepares. A file is taken when it has stood still for the
   profile's settle time, and then crosses the cable once. Everything beside the phone takes no time at all.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from typing import Final

import attrs

from hibor.sim.feed import FOOTER_HEIGHT, Row, ServerFeed
from hibor.sim.pages import list_bounds
from hibor.sim.phone import HEIGHT, WIDTH
from hibor.sim.scenario import PaceSettings, Scenario, load_scenario
from hibor.sim.state import StateStore

FINGER_SHARE: Final = 0.9
FLING_S: Final = 0.15
FLING_GAIN: Final = 2.0
"""How far a fling moves the simulated list, in lengths of the finger's way."""


@attrs.frozen
class Habits:
    """What the app's profile and the guard rails impose: seconds, pixels a second."""

    settle_s: float = 1.0
    swipe_px_per_s: float = 1450.0
    spacing_s: float = 8.0


@attrs.frozen
class File:
    """One download: its rank (1 = newest), the server's preparation and the size."""

    rank: int
    prepare_s: float
    size_bytes: int


@attrs.frozen
class Plan:
    """The floor and its parts, in seconds of the phone."""

    open_s: float
    top_s: float
    discovery_s: float
    reuse_s: float
    back_s: float
    new_s: float
    dumps: int

    @property
    def total_s(self) -> float:
        """The whole."""
        return self.open_s + self.top_s + self.discovery_s + self.reuse_s + self.back_s + self.new_s


def plan(state_dir: Path, scenario_name: str, count: int = 10, habits: Habits | None = None) -> Plan:
    """The floor of the package on the phone whose state folder this is (a phone that ran it: its files are
    known)."""
    scenario = load_scenario(scenario_name)
    store = StateStore(state_dir, datetime.now().astimezone())
    feed = ServerFeed(scenario.feed, store.state)
    cached = set(scenario.cache.prefilled)
    wanted = range(1, count + 1)
    new = [_file(feed, store, scenario, rank) for rank in wanted if rank not in cached]
    reused = [_file(feed, store, scenario, rank) for rank in wanted if rank in cached]
    return floor(feed.rows(), scenario.pace, new, reused, habits or Habits())


def _file(feed: ServerFeed, store: StateStore, scenario: Scenario, rank: int) -> File:
    report, pace = feed.at_rank(rank), scenario.pace
    dice = random.Random(f"prepare:{scenario.feed.seed}:{report.report_id}")
    prepare_s = dice.uniform(pace.prepare_min_s, pace.prepare_max_s)
    return File(rank, prepare_s, len(store.pdf(report, "good")))


def floor(
    rows: Sequence[Row], pace: PaceSettings, new: Sequence[File], reused: Sequence[File], habits: Habits
) -> Plan:
    """The shortest schedule for these rows and files."""
    look_s = max(pace.tap_s, pace.dump_s)
    bounds = list_bounds((WIDTH, HEIGHT))
    stops = screens(rows, bounds[3] - bounds[1])
    way_px = stops[-1]
    discovery_s = way_px / habits.swipe_px_per_s + (len(stops) - 1) * (pace.inject_s + pace.dump_s)
    finger_px = (bounds[3] - bounds[1]) * FINGER_SHARE * FLING_GAIN
    flings = -(-way_px // int(finger_px))
    swipes_s = _ways(rows, bounds[3] - bounds[1], new, pace.inject_s, habits.swipe_px_per_s)
    new_s, dumps = _downloads(pace, new, habits, look_s, swipes_s)
    return Plan(
        open_s=pace.inject_s + pace.start_s + pace.dump_s + pace.inject_s,
        top_s=pace.inject_s + FLING_S + pace.dump_s,
        discovery_s=discovery_s,
        reuse_s=sum(file.size_bytes for file in reused) / pace.pull_bytes_per_s,
        back_s=flings * (pace.inject_s + FLING_S) + pace.dump_s,
        new_s=new_s,
        dumps=len(stops) + 2 + dumps,
    )


def screens(rows: Sequence[Row], viewport_px: int) -> list[int]:
    """Scroll offsets at which the whole list has been seen, each with one whole report of the one before
    in sight."""
    tops = _tops(rows)
    end = max(0, sum(row.height for row in rows) + FOOTER_HEIGHT - viewport_px)
    stops = [0]
    while stops[-1] < end:
        seen = stops[-1] + viewport_px
        whole = [
            at
            for at, row in zip(tops, rows, strict=True)
            if row.report is not None and at + row.height <= seen
        ]
        far = min(max(whole), stops[-1] + int(viewport_px * FINGER_SHARE), end)
        stops.append(max(far, stops[-1] + 1))
    return stops


def _ways(
    rows: Sequence[Row], viewport_px: int, new: Sequence[File], inject_s: float, px_per_s: float
) -> list[float]:
    """Seconds of swiping before each download's row is whole on the screen, each screen begun with the row
    it is for."""
    reports = [(top, row) for top, row in zip(_tops(rows), rows, strict=True) if row.kind == "report"]
    offset, ways_s = 0, []
    for file in new:
        top, row = reports[file.rank - 1]
        away = 0 if top >= offset and top + row.height <= offset + viewport_px else top - offset
        offset += away
        ways_s.append(inject_s + away / px_per_s if away else 0.0)
    return ways_s


def _tops(rows: Sequence[Row]) -> list[int]:
    tops, top = [], 0
    for row in rows:
        tops.append(top)
        top += row.height
    return tops


def _downloads(
    pace: PaceSettings, new: Sequence[File], habits: Habits, look_s: float, swipes_s: Sequence[float]
) -> tuple[float, int]:
    """Seconds from the list with the first row on it to the last file on the disk, and dumps taken."""
    touch_s = pace.inject_s
    now_s = swipes_s[0] + touch_s + look_s  # the first report's page
    dumps, last_paid_s = 1, float("-inf")
    for place, file in enumerate(new):
        paid_s = max(now_s + touch_s + look_s + touch_s, last_paid_s + habits.spacing_s)
        whole_s = paid_s + file.prepare_s + file.size_bytes / pace.cache_bytes_per_s
        ready_s = paid_s + look_s  # what the tap did has been seen
        dumps += 2
        if place + 1 < len(new):
            ready_s += (
                2 * (touch_s + look_s) + swipes_s[place + 1]
            )  # back to the list, and into the next report
            dumps += 2
        taken_s = whole_s + habits.settle_s + file.size_bytes / pace.pull_bytes_per_s
        now_s, last_paid_s = max(ready_s, taken_s), paid_s
    return now_s, dumps
