"""Every cell for real: put on disk, read back by probe and recovery; every neighbour that is not legal is
refused.

Design 7 gate 3; V006 §2, §5.1-5.3; rulings R1, R2, R5, R16-R18, R29.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import attrs
import pytest

from fsm import ContractError, ItemOutcome, StateUncertain, build_terminal_item, verdict
from fsm.snapshot import Closure
from hibor.items.evidence import Evidence, probe
from hibor.items.leftovers import Broken, find, understand
from hibor.package.journal import Journal
from hibor.package.manifest import ManifestInvalid
from hibor.package.terminal import read_terminal
from hibor.quota.errors import QuotaError
from tests.fsm import samples, v006
from tests.props.cells import (
    OBJECTS,
    Cell,
    Made,
    cells,
    doubted,
    full,
    make,
    observed,
    publish_intent,
    put,
    read_back,
)
from tests.props.world import World, world

CELLS = list(cells())
REFUSED = (ContractError, StateUncertain, ManifestInvalid)


@pytest.fixture
def place(tmp_path: Path) -> Iterator[World]:
    with world(tmp_path / "library") as opened:
        yield opened


@pytest.mark.parametrize("cell", CELLS, ids=str)
def test_a_cell_on_disk_is_read_back_as_that_cell(place: World, cell: Cell) -> None:
    made = make(place, cell)
    evidence = read_back(place, made, *doubted(cell.presence))
    assert evidence.presence == cell.presence
    assert evidence.artifact == cell.kind
    assert evidence.uncertain == ("U" in cell.presence)
    assert verdict(cell.lane, full(cell.short), evidence.presence) == (
        "HALT" if "U" in cell.presence else "LEGAL"
    )


@pytest.mark.parametrize("cell", [cell for cell in CELLS if "U" not in cell.presence], ids=str)
def test_recovery_understands_a_cell_as_its_node(place: World, cell: Cell) -> None:
    made = make(place, cell)
    leftover = understand(made.folder, place.services)
    assert leftover is not None
    assert (leftover.node, leftover.draft.presence) == (full(cell.node), cell.presence)
    assert leftover.draft.quota_state == cell.quota
    snapshot = leftover.draft.validated
    assert (snapshot.state, snapshot.presence, snapshot.artifact) == (
        full(cell.short),
        cell.presence,
        cell.kind,
    )


def _letters(name: str) -> str:
    return "NU" if name in "QA" else "NVIU"


def _neighbours(cell: Cell) -> Iterator[tuple[str, str, str]]:
    """(object, letter, presence) of every one-letter neighbour that can be put on a disk or be in doubt."""
    for at, name in enumerate(OBJECTS):
        for letter in "NVIU":
            if letter != cell.presence[at]:
                yield name, letter, cell.presence[:at] + letter + cell.presence[at + 1 :]


def _not_examined(cell: Cell, name: str) -> bool:
    """Rulings R17 and R29: a file that is not yet this item's to examine counts as absent."""
    if cell.lane == v006.PURE:
        return name in "SF" and (cell.short == "P00" or (name == "S" and cell.source == "PROJECT_REUSE"))
    if name == "S":
        return cell.short < "P03" or (cell.short == "P03" and cell.quota != "UNCERTAIN")
    return name == "F" and cell.kind not in ("SUCCESS", "DUPLICATE")


@pytest.mark.parametrize("cell", [cell for cell in CELLS if "U" not in cell.presence], ids=str)
def test_every_neighbour_that_is_not_legal_is_refused(tmp_path: Path, place: World, cell: Cell) -> None:
    seen: Counter[str] = Counter()
    for name, letter, presence in _neighbours(cell):
        legal = v006.judge(cell.lane, cell.short, presence) in ("LEGAL", "HALT")
        if legal:
            continue  # a cell of its own
        if name in "QAM" and letter in "NI":  # what all items share is damaged: a library of its own
            with world(tmp_path / f"{name}{letter}") as opened:
                seen[_outcome(opened, cell, name, letter, presence)] += 1
        else:
            seen[_outcome(place, cell, name, letter, presence)] += 1
    assert not seen["accepted"], seen
    assert seen["refused"] >= 14, seen


def _outcome(opened: World, cell: Cell, name: str, letter: str, presence: str) -> str:
    """What becomes of a neighbour: refused, not examined, or (never) accepted."""
    try:
        made = _changed(opened, cell, name, letter, presence)
        doubts = doubted(presence) if letter == "U" else ()
        evidence = read_back(opened, made, *doubts)
    except (*REFUSED, QuotaError):
        return "refused"
    if _not_examined(cell, name) and letter != "U":
        assert evidence.presence == cell.presence, (name, letter)
        return "not examined"
    # Ruling R29: without the artifact event the final does not count yet.
    shown = presence[0] + "N" + presence[2:] if name == "A" and letter == "N" else presence
    if (
        name == "M" and letter == "I"
    ):  # in a manifest nobody can read, whether this item's row is there cannot be told
        shown = presence[:4] + "U" + presence[5:]
    assert evidence.presence == shown, (name, letter)
    assert verdict(cell.lane, full(cell.short), evidence.presence) in ("CONTRACT_ERROR", "UNCERTAIN")
    if letter == "U":
        return "refused"
    return _recovered(opened, cell, made)


def _recovered(opened: World, cell: Cell, made: Made) -> str:
    """Recovery must not take the neighbour for the cell's state."""
    try:
        leftover = understand(made.folder, opened.services)
    except REFUSED:
        return "refused"
    return "accepted" if leftover is None or leftover.node.split("-")[0] == full(cell.short) else "refused"


def _changed(opened: World, cell: Cell, name: str, letter: str, presence: str) -> Made:
    """The neighbour on disk. A ledger event is there or not; anything else under its name is no ledger at
    all.
    """
    if letter == "U":
        return make(opened, cell)
    if name in "QA":
        if letter == "I":
            made = make(opened, cell)
            lines = opened.ledger_path.read_bytes() if opened.ledger_path.exists() else b""
            opened.ledger_path.write_bytes(lines + b'{"type":"CONFIRMED"}\n')
            return made
        kind = "FAILURE" if name == "A" and letter == "V" else (None if name == "A" else cell.kind)
        quota = "CONFIRMED" if name == "Q" and letter == "V" else cell.quota
        if (quota, presence[3]) not in samples.PATTERN or (name == "Q" and letter == "N"):
            return _without_quota_terminal(opened, cell, presence, kind)
        return make(opened, attrs.evolve(cell, presence=presence, kind=kind, quota=quota))
    made = make(opened, cell)
    path = {
        "S": made.folder.staging,
        "F": opened.services.library.root / made.final.path,
        "D": made.folder.delivery,
        "T": made.folder.timing,
        "Z": made.folder.terminal,
    }.get(name)
    if letter == "N":
        (path or opened.services.library.manifest).unlink(missing_ok=True)
    else:
        put(opened, made, name, letter)
    return made


def _without_quota_terminal(opened: World, cell: Cell, presence: str, kind: str | None) -> Made:
    """A family without the event that Q stands for, or with one for A that cannot follow: the ledger refuses
    it, or the item is left with less.
    """
    reserved = attrs.evolve(cell, presence=presence, kind=kind)
    return make(opened, reserved)


# -- closings --------------------------------------------------------------------------------------


def _closings() -> Iterator[tuple[Cell, Closure, str]]:
    """Every closing: variant × source × presence × status × quota state × source of the file."""
    for (lane, short, presence, kind, status), variant in v006.accepted_closings().items():
        node = (
            v006.node_of(v006.FULL[short], presence)
            if variant != "C02_NEW_DUPLICATE"
            else short + "-N" * (short == "P05")
        )
        for quota in v006.NODE_QUOTA[lane, node]:
            for source in samples.SOURCES[lane]:
                if source == "PROJECT_REUSE" and (presence[0] == "V" or variant == "C04_REUSE_DUPLICATE"):
                    continue
                closing = None if variant[:3] in ("C01", "C03", "C04") else variant
                duplicate = variant == "C04_REUSE_DUPLICATE"
                code = _code(variant, node, quota, status)
                if code is None:
                    continue
                cell = Cell(lane, node, presence, quota, source, kind, closing, duplicate)
                yield cell, Closure(variant, v006.FULL[short]), code


def _code(variant: str, node: str, quota: str, status: str) -> str | None:
    if status == "SUCCESS":
        return "NONE"
    if status == "DUPLICATE":
        return "DUPLICATE_EXISTING_ARTIFACT"
    if variant == "C09_POSTPUBLISH_STOP":
        code = "MANIFEST_INVALID" if status == "FAILED" else "PERSIST_LATE"
        return code if code in v006.domain(node, quota) else None
    fitting = [code for code in sorted(v006.domain(node, quota)) if v006.STATUS_OF_CODE[code] == status]
    return fitting[0] if fitting else None


CLOSINGS = list(_closings())


def test_the_closings_are_all_of_them() -> None:
    assert {closure.variant for _cell, closure, _code in CLOSINGS} == set(v006.VARIANTS)
    keys = {(cell.lane, cell.short, cell.presence, cell.kind) for cell, _closure, _code in CLOSINGS}
    due = {(lane, short, presence, kind) for lane, short, presence, kind, _status in v006.accepted_closings()}
    assert keys == due
    prefixes = {(closure.variant, cell.presence[4:7]) for cell, closure, _code in CLOSINGS}
    assert len(prefixes) == 4 + 6 * 4


@pytest.mark.parametrize(
    ("cell", "closure", "code"),
    CLOSINGS,
    ids=[f"{closure.variant[:3]} from {cell}" for cell, closure, _code in CLOSINGS],
)
def test_a_closing_on_disk_is_read_back_whole(place: World, cell: Cell, closure: Closure, code: str) -> None:
    made = make(place, cell, closure=closure, code=code)
    doubts = doubted(cell.presence)
    draft = observed(place, made, *doubts)
    evidence = probe(draft, place.services)
    assert evidence.presence == cell.presence
    tables = place.services.tables
    stored = read_terminal(made.folder.terminal, place.services.durable, item_keys=tables.keys)
    assert (stored.presence, stored.closure_variant, stored.source_state) == (
        cell.presence,
        closure.variant,
        closure.source_state,
    )
    rebuilt = build_terminal_item(
        draft.snapshot(tables.closed_state, evidence), ItemOutcome(code, closure), tables
    )
    assert rebuilt.to_dict() == dict(stored.item)
    assert not [one for one in find(place.services)[0] if one.folder == made.folder], (
        "a closed item is no leftover"
    )


@pytest.mark.parametrize("name", ["D", "T", "M"])
def test_a_terminal_whose_package_changed_is_not_whole(tmp_path: Path, name: str) -> None:
    cell = Cell(v006.NEW, "P09", "NVVVVVVV", "CONFIRMED", "NEW_TRIGGER", "SUCCESS")
    with world(tmp_path) as opened:
        made = make(opened, cell, closure=Closure("C01_NEW_SUCCESS", v006.FULL["P09"]), code="NONE")
        assert read_back(opened, made).presence == cell.presence
        path = {"D": made.folder.delivery, "T": made.folder.timing, "M": opened.services.library.manifest}[
            name
        ]
        path.unlink()
        assert read_back(opened, made).presence[7] == "I"


# -- windows ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("prefix", v006.PREFIXES)
@pytest.mark.parametrize("quota", v006.PAID)
def test_a_window_of_c02_is_recognised_by_its_record(place: World, prefix: str, quota: str) -> None:
    cell = Cell(v006.NEW, "P05-N", f"VVVV{prefix}N", quota, "NEW_TRIGGER", "DUPLICATE", "C02_NEW_DUPLICATE")
    made = make(place, cell)
    leftover = understand(made.folder, place.services)
    assert leftover is not None
    assert (leftover.node, leftover.action) == (full("P05-N"), "finish")
    assert leftover.draft.presence == cell.presence


@pytest.mark.parametrize("prefix", v006.PREFIXES)
def test_a_window_of_c02_without_its_record_is_refused(place: World, prefix: str) -> None:
    cell = Cell(v006.NEW, "P05-N", f"VVVV{prefix}N", "CONFIRMED", "NEW_TRIGGER", "DUPLICATE")
    made = make(place, cell)
    with pytest.raises(ContractError):
        understand(made.folder, place.services)


@pytest.mark.parametrize("linked", [False, True])
def test_the_publish_window_shows_no_final_and_is_rolled_forward(place: World, linked: bool) -> None:
    cell = Cell(v006.NEW, "P05-N", "VNVNNNNN", "CONFIRMED", "NEW_TRIGGER")
    made = make(place, cell)
    journal = Journal(made.folder.journal, place.services.durable, place.clock)
    publish_intent(journal, made)
    if linked:
        put(place, made, "F", "V")
    leftover = understand(made.folder, place.services)
    assert leftover is not None
    assert (leftover.node, leftover.mark, leftover.action) == (
        full("P05-N"),
        "PUBLISH_INTENT",
        "roll_forward",
    )
    assert leftover.draft.presence == "VNVNNNNN", "until A is durable F counts as absent (ruling R29)"


@pytest.mark.parametrize("linked", [False, True])
def test_the_publish_window_of_a_cached_file_is_rolled_forward(place: World, linked: bool) -> None:
    cell = Cell(v006.PURE, "P00", "NNNNNNNN", "NONE", "CACHE_REUSE")
    made = make(place, cell)
    journal = Journal(made.folder.journal, place.services.durable, place.clock)
    publish_intent(journal, made)
    put(place, made, "S", "V")
    if linked:
        put(place, made, "F", "V")
    leftover = understand(made.folder, place.services)
    assert leftover is not None
    assert (leftover.node, leftover.action) == (full("P00"), "roll_forward")


def test_a_broken_item_blocks_only_its_own_report(place: World) -> None:
    sound = make(place, Cell(v006.NEW, "P06", "NVVVNNNN", "CONFIRMED", "NEW_TRIGGER", "SUCCESS"))
    broken = make(place, Cell(v006.NEW, "P06", "NVVVNNNN", "CONFIRMED", "NEW_TRIGGER", "SUCCESS"))
    (place.services.library.root / broken.final.path).unlink()
    place.services.run_id = "20261130T020000Z-0a0a0a"
    found, refused = find(place.services)
    assert [one.folder for one in found] == [sound.folder]
    assert [one.report_id for one in refused] == [broken.job.entry.report_id]
    assert isinstance(refused[0], Broken) and not refused[0].uncertain


def test_a_doubt_is_gone_when_another_run_looks(place: World) -> None:
    """Ruling R2: U is sticky within a run; a later recovery observes afresh."""
    made = make(place, Cell(v006.NEW, "P02-V", "NNVNNNNN", "CONFIRMED", "NEW_TRIGGER"))
    draft = observed(place, made, "Q")
    first: Evidence = probe(draft, place.services)
    assert first.presence == "NNUNNNNN" and probe(draft, place.services).presence == "NNUNNNNN"
    assert read_back(place, made).presence == "NNVNNNNN"
