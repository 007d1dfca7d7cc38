"""A simulated phone in this process behind a real adb server, on a clock that can leap: what a walk needs.

The phone's app, link and file system are the simulator's own; the adb server and the process that holds locks
are real processes. Because the phone lives here, a fault can begin at any moment and a reboot costs
milliseconds.
"""

from __future__ import annotations

import hashlib
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path

import attrs

from hibor.device.adb import AdbDevice, AdbServer, choose_device
from hibor.device.errors import DeviceError
from hibor.device.navigate import App
from hibor.items.catalogue import CatalogueEntry
from hibor.sim.adbd import Adbd
from hibor.sim.downloads import CACHE_FOLDER
from hibor.sim.phone import OTHER_SERIAL_NUMBER, SERIAL_NUMBER, SimPhone
from hibor.sim.scenario import Fault, Scenario, parse_scenario
from hibor.sim.server import PrivateAdbServer, ServerError, free_port
from hibor.sim.state import PHONE_ZONE
from hibor.sim.truth import TruthEvent, read_truth, served_counts
from tests.faults.world import PROFILE, QUICK, SCALE, feed_of

NOON = datetime(2026, 11, 30, 12, 0, tzinfo=PHONE_ZONE)
CONNECT_TRIES = 200
SPENT = Fault("deny", "connect", match="never")
"""Stands where a fault was that will not strike any more."""
HOLDER = """
import os, sys, filelock
held = {}
for line in sys.stdin:
    word, _, path = line.rstrip("\\n").partition(" ")
    if word == "hold" and path not in held:
        held[path] = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
        filelock.lock_descriptor(held[path], blocking=False)
    elif word == "free":
        while held:
            os.close(held.popitem()[1])
    print("done", flush=True)
"""


class LeapingClock:
    """One time line, `SCALE` times as fast as real time, that can leap forward; both sides read it."""

    scale = SCALE

    def __init__(self, begin: datetime = NOON) -> None:
        self._begin, self._begun_s, self._leapt_s = begin, time.monotonic(), 0.0

    def now(self) -> datetime:
        """Aware wall clock."""
        passed_s = (time.monotonic() - self._begun_s) * self.scale + self._leapt_s
        return (self._begin + timedelta(seconds=passed_s)).astimezone(UTC)

    def monotonic_s(self) -> float:
        """Seconds that only go forward."""
        return (time.monotonic() - self._begun_s) * self.scale + self._leapt_s

    def sleep(self, wait_s: float) -> None:
        """Wait scaled seconds."""
        if wait_s > 0:
            time.sleep(wait_s / self.scale)

    def leap(self, seconds: float) -> None:
        """So much time has passed at once."""
        self._leapt_s += seconds


@attrs.define
class HostClock:
    """The computer's clock on the same time line; its wall may be set wrong by `skew_s` seconds."""

    line: LeapingClock
    skew_s: float = 0.0
    scale: float = SCALE

    def now(self) -> datetime:
        """What the computer believes."""
        return self.line.now() + timedelta(seconds=self.skew_s)

    def monotonic_s(self) -> float:
        """Not affected by who sets the clock."""
        return self.line.monotonic_s()

    def sleep(self, wait_s: float) -> None:
        """Wait scaled seconds."""
        self.line.sleep(wait_s)


class LockHolder:
    """Another process that takes locks when told to and gives them back when told to."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-c", HOLDER], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def _say(self, words: str) -> None:
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.write(words + "\n")
        self._process.stdin.flush()
        assert self._process.stdout.readline() == "done\n"

    def hold(self, path: Path) -> None:
        """Take the kernel's lock on a file."""
        self._say(f"hold {path}")

    def let_go(self) -> None:
        """Give back every lock."""
        self._say("free")

    def end(self) -> None:
        """End the process."""
        self._process.communicate("", timeout=10)


@attrs.define
class House:
    """What all walks share: the adb server, the other process, the PDFs made so far, the list of reports."""

    server: PrivateAdbServer
    holder: LockHolder
    pdfs: Path
    entries: list[CatalogueEntry] = attrs.field(factory=list)
    failures: list[Exception] = attrs.field(factory=list)


@contextmanager
def open_house(folder: Path, reports: int) -> Iterator[House]:
    """A house whose `entries` are the newest reports as the app's list shows them."""
    holder = LockHolder()
    try:
        with PrivateAdbServer(port=free_port()) as server:
            house = House(server, holder, folder / "pdfs")
            house.pdfs.mkdir(parents=True)
            booth = Booth(house, folder / "first", LeapingClock())
            try:
                house.entries = feed_of(booth.driver(), reports)
                booth.core.make_pdfs_ahead(reports)
                booth.keep_pdfs()
            finally:
                booth.close()
            yield house
    finally:
        holder.end()


@attrs.define
class Driver:
    """The driver on a phone, with what the phone really did (`tests.faults.world.Phone` for one in this
    process).
    """

    booth: Booth
    device: AdbDevice
    app: App

    @property
    def served(self) -> dict[str, int]:
        """How often each report was charged for."""
        return served_counts(self.booth.truth())

    @property
    def trigger_taps(self) -> int:
        """How often a control that leads to a download was really tapped."""
        return sum(event.detail.endswith((" btn_download", " dialog_ok")) for event in self.booth.taps())


class Booth:
    """One phone; it can be struck, rebooted, replaced, lose its link or its server, and be put right."""

    def __init__(self, house: House, folder: Path, clock: LeapingClock) -> None:
        self.house, self.folder, self.clock = house, folder, clock
        self.scenario: Scenario = parse_scenario(QUICK)
        self.faults: list[Fault] = []
        self.port = 0
        self.replaced = False
        folder.mkdir(parents=True)
        shutil.copytree(house.pdfs, folder / "pdf", dirs_exist_ok=True)
        self._start()
        self._connect()

    def _start(self) -> None:
        scenario = attrs.evolve(self.scenario, faults=tuple(self.faults))
        serial = OTHER_SERIAL_NUMBER if self.replaced else SERIAL_NUMBER
        folder = self.folder / "other" if self.replaced else self.folder
        self.core = SimPhone(folder, scenario, self.clock, serial)
        self.adbd = Adbd(self.core, port=self.port)
        self.port = self.adbd.port
        self.adbd.serve_in_thread()

    def _stop(self) -> None:
        self.adbd.close()
        self.core.close()

    @property
    def address(self) -> str:
        """Where the adb server reaches the phone."""
        return f"127.0.0.1:{self.port}"

    def _connect(self) -> None:
        self.house.server.start()
        for attempt in range(CONNECT_TRIES):
            with suppress(ServerError):
                if attempt % 20 == 0:  # a transport the server took for lost does not come back by itself
                    with suppress(ServerError):
                        self.house.server.disconnect(self.address)
                self.house.server.connect(self.address)
                if self.house.server.devices().get(self.address) == "device":
                    return
            time.sleep(0.01)
        raise AssertionError(f"the phone does not come back: {self.house.server.devices()}")

    def driver(self) -> Driver:
        """A driver for one run. Raises DeviceError where the phone is not reached."""
        adb = AdbServer("127.0.0.1", self.house.server.port)
        device = AdbDevice(adb, choose_device(adb, self.address), clock=self.clock)
        return Driver(self, device, App(device, PROFILE, self.clock))

    def strike(self, fault: Fault) -> None:
        """From now on this fault is due."""
        self.faults.append(fault)
        self.core.meet(fault)

    @property
    def quiet(self) -> bool:
        """True when no fault is due."""
        return all(fault is SPENT for fault in self.faults)

    # -- how a phone goes away ---------------------------------------------------------------------

    def lose(self, how: str) -> None:
        """The server is killed, the cable pulled, the phone switched off, or another one plugged in."""
        if how == "server killed":
            self.house.server.stop()
        elif how == "link lost":
            with suppress(ServerError):
                self.house.server.disconnect(self.address)
        else:
            self._stop()
            self.replaced = how == "replaced"
            if self.replaced:
                self._start()
                self._connect()

    def put_right(self, *, calm: bool) -> None:
        """The phone is there again, as after a person has seen to it; `calm`: nothing is due any more."""
        if calm:
            self.faults = [SPENT] * len(self.faults)
        self._stop()
        self.replaced = False
        self._start()
        self._connect()

    # -- what it really did ------------------------------------------------------------------------

    def truth(self) -> list[TruthEvent]:
        """Everything the phone wrote down."""
        return read_truth(self.folder / "truth.jsonl")

    def taps(self) -> list[TruthEvent]:
        """Every tap it took."""
        return [event for event in self.truth() if event.event == "tap"]

    def digests(self) -> set[bytes]:
        """The sha256 of every file the app made or now holds; a file may have grown since it was made."""
        made = [path.read_bytes() for path in (self.folder / "pdf").glob("*.pdf")]
        held = [self.core.vfs.read(f"{CACHE_FOLDER}/{name}") for name, _ in self.core.vfs.list(CACHE_FOLDER)]
        return {hashlib.sha256(data).digest() for data in (*made, *held)}

    def keep_pdfs(self) -> None:
        """Let later phones have the PDFs this one made."""
        for path in (self.folder / "pdf").glob("*.pdf"):
            if not (self.house.pdfs / path.name).exists():
                shutil.copyfile(path, self.house.pdfs / path.name)

    def close(self) -> None:
        """Switch the phone off for good."""
        self.house.server.start()
        with suppress(ServerError):
            self.house.server.disconnect(self.address)
        with suppress(OSError):
            self._stop()
        self.keep_pdfs()


__all__ = ["Booth", "DeviceError", "Driver", "HostClock", "House", "LeapingClock", "open_house"]
