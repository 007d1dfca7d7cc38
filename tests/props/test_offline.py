"""The scenes that need no phone: each ends as it says, and what is kept is finished by the next run (design
7).
"""

from __future__ import annotations

from pathlib import Path

import pytest

from hibor.items.leftovers import find, resume, understand, write_off
from tests.fsm import v006
from tests.props.cells import Cell, make
from tests.props.invariants import check_ledger, tree
from tests.props.offline import Mischief, Scene, Stand, differences, play, stand
from tests.props.scenes import SCENES
from tests.props.world import SetClock, world

NEXT_RUN = "20261130T020000Z-0b0b0b"


@pytest.mark.parametrize("scene", SCENES, ids=lambda scene: scene.name)
def test_a_scene_ends_as_it_says(tmp_path: Path, scene: Scene) -> None:
    disk, clock = Mischief(), SetClock()
    with world(tmp_path / "library", clock=clock, file_system=disk) as opened:
        found = stand(opened, disk, clock, scene)
        item = play(found, scene)
        assert not differences(item, scene.end)
        if scene.end.quota:
            (view,) = opened.services.require_ledger().history(item.job.entry.report_id)
            assert view.quota_state == scene.end.quota
        check_ledger(opened.ledger_path)
    if scene.end.variant is None and scene.finishes:
        _finished_by_the_next_run(tmp_path / "library", found)


WRITTEN_OFF = [
    (Cell(v006.NEW, "P02-N", "NNNNNNNN", "RESERVED", "NEW_TRIGGER"), "C06_RESERVED_STOP", "UNCERTAIN"),
    *(
        (
            Cell(v006.NEW, node, presence, "CONFIRMED", "NEW_TRIGGER", "SUCCESS"),
            "C09_POSTPUBLISH_STOP",
            "CONFIRMED",
        )
        for node in ("P06", "P07", "P08")
        for presence in v006.NODE_PRESENCES[v006.NEW, node]
    ),
]


@pytest.mark.parametrize(("cell", "variant", "quota"), WRITTEN_OFF, ids=lambda value: str(value))
def test_a_kept_item_is_written_off_when_asked(tmp_path: Path, cell: Cell, variant: str, quota: str) -> None:
    """Ruling R10: `recover --close` closes what has a closure; a possible tap is never released."""
    with world(tmp_path / "library") as opened:
        made = make(opened, cell)
        leftover = understand(made.folder, opened.services)
        assert leftover is not None
        result = write_off(leftover, opened.services, "closed on request")
        assert result is not None and result.closed
        assert leftover.draft.closing is not None and leftover.draft.closing["variant"] == variant
        assert leftover.draft.presence == cell.presence[:7] + "V"
        (view,) = opened.services.require_ledger().history(made.job.entry.report_id)
        assert view.quota_state == quota


def _finished_by_the_next_run(root: Path, found: Stand) -> None:
    """A kept item is paid for or nearly done: the next run, without a phone, ends it, and looking twice is
    once.
    """
    with world(root, run_id=NEXT_RUN, clock=SetClock(), deadline_s=1e9) as opened:
        leftover = understand(found.made.folder, opened.services)
        assert leftover is not None
        result = resume(leftover, opened.services)
        shown = result.item
        assert (shown["state"], shown["status"]) == (v006.CLOSED, "SUCCESS")
        before = tree(root)
    with world(root, run_id=NEXT_RUN, clock=SetClock(), deadline_s=1e9) as again:
        assert find(again.services) == ([], []), "a finished item is no leftover"
    assert tree(root) == before
