"""One disk image, recovered, and every invariant of the design looked at afterwards (design 7).

`recover_image` returns what recovery did and a list of sentences, one for each invariant that does not hold.
"""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Mapping
from datetime import datetime
from pathlib import Path
from typing import Any, Protocol

import attrs

from fsm import FsmError, Tables, match_closure
from generated.ledger import AUTOMATON
from generated.steps import STEPS
from hibor.clock import SystemClock
from hibor.durable import Durable
from hibor.durable_fs import FileSystem
from hibor.items import leftovers
from hibor.items.recovery import recover_all
from hibor.locks import Locks
from hibor.package.journal import read_journal
from hibor.package.layout import ItemFolder, Library
from hibor.package.manifest import Manifest, ManifestInvalid
from hibor.package.terminal import PackageFileInvalid, check_package, read_terminal
from hibor.quota.errors import LedgerInvalid
from hibor.quota.family import Automaton
from hibor.quota.fold import Fold
from hibor.quota.noted import known_heads
from hibor.quota.repair import repair_ledger
from hibor.quota.scan import Marks, check_heads, scan
from tests.faults.disk import Image
from tests.faults.plays import ALWAYS, NO_PHONE
from tests.faults.world import ACCOUNT, Phone, StillClock, UnsyncedDisk, World, open_world


@attrs.frozen
class Outcome:
    """What became of an image: recovery's actions, final states, quota effects, files, and what is wrong."""

    actions: tuple[str, ...]
    states: tuple[str, ...]
    quota: tuple[str, ...]
    files: tuple[str, ...]
    violations: tuple[str, ...]
    image: Image

    @property
    def told(self) -> tuple[tuple[str, ...], ...]:
        """What the atlas shows of it."""
        return (self.actions, self.states, self.quota, self.files)


@attrs.frozen
class Facts:
    """What is known of the world outside the image: charges, and whether a file can still be had."""

    served: Mapping[str, int]
    available: frozenset[str]
    foreign: Mapping[str, str]  # files somebody else wrote: path -> sha256
    known: frozenset[str]  # sha256 of every file that is a report


def open_recovering(
    root: Path, phone: Phone | None, at: datetime, fs: FileSystem | None = None, run_id: str | None = None
) -> tuple[World, bool]:
    """The world of a recovery, after `ledger repair` where a power cut tore the ledger's last line."""
    more = {} if run_id is None else {"run_id": run_id}
    try:
        return open_world(root, phone, at, fs=fs, **more), False  # type: ignore[arg-type]
    except LedgerInvalid as error:
        if not error.torn:
            raise
    disk, clock = fs or UnsyncedDisk(), StillClock(at)
    durable = Durable(disk, SystemClock(), frozenset(STEPS))
    repair_ledger(
        Library(root).ledger(ACCOUNT),
        ACCOUNT,
        durable=durable,
        locks=Locks(durable, SystemClock()),
        clock=clock,
        automaton=Automaton(AUTOMATON),
        known_heads=known_heads(Library(root), durable),
        confirm=lambda question: True,
    )
    return open_world(root, phone, at, fs=fs, **more), True  # type: ignore[arg-type]


NAMED_PLAN = "plan.json"
"""The file that the dry run is told to save its plan in."""


class Recovery(Protocol):
    """A way to recover a library: returns its actions and adds what went wrong."""

    def __call__(self, room: Path, phone: Phone | None, at: datetime, wrong: list[str], /) -> list[str]:
        """Recover it once."""


def recover_image(
    image: Image,
    room: Path,
    phone: Phone | None,
    at: datetime,
    facts: Facts,
    *,
    again: bool = True,
    how: Recovery | None = None,
) -> Outcome:
    """Recover `image` in `room` (removed afterwards), once and, to see that nothing changes, a second time.
    """
    recover = how or recover_once
    shutil.rmtree(room, ignore_errors=True)
    image.write_to(room)
    before = None if phone is None else phone.trigger_taps
    wrong: list[str] = []
    actions: list[str] = []
    try:
        actions = recover(room, phone, at, wrong)
        if before is not None and phone is not None and phone.trigger_taps != before:
            wrong.append("recovery tapped a control that leads to a download")
        first = Image.of(room)
        if again:
            recover(room, phone, at, wrong)
            wrong += differences(first, Image.of(room), "a second recovery")
        outcome = look(room, image, facts, phone is not None)
        return Outcome(tuple(actions), *outcome[:3], (*wrong, *outcome[3]), first)
    except LedgerInvalid as error:
        return Outcome((*actions, "halt"), (), (), (), (f"the ledger does not verify: {error}",), image)
    finally:
        shutil.rmtree(room, ignore_errors=True)


def recover_once(
    room: Path, phone: Phone | None, at: datetime, wrong: list[str], fs: FileSystem | None = None
) -> list[str]:
    """One recovery; returns its actions and adds what went wrong."""
    world, repaired = open_recovering(room, phone, at, fs)
    try:
        found, _broken = leftovers.find(world.services, writes=False)
        actions = ["repair"] if repaired else []
        actions += [leftover.action for leftover in found]
        done = recover_all(world.services)
    finally:
        world.close()
    wrong += [f"{item.folder.path.name} is not understood: {item.why}" for item in done.broken]
    for result in done.results:
        if result.uncertain or result.contract_error:
            wrong.append(f"item {result.item['item_index']} ended in doubt: {result.detail}")
    if done.settled:
        actions.append("settle")
    return actions


def half_written(image: Image) -> list[str]:
    """Temporary files and probes that a recovery left in the library: nobody would remove them any more.

    The one beside a file that a person named is the person's: the same command takes it.
    """
    ours = [name for name, _data in image.files if name.endswith(".tmp") or "/.probe-" in name]
    return [f"{name} is half-written and stays" for name in ours if not name.startswith(NAMED_PLAN)]


def differences(left: Image, right: Image, who: str) -> list[str]:
    """Which files two images differ in."""
    first, second = dict(left.files), dict(right.files)
    changed = [name for name in sorted({*first, *second}) if first.get(name) != second.get(name)]
    return [f"{who} changed {', '.join(changed)}"] if changed else []


def look(
    root: Path, start: Image, facts: Facts, with_phone: bool
) -> tuple[tuple[str, ...], tuple[str, ...], tuple[str, ...], list[str]]:
    """States, quota effects and files of a recovered library, and every invariant that does not hold."""
    durable = Durable(UnsyncedDisk(), SystemClock(), frozenset(STEPS))
    library = Library(root)
    wrong: list[str] = []
    fold, events = _ledger(library, durable)
    families = _families(events)
    states = _items(library, durable, start, families, facts, with_phone, wrong)
    quota = tuple(sorted(family["state"] for family in families.values()))
    _charges(families, facts, wrong)
    _finals(library, durable, events, facts, wrong)
    del fold
    files = tuple(sorted({path.suffix for path in library.reports.rglob("*") if path.is_file()}))
    return tuple(states), quota, files, wrong


def _ledger(library: Library, durable: Durable) -> tuple[Fold, list[dict[str, Any]]]:
    path, fold, marks = library.ledger(ACCOUNT), Fold(Automaton(AUTOMATON)), Marks()
    place = scan(path, ACCOUNT, fold, marks)
    check_heads(path, place, marks, known_heads(library, durable))
    lines = path.read_bytes().splitlines() if path.exists() else []
    return fold, [json.loads(line) for line in lines]


def _families(events: list[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    families: dict[str, dict[str, Any]] = {}
    for event in events:
        if event["family"] is None:
            continue
        family = families.setdefault(event["family"], {"quota": "RESERVED", "artifact": None})
        family.update(report=event["report_id"], item=event["item_id"], state=event["type"])
        if event["type"].startswith("ARTIFACT"):
            family["artifact"] = event
        else:
            family["quota"] = event["type"]
    return families


def _items(
    library: Library,
    durable: Durable,
    start: Image,
    families: Mapping[str, Mapping[str, Any]],
    facts: Facts,
    with_phone: bool,
    wrong: list[str],
) -> list[str]:
    states: list[str] = []
    for run in library.run_folders():
        for folder in run.item_folders():
            records = read_journal(folder.journal, durable).records
            if not records:
                if any(family["item"] == folder.item_id for family in families.values()):
                    wrong.append(f"{folder.path.name} has a reservation and no record")
                continue
            family = next((f for f in families.values() if f["item"] == folder.item_id), None)
            if folder.terminal.exists():
                states.append(_closed(library, folder, durable, start, family, facts, with_phone, wrong))
            else:
                states.append(_open(folder, records[-1].event, family, records, facts, with_phone, wrong))
    return states


def _closed(
    library: Library,
    folder: ItemFolder,
    durable: Durable,
    start: Image,
    family: Mapping[str, Any] | None,
    facts: Facts,
    with_phone: bool,
    wrong: list[str],
) -> str:
    tables = Tables.default()
    manifest = Manifest(library.manifest, durable, Locks(durable, SystemClock()))
    try:
        terminal = read_terminal(folder.terminal, durable, item_keys=tables.keys)
        faults = check_package(folder, terminal, manifest, durable)
    except (PackageFileInvalid, ManifestInvalid) as error:
        wrong.append(f"{folder.path.name}: {error}")
        return "damaged"
    wrong += [f"{folder.path.name}: {fault}" for fault in faults]
    item = terminal.item
    lane = "PURE_REUSE" if item["reused_without_new_trigger"] else "NEW_TRIGGER"
    kind = {"C02_NEW_DUPLICATE": "DUPLICATE", "C08_PROCESSING_FAILED": "FAILURE"}.get(
        terminal.closure_variant
    )
    kind = kind or ("SUCCESS" if terminal.presence[3] == "V" else None)
    try:
        fits = match_closure(lane, terminal.source_state, terminal.presence, kind, item["status"], tables)
    except FsmError as error:
        fits = str(error)
    if fits != terminal.closure_variant:
        wrong.append(f"{folder.path.name} is closed as {terminal.closure_variant} and is {fits}")
    name = folder.terminal.relative_to(library.root).as_posix()
    old = dict(start.files).get(name)
    if old is not None and old != folder.terminal.read_bytes():
        wrong.append(f"{name} was rewritten")
    if family is not None and family["quota"] == "RESERVED":
        wrong.append(f"{folder.path.name} is closed and its reservation is open")
    written_off = item["status"] == "STOPPED" and not item["sha256"]
    paid = family is not None and family["quota"] in ("CONFIRMED", "UNCERTAIN")
    if with_phone and old is None and written_off and paid and item["report_id"] in facts.available:
        wrong.append(f"{folder.path.name} is written off while its file could be had")
    return f"{item['status']} {terminal.closure_variant[:3]}"


def _open(
    folder: ItemFolder,
    last: str,
    family: Mapping[str, Any] | None,
    records: tuple[Any, ...],
    facts: Facts,
    with_phone: bool,
    wrong: list[str],
) -> str:
    kept = next((record.data for record in reversed(records) if record.event == "KEPT"), None)
    if kept is None:
        wrong.append(f"{folder.path.name} neither closed nor kept for a reason (last record {last})")
        return "open"
    if kept["code"] == "UNEXPECTED_EXCEPTION":
        wrong.append(f"{folder.path.name} met a defect: {kept['detail']}")
    report = records[0].data["entry"]["report_id"]
    if with_phone and family is not None and family["quota"] == "RESERVED":
        wrong.append(f"{folder.path.name}: the phone was there and its reservation is still open")
    stuck = kept["code"] not in ("FINAL_PATH_CONFLICT", "REMOTE_FILE_CHANGED")
    if with_phone and stuck and report in facts.available:
        wrong.append(f"{folder.path.name} is kept with {kept['code']} although its file can be had")
    return f"kept {kept['state'][:3]}"


def _charges(families: Mapping[str, Mapping[str, Any]], facts: Facts, wrong: list[str]) -> None:
    """CONFIRMED ≤ served ≤ CONFIRMED + UNCERTAIN + RESERVED, and at most one charge for a family."""
    reports = {*facts.served, *(family["report"] for family in families.values())}
    for report in sorted(reports):
        mine = [family["quota"] for family in families.values() if family["report"] == report]
        confirmed, served = mine.count("CONFIRMED"), facts.served.get(report, 0)
        most = confirmed + mine.count("UNCERTAIN") + mine.count("RESERVED")
        if not confirmed <= served <= most:
            wrong.append(f"report {report} was charged {served} times, the ledger says {confirmed} to {most}")


def _finals(
    library: Library, durable: Durable, events: list[dict[str, Any]], facts: Facts, wrong: list[str]
) -> None:
    for path, digest in facts.foreign.items():
        target = library.root / path
        if not target.exists() or hashlib.sha256(target.read_bytes()).hexdigest() != digest:
            wrong.append(f"{path}, somebody else's file, is lost or altered")
    for found in library.reports.rglob("*"):
        name = found.relative_to(library.root).as_posix()
        if not found.is_file() or name in facts.foreign:
            continue
        if hashlib.sha256(found.read_bytes()).hexdigest() not in facts.known:
            wrong.append(f"{name} is no report the phone ever had")
    promised = [(e["data"]["path"], e["data"]["sha256"]) for e in events if e["type"] == "ARTIFACT_SUCCESS"]
    manifest = Manifest(library.manifest, durable, Locks(durable, SystemClock()))
    promised += [(row.final_path or "", row.sha256 or "") for row in manifest.rows()]
    for name, digest in promised:
        target = library.root / name
        if not target.is_file() or hashlib.sha256(target.read_bytes()).hexdigest() != digest:
            wrong.append(f"{name} was delivered and is lost or altered")


def phone_named(phones: Mapping[str, Phone], name: str) -> Phone | None:
    """The phone of a name, None for no phone."""
    return None if name == NO_PHONE else phones[name]


__all__ = [
    "ALWAYS",
    "NO_PHONE",
    "Facts",
    "Outcome",
    "look",
    "open_recovering",
    "phone_named",
    "recover_image",
]
