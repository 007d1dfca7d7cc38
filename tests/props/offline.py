"""Paths that need no phone: what natural causes do to an item from where it stands, each with its one
expected end.

Each scene stands an item on disk, lets something happen to disk, clock, ledger or library, drives the real
machine, and says how that ends: state, status, code, note, closure, presence. V006 §5.4's deadline, crash and
validation counter-examples at P05, P07, P08 and P09 are scenes here; those at P03 and P04 need a phone
(`test_phone_paths.py`). The table takes the contract as a value, so that a changed contract can be driven too
(`tools.mutants`).
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, Literal

import attrs

from hibor.items.evidence import probe
from hibor.items.item import ItemRun
from hibor.items.leftovers import resume, understand
from hibor.package.journal import Journal
from hibor.sim.reports import make_pdf
from tests.fsm import v006
from tests.props.cells import Cell, Made, full, make, observed, publish_intent, put
from tests.props.world import SetClock, UnsyncedDisk, World, reports

NEW, PURE = v006.NEW, v006.PURE
Call = Literal["open", "write", "fsync", "link", "truncate"]


class Mischief(UnsyncedDisk):
    """A real disk on which named steps meet an error or lose time."""

    def __init__(self) -> None:
        self.rules: list[tuple[str, str, int]] = []
        self.late: dict[str, Callable[[], None]] = {}
        self._step = ""

    def fails(self, step: str, call: Call, number: int) -> None:
        """From now on `call` fails with an errno during `step`."""
        self.rules.append((step, call, number))

    def mark(self, step: str, moment: Literal["begin", "end"]) -> None:
        self._step = step if moment == "begin" else ""
        if moment == "begin" and step in self.late:
            self.late.pop(step)()

    def _meet(self, call: Call) -> None:
        for step, at, number in self.rules:
            if (step, at) == (self._step, call):
                raise OSError(number, os.strerror(number))

    def write(self, descriptor: int, data: bytes | memoryview) -> int:
        self._meet("write")
        return super().write(descriptor, data)

    def fsync(self, descriptor: int) -> None:
        self._meet("fsync")

    def truncate(self, descriptor: int, size_bytes: int) -> None:
        self._meet("truncate")
        super().truncate(descriptor, size_bytes)

    def link(self, source: Path, target: Path) -> None:
        self._meet("link")
        super().link(source, target)

    def rename_no_replace(self, source: Path, target: Path) -> None:
        self._meet("link")
        super().rename_no_replace(source, target)


@attrs.frozen
class End:
    """How an item ends. `variant` None: it is kept; `presence` as it stands at the end."""

    state: str
    code: str
    variant: str | None = None
    presence: str = ""
    note: str = ""
    uncertain: bool = False
    quota: str = ""

    @property
    def expected_note(self) -> str:
        """V006 §3.6."""
        if self.note:
            return self.note
        return {"FAILED": "FAILED:", "STOPPED": "STOP:"}[v006.STATUS_OF_CODE[self.code]] + self.code


@attrs.define
class Stand:
    """What a scene works on."""

    world: World
    disk: Mischief
    clock: SetClock
    made: Made

    @property
    def final(self) -> Path:
        """Where the item's final goes."""
        return self.world.services.library.root / self.made.final.path


Cause = Callable[[Stand], None]


@attrs.frozen
class Scene:
    """A cell, what happens, and the end. `recovered`: taken up by recovery, not by its own run."""

    name: str
    cell: Cell
    cause: Cause
    end: End
    variant: str = "good"
    recovered: bool = False
    finishes: bool = True  # a kept item is finished by the next run without a phone


def nothing(_stand: Stand) -> None:
    """Nothing happens."""


def fails(step: str, call: Call, number: int) -> Cause:
    """A step meets an error of the disk."""
    return lambda stand: stand.disk.fails(step, call, number)


def doubtful(step: str) -> Cause:
    """A step's fsync fails and nothing can be cut back: nobody knows whether it is there."""

    def cause(stand: Stand) -> None:
        stand.disk.fails(step, "fsync", errno.EIO)
        stand.disk.fails(step, "truncate", errno.EIO)

    return cause


def late_in(step: str) -> Cause:
    """The window closes while a step is at work."""

    def cause(stand: Stand) -> None:
        stand.disk.late[step] = lambda: stand.clock.sleep(100_000.0)

    return cause


def expired(stand: Stand) -> None:
    """The window has closed."""
    stand.clock.sleep(100_000.0)


def identical_final(stand: Stand) -> None:
    """The path holds the same file, and it is not ours."""
    put(stand.world, stand.made, "F", "V")


def foreign_final(stand: Stand) -> None:
    """The path holds another file."""
    put(stand.world, stand.made, "F", "I")


def damaged_manifest(stand: Stand) -> None:
    """Another program wrote into the manifest."""
    put(stand.world, stand.made, "M", "I")


def torn_manifest(stand: Stand) -> None:
    """Another program left an unfinished line: a row after it would not be readable (ruling R16)."""
    with stand.world.services.library.manifest.open("ab") as file:
        file.write(b'{"schema_version":1')


def announced(linked: bool) -> Cause:
    """The run ended inside the publish window (ruling R29)."""

    def cause(stand: Stand) -> None:
        services = stand.world.services
        journal = Journal(stand.made.folder.journal, services.durable, stand.clock, services.calendar.tzinfo)
        publish_intent(journal, stand.made)
        if stand.made.cell.lane == PURE:
            put(stand.world, stand.made, "S", "V")
        if linked:
            put(stand.world, stand.made, "F", "V")

    return cause


def blocked_ledger(stand: Stand) -> None:
    """The ledger came into doubt earlier in this run (ruling R28)."""
    stand.world.services.block_ledger("made to be in doubt")


def held_manifest_lock(stand: Stand) -> None:
    """Another process holds the manifest's lock; it is let go when the library is closed."""
    from hibor.locks import DescriptorLock

    path = stand.world.services.library.manifest.with_suffix(".lock")
    lock = DescriptorLock(path, stand.world.services.durable)
    assert lock.try_acquire()
    stand.world.held.append(lock)


def p05(quota: str = "CONFIRMED") -> Cell:
    """Staging is whole and its checks begin."""
    return Cell(NEW, "P05-N", "VNVNNNNN", quota, "NEW_TRIGGER")


def after(node: str, presence: str, quota: str = "CONFIRMED") -> Cell:
    """A NEW item past its publishing."""
    return Cell(NEW, node, presence, quota, "NEW_TRIGGER", "SUCCESS")


def reuse(node: str, presence: str, source: str = "CACHE_REUSE") -> Cell:
    """A PURE item."""
    return Cell(PURE, node, presence, "NONE", source)


P10: Final = v006.CLOSED
WARNING: Final = "WARNING:TRIGGER_UNCERTAIN_CACHE_IDENTITY_CONFIRMED"
DUPLICATE: Final = "DUPLICATE_EXISTING_ARTIFACT"
DONE: Final = End(P10, "NONE", "C01_NEW_SUCCESS", "NVVVVVVV", "NONE")
REUSED: Final = End(P10, "NONE", "C03_REUSE_SUCCESS", "NVNNVVVV", "ZERO_QUOTA_REUSE")


def failed(code: str) -> End:
    """A verdict on the file at P05 (ruling R11)."""
    return End(P10, code, "C08_PROCESSING_FAILED", "VNVVNNNV")


def kept(node: str, code: str, presence: str, **more: Any) -> End:
    """The item stays where it is."""
    return End(full(node)[: len(full(node[:3]))], code, None, presence, **more)


def stand(opened: World, disk: Mischief, clock: SetClock, scene: Scene) -> Stand:
    """The scene's cell on disk, its cause not yet at work."""
    made = make(opened, scene.cell, data=_bytes(scene))
    return Stand(opened, disk, clock, made)


def _bytes(scene: Scene) -> bytes:
    return make_pdf(reports()[0], scene.variant)


def play(found: Stand, scene: Scene) -> ItemRun:
    """Let the cause work and drive the item to its end."""
    services = found.world.services
    if scene.recovered:
        scene.cause(found)
        leftover = understand(found.made.folder, services)
        if leftover is None:
            raise AssertionError("recovery does not see the item")
        result = resume(leftover, services)
        item = ItemRun(leftover.draft.job, services, draft=leftover.draft)
        item.result = result
        return item
    draft = observed(found.world, found.made)
    draft.presence = scene.cell.presence
    node = full(scene.cell.node)
    draft.validated = draft.snapshot(node.split("-")[0], probe(draft, services))
    scene.cause(found)
    item = ItemRun(draft.job, services, draft=draft, node=node)
    item.recovering = False
    item.run_host()
    item.settle()
    return item


def differences(item: ItemRun, end: End) -> list[str]:
    """What came out otherwise than the scene says."""
    result = item.ended
    shown = result.item.to_dict()
    closing = item.draft.closing or {}
    found: dict[str, Any] = {
        "state": shown["state"],
        "code": result.code,
        "note": shown["error_or_note"],
        "closed": result.closed,
        "uncertain": result.uncertain,
    }
    due: dict[str, Any] = {
        "state": end.state,
        "code": end.code,
        "note": end.expected_note,
        "closed": end.variant is not None,
        "uncertain": end.uncertain,
    }
    if end.presence:
        found["presence"], due["presence"] = item.draft.presence, end.presence
    if end.variant is not None and end.code not in ("NONE", DUPLICATE):
        found["variant"], due["variant"] = closing.get("variant"), end.variant
    return [f"{key}: {found[key]} instead of {due[key]}" for key in due if found[key] != due[key]]
