"""The phone goes away while an item stands at a state: server killed, link dropped, phone rebooted, phone
replaced.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from datetime import datetime
from pathlib import Path

import attrs

from hibor.items.catalogue import CatalogueEntry
from hibor.items.item import ItemRun
from hibor.sim.process import RunningPhone, start_phone
from hibor.sim.server import PrivateAdbServer, ServerError
from tests.faults.checks import Facts, look, recover_once
from tests.faults.disk import Image
from tests.faults.world import FIRST_RUN, QUICK, SCALE, Phone, World, attach, feed_of, moment, open_world

STATES = ("P00", "P01", "P02", "P03", "P04", "P05")
FAULTS = ("server_killed", "link_dropped", "rebooted", "replaced")
TAPPED = ("P02", "P03", "P04")
"""States at which a download was asked for and its file is still to come from that phone."""
_REPLACED = QUICK + '[[fault]]\nkind = "phone_replaced"\ncall = 1\ntimes = 0\n'


@attrs.define
class Bench:
    """A phone whose server, link and process can go away and come back."""

    folder: Path
    server: PrivateAdbServer
    process: RunningPhone
    phone: Phone
    entries: list[CatalogueEntry]
    rooms: int = 0

    def connect(self) -> Phone:
        """The driver on the phone as it runs now."""
        self.server.connect(f"127.0.0.1:{self.process.port}")
        self.phone = attach(self.server, self.process, self.folder / "scenario.toml")
        return self.phone

    def strike(self, fault: str) -> Callable[[], Phone]:
        """Let the fault happen; returns what repairs it."""
        return {
            "server_killed": self._kill_server,
            "link_dropped": self._drop_link,
            "rebooted": self._reboot,
            "replaced": self._replace,
        }[fault]()

    def _kill_server(self) -> Callable[[], Phone]:
        self.server.stop()

        def repair() -> Phone:
            self.server.start()
            return self.connect()

        return repair

    def _drop_link(self) -> Callable[[], Phone]:
        self.server.disconnect(f"127.0.0.1:{self.process.port}")
        return self.connect

    def _start(self, state: str, scenario: str, port: int = 0) -> None:
        path = self.folder / f"{state}.toml"
        path.write_text(scenario, encoding="utf-8")
        self.process = start_phone(self.folder / state, path, SCALE, port=port)

    def _stop(self) -> None:
        with suppress(ServerError):
            self.server.disconnect(f"127.0.0.1:{self.process.port}")
        self.process.stop()

    def _reboot(self) -> Callable[[], Phone]:
        self._stop()

        def repair() -> Phone:
            self._start("state", QUICK)
            return self.connect()

        return repair

    def _replace(self) -> Callable[[], Phone]:
        """Another phone answers under the same name."""
        port = self.process.port
        self._stop()
        self._start("other", _REPLACED, port)
        self.server.connect(f"127.0.0.1:{port}")

        def repair() -> Phone:
            self._stop()
            self._start("state", QUICK, port)
            return self.connect()

        return repair


@contextmanager
def open_bench(folder: Path) -> Iterator[Bench]:
    """A running phone of one's own."""
    folder.mkdir(parents=True)
    with PrivateAdbServer() as server:
        path = folder / "scenario.toml"
        path.write_text(QUICK, encoding="utf-8")
        process = start_phone(folder / "state", path, SCALE)
        server.connect(f"127.0.0.1:{process.port}")
        phone = attach(server, process, path)
        bench = Bench(folder, server, process, phone, feed_of(phone, 40))
        try:
            yield bench
        finally:
            bench.process.stop()


def strike_at(bench: Bench, state: str, fault: str) -> tuple[str, str, list[str]]:
    """An item that meets a fault at a state: (its end, its end after recovery, what is wrong)."""
    at = moment()
    world, item, room = _item_at(bench, state)
    entry = item.job.entry
    repair = bench.strike(fault)
    wrong: list[str] = []
    try:
        ended = item.run_host()
        item.settle()
        if ended.uncertain or ended.contract_error:
            wrong.append(f"ended in doubt: {ended.detail}")
    finally:
        world.close()
    try:
        if fault == "replaced" and state in TAPPED:
            _recover_elsewhere(bench, room, at, wrong)
    finally:
        phone = repair()
    phone.app.open_app()
    taps, start = phone.trigger_taps, Image.of(room)
    recover_once(room, phone, at, wrong)
    if phone.trigger_taps != taps:
        wrong.append("recovery tapped a control that leads to a download")
    charged = phone.served.get(entry.report_id, 0)
    known = frozenset(_digests(bench.folder / "state" / "pdf"))
    facts = Facts({entry.report_id: charged}, frozenset({entry.report_id} if charged else ()), {}, known)
    states, _quota, _files, found = look(room, start, facts, True)
    shutil.rmtree(room)
    return f"{ended.item['state']} {ended.code}", " ".join(states), wrong + found


def _recover_elsewhere(bench: Bench, room: Path, at: datetime, wrong: list[str]) -> None:
    """Recovery on another phone: it never saw the tap, so it neither confirms it nor writes it off."""
    before = _books(room)
    recover_once(room, bench.connect(), at, wrong)
    if _books(room) != before:
        wrong.append("recovery on another phone decided what a tap came to")


def _books(room: Path) -> dict[str, bytes]:
    """The ledger and the terminals, which say what became of a tap."""
    kept = ("ledger.jsonl", "terminal.json")
    return {path: data for path, data in Image.of(room).files if path.endswith(kept)}


def _item_at(bench: Bench, state: str) -> tuple[World, ItemRun, Path]:
    """A NEW item that stands at a state. On a busy machine a dump can be too old to tap on before the item
    gets there: it ends where nothing is spent, and the next report is taken."""
    for _ in range(5):
        bench.rooms += 1
        room = bench.folder / f"room-{bench.rooms}"
        room.mkdir()
        bench.phone.app.open_app()
        world = open_world(room, bench.phone, moment(), run_id=FIRST_RUN)
        item = world.item(bench.entries.pop(0), "NEW_TRIGGER")
        while item.result is None and not item.machine.state.startswith(state):
            item.advance()
        if item.result is None:
            return world, item, room
        world.close()
        assert item.ended.item["quota_state"] in ("NONE", "RESERVED", "RELEASED"), item.ended
    raise AssertionError(f"no item came to {state}: {item.ended}")


def _digests(folder: Path) -> Iterator[str]:
    import hashlib

    for path in folder.iterdir():
        yield hashlib.sha256(path.read_bytes()).hexdigest()
