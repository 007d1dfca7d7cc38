"""Paths that need no phone: what natural causes do to an item from where it stands, each with its one expected end.

Each scene stands an item on disk, lets something happen to disk, clock, ledger or library, drives the real machine,
and says how that ends: state, status, code, note, closure, presence. V006 §5.4's deadline, crash and validation
counter-examples at P05, P07, P08 and P09 are scenes here; those at P03 and P04 need a phone (`test_phone_paths.py`).
The table takes the contract as a value, so that a changed contract can be driven too (`tools.mutants`).
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, Literal

import attrs

from fsm import Tables
from hibor.evidence import probe
from hibor.item import ItemRun
from hibor.leftovers import resume, understand
from hibor.package.journal import Journal
from hibor.sim.reports import make_pdf
from tests.fsm import v006
from tests.props.cells import Cell, Made, full, make, observed, publish_intent, put
from tests.props.world import SetClock, UnsyncedDisk, World, reports, world

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
    """A cell, what happens, and the end. `recovered`: the item is taken up by recovery, not by its own run."""

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
    """Another program left an unfinished line behind: a row appended now would not be readable (ruling R16)."""
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


SCENES: Final[tuple[Scene, ...]] = (
    # -- the whole way from P05 -----------------------------------------------------------------------------------------
    Scene("new item delivered", p05(), nothing, DONE),
    Scene("uncertain trigger delivered", p05("UNCERTAIN"), nothing, attrs.evolve(DONE, note=WARNING)),
    Scene("same file already at the path", p05(), identical_final,
          End(P10, DUPLICATE, "C02_NEW_DUPLICATE", "VVVVVVVV", DUPLICATE)),
    Scene("same file, uncertain trigger", p05("UNCERTAIN"), identical_final,
          End(P10, DUPLICATE, "C02_NEW_DUPLICATE", "VVVVVVVV", DUPLICATE)),
    Scene("publish window without its link", p05(), announced(False), DONE, recovered=True),
    Scene("publish window with its link", p05(), announced(True), DONE, recovered=True),
    *(Scene(f"recovered at {node}", after(node, presence), nothing, DONE, recovered=True)
      for node, presence in (("P06", "VVVVNNNN"), ("P06", "NVVVNNNN"), ("P07", "NVVVVNNN"), ("P08", "NVVVVVNN"),
                             ("P09", "NVVVVVVN"))),
    *(Scene(f"staging left at {node}", after(node, presence), nothing, attrs.evolve(DONE, presence="VVVVVVVV"))
      for node, presence in (("P07", "VVVVVNNN"), ("P08", "VVVVVVNN"), ("P09", "VVVVVVVN"))),
    # -- P05: what the file turns out to be ----------------------------------------------------------------------------
    Scene("not a PDF", p05(), nothing, failed("PDF_MAGIC_INVALID"), variant="html"),
    Scene("truncated", p05(), nothing, failed("PDF_NOT_OPENABLE"), variant="truncated"),
    Scene("needs a password", p05(), nothing, failed("PDF_ENCRYPTED"), variant="encrypted"),
    Scene("page count lies", p05(), nothing, failed("PAGE_COUNT_MISMATCH"), variant="count_mismatch"),
    Scene("final name refused for good", p05(), fails("publish.link", "link", errno.ENAMETOOLONG),
          failed("PUBLISH_FAILED")),
    # -- V006 §5.4 at P05: deadline, crash, conflict ---------------------------------------------------------------------
    Scene("deadline at P05", p05(), expired, kept("P05", "DEADLINE_EXPIRED", "VNVNNNNN")),
    Scene("publish conflict at P05", p05(), foreign_final, kept("P05", "FINAL_PATH_CONFLICT", "VNVNNNNN"),
          finishes=False),
    Scene("full disk at the link", p05(), fails("publish.link", "link", errno.EIO),
          kept("P05", "RECOVERY_UNKNOWN", "VNVNNNNN")),
    Scene("artifact event in doubt", p05(), doubtful("artifact.append"),
          kept("P05", "RECOVERY_UNKNOWN", "VUVUNNNN", uncertain=True), finishes=False),
    Scene("verdict event in doubt", p05(), doubtful("reject.append"),
          kept("P05", "RECOVERY_UNKNOWN", "VNVUNNNN", uncertain=True), variant="html", finishes=False),
    Scene("ledger in doubt at P05", p05(), blocked_ledger, kept("P05", "RECOVERY_UNKNOWN", "VNVNNNNN")),
    # -- P06: the manifest -----------------------------------------------------------------------------------------------
    Scene("manifest damaged by another program", after("P06", "VVVVNNNN"), damaged_manifest,
          kept("P06", "UNEXPECTED_EXCEPTION", "NVVVUNNN", uncertain=True), finishes=False),
    *(Scene(f"manifest row refused, staging {presence[0]}", after("P06", presence), torn_manifest,
            End(P10, "MANIFEST_INVALID", "C09_POSTPUBLISH_STOP", "NVVVNNNV"), finishes=False)
      for presence in ("VVVVNNNN", "NVVVNNNN")),
    Scene("manifest lock held", after("P06", "VVVVNNNN"), held_manifest_lock,
          kept("P06", "LOCK_TIMEOUT", "NVVVNNNN")),
    Scene("deadline at P06", after("P06", "VVVVNNNN"), expired, kept("P06", "DEADLINE_EXPIRED", "VVVVNNNN")),
    Scene("full disk at the manifest", after("P06", "VVVVNNNN"), fails("manifest.append", "write", errno.ENOSPC),
          kept("P06", "UNEXPECTED_EXCEPTION", "NVVVNNNN")),
    # -- V006 §5.4 at P07, P08, P09: delivery, timing, terminal ------------------------------------------------------------
    Scene("deadline before delivery", after("P07", "NVVVVNNN"), expired,
          kept("P07", "DEADLINE_EXPIRED", "NVVVVNNN")),
    Scene("delivery durable too late", after("P07", "NVVVVNNN"), late_in("delivery.write"),
          kept("P08", "PERSIST_LATE", "NVVVVVNN")),
    Scene("full disk at delivery", after("P07", "NVVVVNNN"), fails("delivery.write", "write", errno.ENOSPC),
          kept("P07", "UNEXPECTED_EXCEPTION", "NVVVVNNN")),
    Scene("deadline before timing", after("P08", "NVVVVVNN"), expired,
          kept("P08", "DEADLINE_EXPIRED", "NVVVVVNN")),
    Scene("timing durable too late", after("P08", "NVVVVVNN"), late_in("timing.write"),
          End(P10, "PERSIST_LATE", "C09_POSTPUBLISH_STOP", "NVVVVVVV")),
    Scene("full disk at timing", after("P08", "NVVVVVNN"), fails("timing.write", "write", errno.ENOSPC),
          kept("P08", "UNEXPECTED_EXCEPTION", "NVVVVVNN")),
    Scene("manifest durable too late", after("P06", "VVVVNNNN"), late_in("manifest.append"),
          kept("P07", "PERSIST_LATE", "NVVVVNNN")),
    Scene("deadline before the terminal", after("P09", "NVVVVVVN"), expired,
          kept("P09", "DEADLINE_EXPIRED", "NVVVVVVN")),
    Scene("full disk at the terminal", after("P09", "NVVVVVVN"), fails("terminal.write", "write", errno.ENOSPC),
          kept("P09", "UNEXPECTED_EXCEPTION", "NVVVVVVN")),
    # -- PURE ------------------------------------------------------------------------------------------------------------
    *(Scene(f"reuse recovered at {node}", reuse(node, presence, source), nothing, REUSED, recovered=True)
      for node, presence, source in (
          ("P06", "NVNNNNNN", "PROJECT_REUSE"), ("P06", "VVNNNNNN", "CACHE_REUSE"), ("P07", "NVNNVNNN", "CACHE_REUSE"),
          ("P08", "NVNNVVNN", "PROJECT_REUSE"), ("P09", "NVNNVVVN", "CACHE_REUSE"))),
    *(Scene(f"reuse staging left at {node}", reuse(node, presence), nothing, attrs.evolve(REUSED, presence="VVNNVVVV"))
      for node, presence in (("P07", "VVNNVNNN"), ("P08", "VVNNVVNN"), ("P09", "VVNNVVVN"))),
    Scene("library copy taken over", reuse("P00", "NNNNNNNN", "PROJECT_REUSE"), identical_final, REUSED),
    Scene("library copy damaged", reuse("P00", "NNNNNNNN", "PROJECT_REUSE"), foreign_final,
          End(P10, "CANDIDATE_REJECTED", "C05_PREQUOTA_STOP", "NNNNNNNV")),
    Scene("reuse duplicate", attrs.evolve(reuse("P06", "VVNNNNNN"), duplicate=True), nothing,
          End(P10, DUPLICATE, "C04_REUSE_DUPLICATE", "NVNNVVVV", DUPLICATE), recovered=True),
    Scene("reuse duplicate, staging left", attrs.evolve(reuse("P09", "VVNNVVVN"), duplicate=True), nothing,
          End(P10, DUPLICATE, "C04_REUSE_DUPLICATE", "VVNNVVVV", DUPLICATE), recovered=True),
    Scene("reuse publish window", reuse("P00", "NNNNNNNN"), announced(True), REUSED, recovered=True),
    Scene("reuse publish window without its link", reuse("P00", "NNNNNNNN"), announced(False), REUSED,
          recovered=True),
    Scene("reuse abandoned", reuse("P00", "NNNNNNNN"), nothing,
          End(P10, "RECOVERY_UNKNOWN", "C05_PREQUOTA_STOP", "NNNNNNNV"), recovered=True),
    *(Scene(f"reuse deadline at {node} {presence[0]}", reuse(node, presence), expired,
            End(P10, "DEADLINE_EXPIRED", "C10_REUSE_POSTPUBLISH_STOP", presence[:7] + "V"))
      for node, presence in (("P06", "VVNNNNNN"), ("P06", "NVNNNNNN"), ("P07", "NVNNVNNN"), ("P07", "VVNNVNNN"),
                             ("P08", "NVNNVVNN"), ("P08", "VVNNVVNN"), ("P09", "NVNNVVVN"), ("P09", "VVNNVVVN"))),
    Scene("reuse delivery too late", reuse("P07", "NVNNVNNN"), late_in("delivery.write"),
          End(P10, "PERSIST_LATE", "C10_REUSE_POSTPUBLISH_STOP", "NVNNVVNV")),
    Scene("reuse manifest row refused", reuse("P06", "NVNNNNNN"), torn_manifest,
          End(P10, "MANIFEST_INVALID", "C10_REUSE_POSTPUBLISH_STOP", "NVNNNNNV"), finishes=False),
    Scene("reuse manifest lock held", reuse("P06", "NVNNNNNN"), held_manifest_lock,
          End(P10, "LOCK_TIMEOUT", "C10_REUSE_POSTPUBLISH_STOP", "NVNNNNNV")),
    # -- before and after the tap ------------------------------------------------------------------------------------------
    Scene("new item abandoned at P00", Cell(NEW, "P00", "NNNNNNNN", "NONE", "NEW_TRIGGER"), nothing,
          End(P10, "RECOVERY_UNKNOWN", "C05_PREQUOTA_STOP", "NNNNNNNV"), recovered=True),
    Scene("new item abandoned at P01", Cell(NEW, "P01", "NNNNNNNN", "RESERVED", "NEW_TRIGGER"), nothing,
          End(P10, "RECOVERY_UNKNOWN", "C06_RESERVED_STOP", "NNNNNNNV", quota="RELEASED"), recovered=True),
    Scene("tap in flight, no phone", Cell(NEW, "P02-N", "NNNNNNNN", "RESERVED", "NEW_TRIGGER"), nothing,
          kept("P02", "PROCESS_LIVENESS_UNKNOWN", "NNNNNNNN"), recovered=True, finishes=False),
    Scene("proved not to have occurred", Cell(NEW, "P02-V", "NNVNNNNN", "RELEASED", "NEW_TRIGGER"), nothing,
          End(P10, "TRIGGER_NOT_OCCURRED", "C07_TRIGGER_CLOSED_NO_ARTIFACT", "NNVNNNNV"), recovered=True),
    *(Scene(f"verdict durable at {cell.node}", cell, nothing,
            End(P10, code, "C08_PROCESSING_FAILED", cell.presence[:7] + "V"), recovered=True)
      for cell, code in (
          (Cell(NEW, "P03-V", "NNVVNNNN", "CONFIRMED", "NEW_TRIGGER", "FAILURE"), "PULL_FAILED"),
          (Cell(NEW, "P04-V", "INVVNNNN", "CONFIRMED", "NEW_TRIGGER", "FAILURE"), "HASH_MISMATCH"),
          (Cell(NEW, "P05-V", "VNVVNNNN", "UNCERTAIN", "NEW_TRIGGER", "FAILURE"), "PDF_NOT_OPENABLE"))),
    *(Scene(f"C02 gone on with after {prefix}", Cell(
        NEW, "P05-N", f"VVVV{prefix}N", "CONFIRMED", "NEW_TRIGGER", "DUPLICATE", "C02_NEW_DUPLICATE"), nothing,
            End(P10, DUPLICATE, "C02_NEW_DUPLICATE", "VVVVVVVV", DUPLICATE), recovered=True)
      for prefix in v006.PREFIXES),
)  # fmt: skip


def stand(opened: World, disk: Mischief, clock: SetClock, scene: Scene) -> Stand:
    """The scene's cell on disk, its cause not yet at work."""
    made = make(opened, scene.cell, data=_bytes(scene))
    return Stand(opened, disk, clock, made)


def _bytes(scene: Scene) -> bytes:
    return make_pdf(reports()[0], scene.variant)


def play(found: Stand, scene: Scene) -> ItemRun:
    """Let the cause work and drive the item to its end."""
    scene.cause(found)
    services = found.world.services
    leftover = understand(found.made.folder, services) if scene.recovered else None
    if leftover is not None:
        result = resume(leftover, services)
        item = ItemRun(leftover.draft.job, services, draft=leftover.draft)
        item.result = result
        return item
    draft = observed(found.world, found.made)
    draft.presence = scene.cell.presence
    node = full(scene.cell.node)
    draft.validated = draft.snapshot(node.split("-")[0], probe(draft, services))
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


def ends_as_expected(folder: Path, tables: Tables) -> bool:
    """Whether every scene ends as it says over `tables`; the first other end is enough."""
    for number, scene in enumerate(SCENES):
        disk, clock = Mischief(), SetClock()
        with world(folder / str(number), clock=clock, contract=tables, file_system=disk) as opened:
            if differences(play(stand(opened, disk, clock, scene), scene), scene.end):
                return False
    return True
