"""Deliberately broken variants of each mechanism, and the check of the suite that has to notice each.

A mutant is a context manager that breaks the running program; `killed_by` runs a check of this folder and
returns
what it found wrong, which is empty for the sound program.
"""

from __future__ import annotations

import os
import shutil
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any
from unittest.mock import patch

import attrs

from hibor.clock import SystemClock
from hibor.device.trigger import press
from hibor.durable import Durable, DurableError, Published
from hibor.durable_fs import OsFileSystem
from hibor.durable_parts import Parts
from hibor.items import leftovers
from hibor.items.effects import STEPS as ACTIONS
from hibor.items.effects import trigger
from hibor.items.item import ItemRun
from hibor.quota.errors import QuotaError
from hibor.quota.ledger import Ledger
from hibor.quota.scan import scan
from hibor.quota.store import LedgerStore
from tests.faults.checks import Facts, look, recover_image, recover_once
from tests.faults.disk import Image, Model, Recorder
from tests.faults.plays import ALWAYS, NO_PHONE, play_named, record
from tests.faults.theatre import Theatre
from tests.faults.world import ACCOUNT, FIRST_RUN, open_world

Check = Callable[[Theatre], list[str]]


@attrs.frozen
class Mutant:
    """A broken variant: what is broken, how, and the check that notices."""

    name: str
    broken: Callable[[], Any]
    check: Check


# -- the checks ----------------------------------------------------------------------------------------------


def power_cut_of_a_reuse(theatre: Theatre) -> list[str]:
    """Record a cached reuse under the program as it is now, and recover what every power cut leaves of it."""
    from tests.faults.sweep import facts_of

    play = play_named("cache_reuse")
    found = record(play, theatre.room(), theatre.phones[ALWAYS], theatre.entries, theatre.at)
    seen: set[str] = set()
    model = Model(Image((), ()))
    for operation in found.log:
        model.apply(operation)
    wrong = next(filter(None, (acknowledged(found.log, image) for image in model.images())), [])
    for point, image in found.points() if not wrong else ():
        if image.digest in seen or wrong:
            continue
        seen.add(image.digest)
        facts = facts_of(found, point, NO_PHONE, image)
        wrong += recover_image(image, theatre.room(), None, theatre.at, facts, again=False).violations
        wrong += acknowledged(found.log[: point.done], image)
    return wrong


def acknowledged(log: list[Any], image: Image) -> list[str]:
    """A file whose step has ended is in every image from then on."""
    files = dict(image.files)
    ended = {op.path.partition(" ")[2] for op in log if op.kind == "mark" and op.path.startswith("end")}
    wrong = []
    for step, suffix in (("terminal.write", "terminal.json"), ("delivery.write", "delivery.md")):
        if step in ended and not any(name.endswith(suffix) for name in files):
            wrong.append(f"{step} had ended and {suffix} is lost")
    return wrong


def lying_disk(theatre: Theatre) -> list[str]:
    """A disk that says yes and writes other bytes is found out by the append itself."""
    room = theatre.room()
    room.mkdir()

    class Liar(OsFileSystem):
        def write(self, descriptor: int, data: bytes | memoryview) -> int:
            super().write(descriptor, bytes(len(data)))
            return len(data)

    durable = Durable(Liar(), SystemClock(), frozenset({"manifest.append"}))
    try:
        durable.append_line(room / "lines", b"a line", step="manifest.append")
    except DurableError:
        return []
    finally:
        shutil.rmtree(room)
    return ["an append that wrote other bytes was taken for durable"]


def tap_in_flight(theatre: Theatre) -> list[str]:
    """A NEW item that ends right before TRIGGER_INTENT is durable has not been charged."""
    phone, room, entry = theatre.phones[ALWAYS], theatre.room(), theatre.spare[0]
    before = phone.served.get(entry.report_id, 0)
    room.mkdir()

    class End(BaseException):
        pass

    def end(call: str, path: str) -> None:
        if (call, path) == ("mark begin", "intent.journal"):
            disk.cut = True
            raise End

    disk = Recorder(room)
    disk._before = end
    phone.app.open_app()
    world = open_world(room, phone, theatre.at, fs=disk, run_id=FIRST_RUN)
    item = world.item(entry, "NEW_TRIGGER")
    try:
        while item.result is None:
            item.advance()
    except End:
        pass
    charged = phone.served.get(entry.report_id, 0) - before
    if charged:
        theatre.spare.pop(0)
    wrong: list[str] = []
    start = Image.of(room)
    recover_once(room, phone, theatre.at, wrong)
    known = frozenset(theatre.known_files())
    wrong += look(room, start, Facts({entry.report_id: charged}, frozenset(), {}, known), True)[3]
    shutil.rmtree(room)
    return wrong


def foreign_final(theatre: Theatre) -> list[str]:
    """A file that somebody else puts at the final path between the check and the link is never replaced."""
    room = theatre.room()
    room.mkdir()
    staging, final = room / "staging.pdf", room / "final.pdf"
    staging.write_bytes(b"ours")
    final.write_bytes(b"theirs")
    durable = Durable(OsFileSystem(), SystemClock(), frozenset({"publish.link"}))
    with suppress(DurableError):
        durable.publish(staging, final, step="publish.link")
    kept = final.read_bytes()
    shutil.rmtree(room)
    return [] if kept == b"theirs" else ["somebody else's final was replaced"]


def crash_around_a_closing(theatre: Theatre) -> list[str]:
    """A NEW item that stops at P01, crashed at every operation of its closing and settling."""
    found = record(
        play_named("new_wrong_page"), theatre.room(), theatre.phones[ALWAYS], theatre.entries, theatre.at
    )
    wrong = [] if found.codes == found.play.ends else [f"it ended as {found.codes}"]
    model, seen = Model(Image((), ())), set[str]()
    for operation in found.log:
        model.apply(operation)
        image = model.whole()
        if image.digest not in seen:
            seen.add(image.digest)
            facts = Facts({}, frozenset(), {}, frozenset())
            wrong += recover_image(image, theatre.room(), None, theatre.at, facts, again=False).violations
    return wrong


def last_unit(theatre: Theatre) -> list[str]:
    """Two runs that want the last unit: the second one's append lies between the first one's look and its
    lock.
    """
    room = theatre.room()
    room.mkdir()
    first, second = (
        open_world(room, None, theatre.at),
        open_world(room, None, theatre.at, run_id="20261130T020000Z-00000c"),
    )
    one, other = first.services.require_ledger(), second.services.require_ledger()
    lock = one._store._lock
    acquire = lock.acquire
    raced: list[bool] = []

    def race() -> Any:
        if not raced:
            raced.append(True)
            thread = threading.Thread(target=_reserve, args=(other, "HB2", theatre))
            thread.start()
            thread.join()
        return acquire()

    lock.acquire = race  # type: ignore[method-assign]
    wrong: list[str] = []
    try:
        _reserve(one, "HB1", theatre)
    finally:
        first.close()
        second.close()
    try:
        from generated.ledger import AUTOMATON
        from hibor.quota.family import Automaton
        from hibor.quota.fold import Fold
        from hibor.quota.scan import Marks

        path = first.services.library.ledger(ACCOUNT)
        place = scan(path, ACCOUNT, Fold(Automaton(AUTOMATON)), Marks())
        if place.count > 1:
            wrong.append(f"{place.count} reservations with one unit left")
    except QuotaError as error:
        wrong.append(f"the ledger does not verify: {error}")
    shutil.rmtree(room)
    return wrong


def _reserve(ledger: Ledger, report: str, theatre: Theatre) -> None:
    day = ledger.calendar.day(theatre.at)
    try:
        ledger.reserve(report, f"item-{report}", FIRST_RUN, day, 1, "task", None, step="reserve.append")
    except QuotaError:
        return


def cut_after_a_kill(theatre: Theatre) -> list[str]:
    """A process killed with its staging file written and not synced; recovery; then the power fails."""
    from tests.faults.cuts import cuts

    return cuts(theatre, "new_success", images=12, steps={"staging.fill"}).violations


# -- the mutants ---------------------------------------------------------------------------------------------


@contextmanager
def _no_folder_fsync() -> Iterator[None]:
    with patch.object(Parts, "_sync_folder", lambda self, folder, step: None):
        yield


@contextmanager
def _append_unverified() -> Iterator[None]:
    with patch.object(Parts, "_compare_tail", lambda self, path, before, data, step: os.lstat(path)):
        yield


@contextmanager
def _tap_first() -> Iterator[None]:
    real = trigger.open_detail

    def open_and_tap(item: ItemRun) -> str:
        event = real(item)
        press(item.services.require_app(), item.draft.prepared)
        return event

    with patch.dict(_writable("WORK"), {"open_detail": open_and_tap}):
        yield


def _writable(name: str) -> dict[str, Any]:
    """The dictionary behind a read-only table of the program."""
    import gc

    from hibor.items import effects

    return next(found for found in gc.get_referents(getattr(effects, name)) if isinstance(found, dict))


@contextmanager
def _plain_rename() -> Iterator[None]:
    def give_name(self: Parts, source: Path, target: Path, step: str) -> Published:
        os.replace(source, target)
        return Published("rename", already=False)

    with patch.object(Parts, "_give_name", give_name):
        yield


@contextmanager
def _settle_first() -> Iterator[None]:
    real = ACTIONS["terminal.write"]

    def settle_then_write(item: ItemRun) -> None:
        draft = item.draft
        if draft.reservation is not None and draft.quota_terminal is None:
            item.services.require_ledger().settle(draft.reservation, attempted=False, step="settle.release")
        real(item)

    with patch.dict(_writable("STEPS"), {"terminal.write": settle_then_write}):
        yield


@contextmanager
def _stale_fold() -> Iterator[None]:
    def write(self: LedgerStore, action: Callable[[], Any]) -> Any:
        with self._guard:
            self._catch_up()
            with self._lock:
                return action()

    with patch.object(LedgerStore, "write", write):
        yield


@contextmanager
def _blind_settling() -> Iterator[None]:
    with patch.object(leftovers, "_attempted", lambda folder, services: False):
        yield


@contextmanager
def _trusted_page_cache() -> Iterator[None]:
    with patch.object(Durable, "confirm", lambda self, path, root, *, step: True):
        yield


MUTANTS: tuple[Mutant, ...] = (
    Mutant("no fsync of the folder", _no_folder_fsync, power_cut_of_a_reuse),
    Mutant("append without verify", _append_unverified, lying_disk),
    Mutant("tap before TRIGGER_INTENT", _tap_first, tap_in_flight),
    Mutant("publish by plain rename", _plain_rename, foreign_final),
    Mutant("settle before Z", _settle_first, crash_around_a_closing),
    Mutant("ledger read again outside the lock", _stale_fold, last_unit),
    Mutant("recovery acts on what is not synced", _trusted_page_cache, cut_after_a_kill),
)
__all__ = ["MUTANTS", "Mutant"]
