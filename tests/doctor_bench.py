"""A simulated phone, a doctor's case on it, and a person whose hands are a thread of the test."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import attrs

from hibor.collect.station import Station
from hibor.device.adb import AdbDevice, AdbServer
from hibor.device.uitree import UiNode
from hibor.doctor.case import Case
from hibor.doctor.command import case_for
from hibor.people.commandline import Words
from hibor.sim.process import start_phone
from hibor.sim.server import PrivateAdbServer
from hibor.task import Task

SCALE = 25.0
WAIT_S = 60.0


class Hands:
    """A person who reads what the doctor says and taps on the phone. `on` maps a text key to what is done
    then."""

    def __init__(self, *, yes: bool = False, enters: int = 0) -> None:
        self.yes, self.enters = yes, enters
        self.said: list[str] = []
        self.asked: list[str] = []
        self.on: dict[str, Callable[[], None]] = {}
        self.errors: list[BaseException] = []
        self._threads: list[threading.Thread] = []
        self._events: dict[str, threading.Event] = {}

    @property
    def there(self) -> bool:
        return self.enters > 0

    def heard(self, key: str) -> threading.Event:
        return self._events.setdefault(key, threading.Event())

    def say(self, key: str, /, **facts: Any) -> None:
        self.said.append(key)
        self.heard(key).set()
        if key in self.on:
            thread = threading.Thread(target=self._do, args=(self.on.pop(key),), daemon=True)
            self._threads.append(thread)
            thread.start()

    def _do(self, action: Callable[[], None]) -> None:
        try:
            action()
        except BaseException as error:
            self.errors.append(error)

    def agrees(self, key: str, /, **facts: Any) -> bool:
        self.asked.append(key)
        return self.yes

    def is_done(self, key: str, /, **facts: Any) -> bool:
        self.asked.append(key)
        self.enters -= 1
        return self.enters >= 0

    def finish(self) -> None:
        for thread in self._threads:
            thread.join(WAIT_S)
            assert not thread.is_alive()
        assert not self.errors, self.errors


@attrs.define
class Practice:
    """One phone, and a case on it."""

    case: Case
    hands: Hands
    state: Path
    library: Path
    server: AdbServer
    serial: str

    def finger(self) -> AdbDevice:
        """The person's own way to the phone."""
        return AdbDevice(self.server, self.serial, clock=self.case.clock)

    def tap_label(self, label: str) -> None:
        """Tap what says `label`, when it has come."""
        self.finger().tap(*self.see(label).bounds.center)

    def see(self, label: str) -> UiNode:
        """What can be tapped and says `label`, when it has come."""
        device = self.finger()
        for _ in range(30):
            found: list[UiNode] = [n for n in device.dump().nodes if n.clickable and n.label.strip() == label]
            if len(found) == 1:
                return found[0]
            self.case.clock.sleep(0.5)
        raise AssertionError(f"{label} did not come")

    def rows(self, check: str) -> list[str]:
        return [row.status for row in self.case.rows if row.check == check]

    def truth(self) -> str:
        return (self.state / "truth.jsonl").read_text("utf-8")


@contextmanager
def practice(
    server: PrivateAdbServer,
    folder: Path,
    scenario: str | Path,
    *,
    hands: Hands | None = None,
    profile: str | None = None,
    scale: float = SCALE,
) -> Iterator[Practice]:
    """A phone that plays `scenario`, and the case a doctor opens for it."""
    library, state = folder / "library", folder / "phone"
    who = hands or Hands()
    with start_phone(state, scenario, scale, embedded=True) as phone:
        server.connect(phone.serial)
        try:
            address = AdbServer("127.0.0.1", server.port)
            station = Station(phone.clock(), address, phone.serial, simulated=True, time_scale=scale)
            task = Task(library=str(library), account="simulated")
            case = case_for(station, task, Words("en"), who, profile=profile)
            yield Practice(case, who, state, library, address, phone.serial)
        finally:
            server.disconnect(phone.serial)
