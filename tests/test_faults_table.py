"""The fault table (issue 5 "Must show"): a few scenarios played here, all of them with HIBOR_DEEP=1.

The judge itself is tested first: a table whose judge cannot say no proves nothing.
"""

from __future__ import annotations

import os
import tomllib
from pathlib import Path
from typing import Any

import attrs
import pytest

from hibor.sim.scenario import scenario_names
from tools.faults.__main__ import main, table
from tools.faults.books import Books, Evidence, Family
from tools.faults.expect import ExpectationError, Expected, RunExpected, load_expected
from tools.faults.judge import always, judge
from tools.faults.play import ROOT, Played, RunSeen, one_document
from tools.faults.show import Row, as_html, as_text, as_values

FEW = ("anchor_drift", "captcha_wall", "link_drop_staging_pull", "pdf_html", "tap_ack_lost")
DEEP = os.environ.get("HIBOR_DEEP") == "1"


# -- the judge

BOOKS = Books(
    families=(Family("HB1", "item1", "CONFIRMED"),),
    intents=frozenset({"item1"}),
    served={"HB1": 1},
    substitutions=0,
    evidence=(),
    wrong_finals=(),
    hold=None,
)
ITEM = {
    "state": "P10_CLOSED",
    "status": "SUCCESS",
    "error_or_note": "NONE",
    "quota_state": "CONFIRMED",
    "report_id": "HB1",
    "item_id": "item1",
}
DOCUMENT: dict[str, Any] = {
    "run_id": "r1",
    "status": "COMPLETE",
    "exit_code": 0,
    "stop_reason": None,
    "items": [ITEM],
    "recovered": [],
    "timing": {"phone_time_s": 100.0, "deadline_s": 600.0},
    "quota": {"unexplained": 0},
    "paths": {"evidence": []},
}
GOOD = RunSeen(0, DOCUMENT, "", False, 1.0, BOOKS)
EXPECTED = Expected(
    name="x",
    why="test",
    first=RunExpected(status="COMPLETE", exit=0, delivered=1),
    after=RunExpected(status="COMPLETE", exit=0, delivered=1),
    served=1,
    quota={"CONFIRMED": 1},
)


def test_a_good_run_has_no_problem() -> None:
    assert judge(Played("x", GOOD, GOOD), EXPECTED) == []


@pytest.mark.parametrize(
    "changed, word",
    [
        ({"hung": True}, "by itself"),
        ({"stderr": "Traceback (most recent call last):"}, "traceback"),
        ({"document": None}, "one JSON document"),
        ({"exit_code": 3}, "the document says"),
        ({"document": {**DOCUMENT, "timing": {"phone_time_s": 602.0, "deadline_s": 600.0}}}, "window"),
        ({"document": {**DOCUMENT, "quota": {"label_after": 3, "safe_after": 4}}}, "label says 3"),
        ({"books": attrs.evolve(BOOKS, served={})}, "served 0, CONFIRMED 1"),
        ({"books": attrs.evolve(BOOKS, served={"HB1": 2})}, "served twice"),
        ({"books": attrs.evolve(BOOKS, served={"HB1": 1, "HB2": 1})}, "served 2, CONFIRMED 1"),
        ({"books": attrs.evolve(BOOKS, substitutions=1)}, "substitutions"),
        ({"books": attrs.evolve(BOOKS, wrong_finals=("a.pdf: repaired",))}, "repaired"),
    ],
)
def test_what_must_always_hold_is_missed(changed: dict[str, Any], word: str) -> None:
    problems = always(attrs.evolve(GOOD, **changed), "run 1")
    assert len(problems) >= 1 and any(word in problem for problem in problems)


def test_a_served_report_may_stand_behind_a_doubt_or_an_open_intent() -> None:
    for terminal in ("UNCERTAIN", None):
        books = attrs.evolve(BOOKS, families=(Family("HB1", "item1", terminal),))
        assert always(attrs.evolve(GOOD, books=books), "run 1") == []
    books = attrs.evolve(BOOKS, families=(Family("HB1", "item1", None),), intents=frozenset())
    assert always(attrs.evolve(GOOD, books=books), "run 1") != []


@pytest.mark.parametrize(
    "changed, word",
    [
        ({"served": 2}, "served 1, expected 2"),
        ({"quota": {"CONFIRMED": 2}}, "ledger"),
        ({"hold": True}, "hold"),
        ({"unexplained": 3}, "unexplained"),
        ({"evidence": True}, "no saved screen"),
        ({"mentions": ("btn_get",)}, "btn_get"),
        ({"first": RunExpected(status="PARTIAL", exit=10)}, "status COMPLETE, expected PARTIAL"),
        ({"first": RunExpected(status="COMPLETE", exit=0, stop="NOTHING_NEW")}, "stop"),
        ({"first": RunExpected(status="COMPLETE", exit=0, delivered=2)}, "delivered 1"),
        ({"first": RunExpected(status="COMPLETE", exit=0, odd=("P10_CLOSED FAILED X NONE",))}, "other items"),
        ({"after": RunExpected(status="COMPLETE", exit=0, recovered=("x",))}, "recovered"),
    ],
)
def test_a_row_that_does_not_hold_is_told(changed: dict[str, Any], word: str) -> None:
    problems = judge(Played("x", GOOD, GOOD), attrs.evolve(EXPECTED, **changed))
    assert any(word in problem for problem in problems), problems


def test_a_saved_screen_needs_xml_words_and_a_picture_or_why_there_is_none() -> None:
    expected = attrs.evolve(EXPECTED, evidence=True)

    def problems(text: str, *files: str) -> list[str]:
        books = attrs.evolve(BOOKS, evidence=(Evidence("item", text, files),))
        return judge(Played("x", attrs.evolve(GOOD, books=books), GOOD), expected)

    assert problems("failure", "diagnosis.txt", "screen.png", "screen.xml") == []
    assert problems("no picture: black", "diagnosis.txt", "screen.xml") == []
    assert problems("no dump could be read", "diagnosis.txt", "screen.png") == []
    assert problems("failure", "diagnosis.txt", "screen.xml") != []
    assert problems("failure", "diagnosis.txt", "screen.png") != []
    assert problems("failure", "screen.png", "screen.xml") != []


def test_a_screen_that_stopped_something_is_whole_and_named_by_the_document() -> None:
    def problems(files: tuple[str, ...], named: list[str], **more: Any) -> list[str]:
        kept = (Evidence("05-item1", "failure", files, "runs/r1/items/05-item1/evidence"),) if files else ()
        books = attrs.evolve(BOOKS, evidence=kept)
        document = {**DOCUMENT, "paths": {"evidence": named}, **more}
        return always(attrs.evolve(GOOD, document=document, books=books), "run 1")

    files = ("diagnosis.txt", "screen.png", "screen.xml")
    named = [f"runs/r1/items/05-item1/evidence/{name}" for name in files]
    code = "STOP:UI_ANCHOR_DRIFT"
    drifted = {**ITEM, "status": "STOPPED", "error_or_note": code, "quota_state": "RESERVED"}
    stopped = {"status": "STOPPED", "stop_reason": {"code": "ACCESS_CONTROL_PRESENT"}}
    assert problems(files, named) == []
    assert problems(files, named, items=[drifted], **stopped) == []
    assert "no whole record" in problems(files[:2], named[:2])[0]
    assert "names other screens" in problems(files, named[:2])[0]
    assert "UI_ANCHOR_DRIFT without" in problems((), [], items=[drifted])[0]
    assert "ACCESS_CONTROL_PRESENT without" in problems((), [], **stopped)[0]


@pytest.mark.parametrize("text", [b"", b"{}{}\n", b"{}", b"[]\n", b"note\n{}\n", b"\xff\n"])
def test_only_one_document_counts(text: bytes) -> None:
    assert one_document(text) is None
    assert one_document(b'{"a": 1}\n') == {"a": 1}


# -- the expectations


def test_every_scenario_has_a_row_and_every_row_a_scenario() -> None:
    assert set(load_expected()) == set(scenario_names())


def test_every_fault_of_the_catalogue_has_a_scenario_or_a_test_that_is_there() -> None:
    named = {row for one in load_expected().values() for row in one.rows}
    areas = tomllib.loads((ROOT / "tools" / "faults" / "catalogue.toml").read_text(encoding="utf-8"))
    assert set(areas) == {"ADB", "UI", "PDF", "PUB", "SCAN"}
    for area, faults in areas.items():
        for fault, tests in faults.items():
            assert tests or fault in named, f"{area} {fault} is met nowhere"
            for test in tests:
                path, _, name = test.partition("::")
                source = (ROOT / "tests" / path).read_text(encoding="utf-8")
                assert f"def {name}(" in source, test


@pytest.mark.parametrize(
    "text, word",
    [
        ('[a]\nfirst = { status = "X", exit = 0 }', "why: missing"),
        ('[a]\nwhy = "x"\nfirst = { status = "X", exit = "0" }', "must be int"),
        ('[a]\nwhy = "x"\nfirst = { status = "X", exit = 0, odds = [] }', "unknown key"),
        ("a = 1", "must be a table"),
    ],
)
def test_a_wrong_row_is_refused(tmp_path: Path, text: str, word: str) -> None:
    path = tmp_path / "expected.toml"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(ExpectationError, match=word):
        load_expected(path)


@pytest.mark.parametrize("arguments", [["no-such-scenario"], ["default", "--jobs", "0"], ["--jsn"]])
def test_usage_errors_end_with_64(arguments: list[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(arguments)
    assert ended.value.code == 64


def test_the_table_tells_problems_in_every_form() -> None:
    rows = [
        Row(Played("good", GOOD, GOOD), EXPECTED, ()),
        Row(Played("bad", GOOD, GOOD), None, ("run 1: <served twice>",)),
    ]
    assert "! run 1: <served twice>" in as_text(rows) and "2 scenarios, 1 not as expected" in as_text(rows)
    values = as_values(rows)
    assert values["passed"] is False and [row["passed"] for row in values["rows"]] == [True, False]
    assert "&lt;served twice&gt;" in as_html(rows) and "<served twice>" not in as_html(rows)


# -- the table


@pytest.fixture(scope="module")
def rows(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Row]:
    """The scenarios played, two at a time."""
    names = scenario_names() if DEEP else FEW
    played = table(names, tmp_path_factory.mktemp("faults"), load_expected(), jobs=2)
    return {row.played.name: row for row in played}


@pytest.mark.parametrize("name", scenario_names() if DEEP else FEW)
def test_the_scenario_comes_to_what_its_row_says(rows: dict[str, Row], name: str) -> None:
    assert rows[name].problems == ()
