"""What a look costs is saved where it is not needed, and only there: counted in dumps, swipes and
pictures."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from hibor.device.adb import AdbDevice
from hibor.sim.server import PrivateAdbServer
from tests.device.phones import bench
from tests.device.test_navigate import scan

LONG = "[feed]\nreports = 40\npinned = []\n"


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> dict[str, list[tuple[Any, ...]]]:
    """Every dump, swipe and picture that was asked for, by name."""
    seen: dict[str, list[tuple[Any, ...]]] = {"dump": [], "swipe": [], "screenshot": []}

    def counted(name: str, real: Callable[..., Any]) -> Callable[..., Any]:
        def call(self: AdbDevice, *arguments: Any, **options: Any) -> Any:
            seen[name].append(arguments)
            return real(self, *arguments, **options)

        return call

    for name in seen:
        monkeypatch.setattr(AdbDevice, name, counted(name, getattr(AdbDevice, name)))
    return seen


def test_from_the_end_of_the_list_to_its_top_is_flung_with_one_look(
    adb_server: PrivateAdbServer, tmp_path: Path, calls: dict[str, list[tuple[Any, ...]]]
) -> None:
    with bench(adb_server, tmp_path, LONG) as run:
        run.app.open_app()
        found = scan(run.app)
        run.clock.sleep(5.0)  # the last look has grown old
        before = {name: len(seen) for name, seen in calls.items()}
        row = run.app.find_row(found[0])
        assert row.report_id == found[0]
        assert len(calls["dump"]) - before["dump"] == 1
        swipes = calls["swipe"][before["swipe"] :]
        assert 3 <= len(swipes) <= 6
        assert {one[4] for one in swipes} == {150}, "towards the top nothing is read on the way"


def test_into_the_middle_of_the_list_no_row_is_flung_past(
    adb_server: PrivateAdbServer, tmp_path: Path, calls: dict[str, list[tuple[Any, ...]]]
) -> None:
    with bench(adb_server, tmp_path, LONG) as run:
        run.app.open_app()
        found = scan(run.app)
        run.clock.sleep(5.0)
        before = len(calls["swipe"])
        row = run.app.find_row(found[20])
        assert row.report_id == found[20]
        assert all(one[4] > 150 for one in calls["swipe"][before:])


def test_a_fresh_look_that_shows_the_row_is_not_taken_again(
    adb_server: PrivateAdbServer, tmp_path: Path, calls: dict[str, list[tuple[Any, ...]]]
) -> None:
    with bench(adb_server, tmp_path, LONG) as run:
        screen = run.app.open_app()
        rows = [row.report_id for row in screen.rows if row.kind == "report" and row.report_id]
        before = len(calls["dump"])
        assert run.app.find_row(str(rows[0])).report_id == rows[0]
        assert len(calls["dump"]) == before


def test_the_picture_is_of_the_dump_it_was_taken_beside(
    adb_server: PrivateAdbServer, tmp_path: Path, calls: dict[str, list[tuple[Any, ...]]]
) -> None:
    with bench(adb_server, tmp_path, LONG) as run:
        screen = run.app.open_app()
        row = next(row for row in screen.rows if row.kind == "report" and row.report_id)
        page = run.app.open_detail(row)
        taken = len(calls["screenshot"])
        assert taken == len([one for one in calls["dump"] if one == ("detail",)])
        kept = run.app.looker.evidence(page.tree)
        assert len(calls["screenshot"]) == taken, "the picture is there already"
        assert kept.dump_sha256 == page.tree.digest and kept.screenshot is not None
        assert kept.screenshot_sha256 == hashlib.sha256(kept.screenshot).hexdigest()
        other = run.device.dump("detail")
        assert run.app.looker.evidence(other).dump_sha256 == other.digest
        assert len(calls["screenshot"]) == taken + 1, "another dump gets a picture of its own"


def test_a_picture_that_fails_is_noted_and_the_dump_counts(
    adb_server: PrivateAdbServer, tmp_path: Path
) -> None:
    denied = '[[fault]]\nkind = "deny"\nsite = "shell"\nmatch = "screencap"\ntimes = 0\n'
    with bench(adb_server, tmp_path, LONG + denied) as run:
        screen = run.app.open_app()
        row = next(row for row in screen.rows if row.kind == "report" and row.report_id)
        page = run.app.open_detail(row)
        kept = run.app.looker.evidence(page.tree)
        assert page.facts.report_id == row.report_id
        assert kept.screenshot is None and kept.note
