"""The scenes that need no phone: each ends as it says, and what is kept is finished by the next run (design 7)."""

from __future__ import annotations

from pathlib import Path

import pytest

from hibor.leftovers import find, resume, understand
from tests.fsm import v006
from tests.props.invariants import check_ledger, tree
from tests.props.offline import SCENES, Mischief, Scene, Stand, differences, play, stand
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


def _finished_by_the_next_run(root: Path, found: Stand) -> None:
    """A kept item is paid for or nearly done: the next run, without a phone, ends it, and looking twice is once."""
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
