"""What the crash atlas makes of visits: squares, zeros, and what it says is missing."""

from __future__ import annotations

from typing import Any

import pytest

from generated.steps import STEPS
from tests.faults.checks import Outcome
from tests.faults.commands import SCENES
from tests.faults.disk import Image
from tests.faults.plays import PLAYS, Point
from tests.faults.runs import RUNS
from tests.faults.sweep import Swept, Visit
from tools.atlas.about import ABOUT
from tools.atlas.page import page
from tools.atlas.squares import ZEROS, Atlas, atlas_of

MOMENTS = ("before", "torn", "after")


def visit(step: str, moment: str, *, wrong: str = "", action: str = "the same command") -> Visit:
    """One crash point with its outcome."""
    outcome = Outcome((action,), ("as if uncrashed",), (), (), (wrong,) if wrong else (), Image((), ()))
    return Visit(Point(MOMENTS.index(moment), step, moment), "absent", f"{step} {moment}", outcome)


def drawn(*steps: str, **more: Any) -> Atlas:
    """The atlas of a command with these steps, each visited at every moment."""
    swept = Swept("want add", [visit(step, moment, **more) for step in steps for moment in MOMENTS])
    return atlas_of([swept], ("want.append", "lock.note"))


def test_a_whole_atlas_has_no_empty_square_and_every_registered_step() -> None:
    atlas = drawn("want.append", "lock.note")
    assert (atlas.empty, atlas.violations) == ([], [])
    assert (atlas.counts["steps"], atlas.counts["squares"]) == (2, 6)
    assert atlas.to_dict()["rows"][0]["squares"]["torn"]["outcome"] == (
        "the same command → as if uncrashed [no quota; no final]"
    )


def test_a_step_that_is_nowhere_is_told_as_an_empty_square() -> None:
    atlas = drawn("want.append")
    assert atlas.empty == ["lock.note in no play"]
    assert "empty: lock.note in no play" in page(atlas, {**_DOCUMENT, "counts": atlas.counts})


def test_a_moment_nobody_looked_at_is_an_empty_square() -> None:
    swept = Swept("want add", [visit("want.append", "before"), visit("want.append", "after")])
    assert atlas_of([swept]).empty == ["want add want.append torn"]


@pytest.mark.parametrize(("count", "text"), ZEROS)
def test_what_a_check_finds_wrong_is_counted_by_its_kind(count: str, text: str) -> None:
    atlas = drawn("want.append", "lock.note", wrong=f"want.jsonl {text} something")
    assert (atlas.counts[count], atlas.counts["violations"]) == (6, 6)
    others = [name for name, _text in ZEROS if name != count]
    assert [atlas.counts[name] for name in others] == [0] * len(others)


def test_the_page_shows_every_row_and_escapes_what_it_shows() -> None:
    atlas = drawn("want.append", "lock.note", action="<b>")
    shown = page(atlas, {**_DOCUMENT, "counts": atlas.counts})
    assert all(f"<th>{row.step}</th>" in shown for row in atlas.rows)
    assert "&lt;b&gt; →" in shown and "<b> →" not in shown
    assert set(STEPS) >= {row.step for row in atlas.rows}


def test_every_play_has_its_sentence() -> None:
    names = {one.name for one in (*PLAYS, *RUNS, *SCENES)}
    assert set(ABOUT) == names
    assert ABOUT["want add"] in page(drawn("want.append"), {**_DOCUMENT, "counts": {}})


_DOCUMENT: dict[str, Any] = {"mutants": {}, "spec_sha256": "0" * 64, "every": 1, "seconds": 1.0}
