"""An item that stops where something cannot be written or looked at (rulings R4, R5, R24, R28, R29)."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from hibor.device.protocol import RemoteFile
from hibor.items.catalogue import CatalogueEntry
from hibor.items.effects.reserve import reserve_append
from hibor.items.item import ItemRun
from tests.faults.disk import Recorder
from tests.faults.errors import Fault, Striker
from tests.faults.world import FIRST_RUN, World, moment, open_world

ENTRY = CatalogueEntry(report_id="HB1", title="半导体行业深度报告", institution="国信证券", date="2026-11-30")


class Stops:
    """Fails every call of a kind within one durable step."""

    def __init__(self, step: str, call: str, number: int) -> None:
        self.step, self.call, self.number = step, call, number
        self.disk: Recorder | None = None

    def __call__(self, call: str, path: str) -> None:
        assert self.disk is not None
        if (self.disk.step, call) == (self.step, self.call):
            raise OSError(self.number, os.strerror(self.number), path)


@pytest.fixture
def library(tmp_path: Path) -> Path:
    folder = tmp_path / "library"
    folder.mkdir()
    return folder


def world_with(library: Path, stops: Stops | Striker | None) -> World:
    disk = Recorder(library, stops)
    if isinstance(stops, Stops):
        stops.disk = disk
    return open_world(library, None, moment(), fs=disk, run_id=FIRST_RUN)


def opened(world: World) -> Iterator[ItemRun]:
    item = world.item(ENTRY, "NEW_TRIGGER")
    item.ensure_opened()
    yield item


def test_a_reservation_whose_fsync_failed_is_a_doubt_and_no_contract_error(library: Path) -> None:
    world = world_with(library, Stops("reserve.append", "fsync", errno.EIO))
    item = world.item(ENTRY, "NEW_TRIGGER")
    item.ensure_opened()
    try:
        item._do_steps(item.machine.order("admitted", item.facts()))
    except Exception as error:
        item._stop(*item._as_failure(error))
    assert item.ended.uncertain and not item.ended.contract_error and not item.ended.closed
    assert world.services.ledger_blocked is not None
    assert (item.ended.item["state"], item.ended.item["quota_state"]) == ("P00_INIT", "NONE")


def test_a_full_disk_at_the_reservation_leaves_nothing_and_closes_at_p00(library: Path) -> None:
    world = world_with(library, Stops("reserve.append", "write", errno.ENOSPC))
    item = world.item(ENTRY, "NEW_TRIGGER")
    item.ensure_opened()
    try:
        item._do_steps(item.machine.order("admitted", item.facts()))
    except Exception as error:
        item._stop(*item._as_failure(error))
    assert item.ended.closed and item.ended.item["status"] == "STOPPED"
    assert world.services.require_ledger().head.count == 0


def test_evidence_that_cannot_be_looked_at_ends_in_27_and_not_in_an_exception(
    library: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = world_with(library, None)
    item = world.item(ENTRY, "NEW_TRIGGER")
    item.ensure_opened()
    reserve_append(item)

    def unreadable(*_: object) -> None:
        raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr(world.services.files, "facts", unreadable)
    item._stop("deadline", "the window closed", None)
    assert item.ended.uncertain and not item.ended.closed


def test_a_reuse_that_fails_inside_its_publish_window_is_kept(library: Path) -> None:
    """The name may be given already: recovery rolls forward, the item is not written off (ruling R29)."""
    world = world_with(library, Stops("reuse.journal", "write", errno.ENOSPC))
    cached = RemoteFile("/sdcard/x.pdf", "x.pdf", "file", 10, 1, 1)
    item = world.item(ENTRY, "CACHE_REUSE", cached=cached)
    item.ensure_opened()
    intent = {"path": item.job.final_path, "size_bytes": 10, "sha256": "0" * 64, "page_count": 1}
    data = {"final": intent, "restricted": False, "identity": None}
    item.note("PUBLISH_INTENT", data, step="publish.journal")
    item._stop("disk_failed", "no space", None)
    assert not item.ended.closed
    assert item.journal.records[-1].event == "KEPT"


def test_an_item_that_ends_leaves_no_file_open(library: Path) -> None:
    world = world_with(library, Striker(None))
    item = next(opened(world))
    sink = world.services.durable.open_sink(item.folder.staging, step="staging.create")
    item.draft.sink = sink
    item._stop("deadline", "the window closed", None)
    assert item.draft.sink is None and sink._descriptor is None
    assert Fault(1, errno.EIO).lasting is False
