"""Drives the app half without a link: a virtual clock, and a person who only dumps, taps and swipes."""

from __future__ import annotations

import re
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import attrs
from defusedxml.ElementTree import fromstring

from hibor.sim.downloads import CACHE_FOLDER
from hibor.sim.phone import SimPhone
from hibor.sim.scenario import Fault, Scenario, load_scenario
from hibor.sim.screens import APP_PACKAGE
from hibor.sim.state import PHONE_ZONE
from hibor.sim.truth import TruthEvent, read_truth

LONG_S = 120.0  # longer than any default preparation and download
MORNING = datetime(2026, 11, 30, 9, 0, tzinfo=PHONE_ZONE)
BOUNDS = re.compile(r"\[(-?\d+),(-?\d+)\]\[(-?\d+),(-?\d+)\]")


class VirtualClock:
    """A clock that moves only when somebody sleeps."""

    def __init__(self, start: datetime = MORNING) -> None:
        self._start = start
        self._passed_s = 0.0

    def now(self) -> datetime:
        return self._start + timedelta(seconds=self._passed_s)

    def monotonic_s(self) -> float:
        return self._passed_s

    def sleep(self, wait_s: float) -> None:
        self._passed_s += max(0.0, wait_s)


@attrs.frozen
class Node:
    """What a reader of the XML sees of one node."""

    id_name: str
    text: str
    package: str
    bounds: tuple[int, int, int, int]
    clickable: bool

    @property
    def middle(self) -> tuple[int, int]:
        left, top, right, bottom = self.bounds
        return (left + right) // 2, (top + bottom) // 2


class Person:
    """A phone in a folder, and somebody in front of it."""

    def __init__(
        self, folder: Path, scenario: Scenario | str = "default", clock: VirtualClock | None = None
    ) -> None:
        self.folder = folder
        self.clock = clock or VirtualClock()
        self.scenario = load_scenario(scenario) if isinstance(scenario, str) else scenario
        self.phone = SimPhone(folder, self.scenario, self.clock)

    def look(self) -> list[Node]:
        """All nodes of one dump; fails when the dump did."""
        result = self.phone.dump_xml(False)
        assert result.xml is not None, result.output
        return nodes_of(result.xml)

    def find(self, id_name: str) -> Node:
        found = [node for node in self.look() if node.id_name == id_name]
        assert len(found) == 1, (id_name, found)
        return found[0]

    def ids(self) -> set[str]:
        return {node.id_name for node in self.look()}

    def texts(self) -> list[str]:
        return [node.text for node in self.look() if node.text]

    def tap(self, id_name: str) -> None:
        assert self.phone.tap(*self.find(id_name).middle).exit_code == 0

    def begin(self) -> None:
        """Start the app and wait for its list."""
        self.phone.start(APP_PACKAGE, ".MainActivity")
        self.clock.sleep(2.0)
        self.phone.settle()

    def open_rank(self, rank: int) -> str:
        """Open the detail page of the report at `rank`; returns its id."""
        report_id = self.phone.feed.at_rank(rank).report_id
        for _ in range(30):
            # A pinned copy of a report opens it just as well.
            codes = [node for node in self.look() if node.text == f"编号 {report_id}"]
            if codes:
                self.phone.tap(*codes[0].middle)
                return report_id
            self.phone.swipe(540, 1800, 540, 900, 1000)
            self.clock.sleep(1.0)
        raise AssertionError(f"{report_id} is not in the list")

    def order(self, rank: int) -> str:
        """Pay for the report at `rank`."""
        report_id = self.open_rank(rank)
        self.tap("btn_download")
        self.tap("dialog_ok")
        return report_id

    def back(self) -> None:
        self.phone.keyevent("4")

    def cache(self) -> dict[str, bytes]:
        """Name → bytes of what lies in the app's download folder."""
        return {
            name: self.phone.vfs.read(f"{CACHE_FOLDER}/{name}")
            for name, _ in self.phone.vfs.list(CACHE_FOLDER)
        }

    def truth(self, event: str = "") -> list[TruthEvent]:
        events = read_truth(self.folder / "truth.jsonl")
        return [one for one in events if not event or one.event == event]

    def quota_label(self) -> str:
        return self.find("quota_left").text


def nodes_of(xml: bytes) -> list[Node]:
    found: list[Node] = []
    for element in fromstring(xml).iter("node"):
        box = BOUNDS.fullmatch(element.get("bounds"))
        assert box is not None
        left, top, right, bottom = (int(part) for part in box.groups())
        found.append(
            Node(
                element.get("resource-id").rpartition(":id/")[2], element.get("text"), element.get("package"),
                (left, top, right, bottom), element.get("clickable") == "true",
            )
        )
    return found


def with_faults(*faults: Fault, **phone: Any) -> Scenario:
    scenario = load_scenario("default")
    return attrs.evolve(scenario, faults=faults, phone=attrs.evolve(scenario.phone, **phone))


def started(folder: Path, scenario: Scenario | str = "default") -> Person:
    person = Person(folder, scenario)
    person.begin()
    return person
