"""Every admissible code at every node, driven through the real machine over real files (design 7 gate 4).

The item stands on disk at the node; its work fails with the code; what becomes of it is compared with R10,
R11, R19 and V006 §2.4 as copied by hand. The public item is compared with its rebuilding from disk for each
of them (`invariants.check_item`), and a second look of recovery must find the same thing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from types import MappingProxyType

import pytest

from hibor.items.effects import WORK
from hibor.items.evidence import probe
from hibor.items.failures import EffectFailure
from hibor.items.item import ItemRun
from hibor.items.leftovers import understand
from hibor.package.journal import read_journal
from tests.fsm import samples, v006
from tests.fsm.test_keep_recovery import closes_at_once
from tests.props.cells import Cell, doubted, full, make, observed
from tests.props.invariants import tree
from tests.props.world import World, world

VERDICT_NODES = ("P03-N", "P04-N", "P05-N")


def _stops() -> Iterator[tuple[Cell, str]]:
    for (lane, node), quotas in v006.NODE_QUOTA.items():
        for quota in quotas:
            presence = v006.NODE_PRESENCES[lane, node][-1]
            source = samples.SOURCES[lane][-1]
            kind = samples.kind_of_artifact(node) if presence[3] == "V" else None
            for code in sorted(v006.domain(node, quota)):
                yield Cell(lane, node, presence, quota, source, kind), code


STOPS = list(_stops())


@pytest.fixture
def place(tmp_path: Path) -> Iterator[World]:
    with world(tmp_path / "library") as opened:
        yield opened


def failing(monkeypatch: pytest.MonkeyPatch, code: str) -> None:
    """Let every work fail with a code of its own; the verdict that is already durable is closed as ever."""

    def fail(item: ItemRun) -> str:
        raise EffectFailure("unexpected", "made to fail", code=code)

    works: dict[str, Callable[[ItemRun], str]] = dict.fromkeys(WORK, fail)
    works["finish_rejected"] = WORK["finish_rejected"]
    monkeypatch.setattr("hibor.items.item.WORK", MappingProxyType(works))


def driven(place: World, cell: Cell, code: str) -> ItemRun:
    """The item as a run takes it up where it stands."""
    made = make(place, cell, code=code if cell.kind == "FAILURE" else "")
    draft = observed(place, made, *doubted(cell.presence))
    draft.presence = cell.presence
    draft.validated = draft.snapshot(full(cell.short), probe(draft, place.services))
    item = ItemRun(draft.job, place.services, draft=draft, node=full(cell.node))
    return item


@pytest.mark.parametrize(("cell", "code"), STOPS, ids=[f"{cell} {code}" for cell, code in STOPS])
def test_a_stop_ends_as_ruling_r10_says(
    place: World, monkeypatch: pytest.MonkeyPatch, cell: Cell, code: str
) -> None:
    failing(monkeypatch, code)
    item = driven(place, cell, code)
    before = tree(place.root)
    result = item.run_host()
    item.settle()
    shown = result.item
    if "U" in cell.presence:
        assert (shown["state"], result.uncertain) == (full(cell.short), True)
        assert tree(place.root) == before, "27 writes no successor (ruling R1)"
    elif (
        cell.node in VERDICT_NODES
        and v006.STATUS_OF_CODE[code] == "FAILED"
        and code != "UNEXPECTED_EXCEPTION"
    ):
        rejected = (shown["state"], shown["status"], shown["stop_code"], shown["error_or_note"])
        assert rejected == (v006.CLOSED, "FAILED", code, f"FAILED:{code}")
        assert item.draft.closing is not None and item.draft.closing["variant"] == "C08_PROCESSING_FAILED"
        assert item.draft.presence == cell.presence[:3] + "V" + cell.presence[4:7] + "V"
        assert shown["artifact_terminal_event_id"] is not None
    elif code in closes_at_once(cell.lane, cell.node, cell.quota):
        assert (result.closed, shown["state"], shown["stop_code"]) == (True, v006.CLOSED, code)
        assert item.draft.presence == cell.presence[:7] + "V", (
            "a closure writes Z and nothing else (ruling R5)"
        )
    else:
        assert (result.closed, shown["state"], shown["stop_code"]) == (False, full(cell.short), code)
        records = read_journal(item.folder.journal, place.services.durable).records
        assert records[-1].event == "KEPT" and records[-1].data["code"] == code
        _looked_at_again(place, item, cell)
    _settled(place, item, cell)


def _looked_at_again(place: World, item: ItemRun, cell: Cell) -> None:
    """Recovery sees the kept item where it stands, twice, and changes nothing by looking."""
    before = tree(place.root)
    for _ in range(2):
        leftover = understand(item.folder, place.services)
        assert leftover is not None and leftover.node == full(cell.node)
        assert leftover.draft.presence == cell.presence
    assert tree(place.root) == before


def _settled(place: World, item: ItemRun, cell: Cell) -> None:
    """Ruling R19: a closed C06 item's reservation is released if nothing was tapped; all others stay as they
    are.
    """
    ledger = place.services.require_ledger()
    still_open = [one for one in ledger.open_reservations() if one.item_id == item.job.item_id]
    assert item.result is not None
    if cell.quota == "RESERVED" and not item.result.closed:
        assert len(still_open) == 1
    else:
        assert not still_open
    if cell.node == "P01" and item.result.closed:
        (view,) = ledger.history(item.job.entry.report_id)
        assert view.quota_state == "RELEASED"
        assert item.result.item["quota_state"] == "RESERVED", "the closed item is not rewritten"
