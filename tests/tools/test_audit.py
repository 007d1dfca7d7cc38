"""The audit gate: counts, exit codes, what makes it red, and a page that stands alone (design 7, issue 6)."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import attrs
import pytest

from fsm import Tables
from tests.fsm import v006
from tests.people.chromium import Browser
from tests.tools.spec_copy import ROOT
from tools.audit import closing, domains, expected, machine, verdicts
from tools.audit.__main__ import EXIT_NOT_RUN, EXIT_VIOLATION, main
from tools.audit.findings import Check, Violation
from tools.audit.gate import MOST_MEGABYTES, MOST_SECONDS, Enumeration, enumerate_all
from tools.audit.page import render
from tools.audit.records import NAMES, STAMP, faults_of, read_record, write_record

TABLE: dict[str, Any] = {"reached": {"a": ["test"]}, "excused": {}, "missing": []}
RECORDS: dict[str, dict[str, Any]] = {
    "coverage": {"tables": {"cells": TABLE}},
    "mutants": {
        "made": 3,
        "killed": 3,
        "left_out": 1,
        "seconds": 1.0,
        "sample": None,
        "killers": ["literals"],
        "by_table": {"cells": {"made": 3, "killed": 3, "by": {"literals": 3}}},
        "survivors": [],
    },
    "atlas": {
        "counts": {"disk_images": 1},
        "rows": [
            {
                "play": "new",
                "step": "terminal.write",
                "squares": {"torn": {"images": 1, "visits": 1, "outcome": "close"}},
            }
        ],
        "violations": [],
        "empty": [],
        "mutants": {"no_fsync": True},
    },
}


@pytest.fixture(scope="module")
def enumeration() -> Enumeration:
    return enumerate_all()


def counts(enumeration: Enumeration, name: str) -> dict[str, int]:
    return dict(enumeration.named(name).counts)


def test_nothing_is_wrong_and_everything_was_enumerated(enumeration: Enumeration) -> None:
    assert [str(violation) for violation in enumeration.violations] == []
    assert counts(enumeration, "verdicts")["verdicts"] == 2 * 10 * 5**8
    assert counts(enumeration, "verdicts")["defined cells"] == 31 == expected.CELLS
    closures = counts(enumeration, "closures")
    assert closures["inputs"] == 2 * 10 * 5**8 * 4 * 4 and closures["overlaps"] == 0
    assert counts(enumeration, "closings") == {"closings of the contract": 157, "accepted": 157}
    assert counts(enumeration, "rulings")["rulings"] == 31
    assert counts(enumeration, "code classes")["codes"] == 41


def test_the_pairs_without_a_closure_are_those_of_r10_and_r12(enumeration: Enumeration) -> None:
    due = {
        f"{lane} {expected.full(node)}": codes
        for (lane, node), codes in v006.WITHOUT_CLOSURE.items()
        if codes
    }
    found = dict(note.split(": ") for note in enumeration.named("stops without a closure").notes)
    assert {where: frozenset(codes.split(", ")) for where, codes in found.items()} == due


def test_the_enumeration_is_quick_and_small() -> None:
    """In a process of its own, and in processor time: a busy machine must not turn this red."""
    code = "from tools.audit.gate import enumerate_all as e; f = e(); print(f.cpu_seconds, f.peak_mb or 0)"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    cpu_seconds, peak_mb = map(float, done.stdout.split())
    assert cpu_seconds < MOST_SECONDS and peak_mb < MOST_MEGABYTES


def _without_a_cell() -> Tables:
    tables = Tables.default()
    matrix = {lane: dict(rows) for lane, rows in tables.matrix.items()}
    state = v006.FULL["P07"]
    matrix[v006.NEW][state] = ("V", *matrix[v006.NEW][state][1:])
    return attrs.evolve(tables, matrix=matrix)


def _overlapping() -> Tables:
    tables = Tables.default()
    row = {**tables.closures["C01_NEW_SUCCESS"], "statuses": ("SUCCESS", "STOPPED")}
    return attrs.evolve(tables, closures={**tables.closures, "C01_NEW_SUCCESS": row})


def _shadowed() -> Tables:
    tables = Tables.default()
    twin = tables.closures["C05_PREQUOTA_STOP"]
    return attrs.evolve(tables, closures={**tables.closures, "C11": twin})


def _unreachable() -> Tables:
    tables = Tables.default()
    return attrs.evolve(tables, edges=tuple(edge for edge in tables.edges if edge[2] != "seek"))


def _conflicting() -> Tables:
    tables = Tables.default()
    classes = {**tables.code_class, "CACHE_TIMEOUT": "FAIL"}
    return attrs.evolve(tables, code_class=classes)


FAULTS: list[tuple[Callable[[], Tables], Callable[[Tables], Check], str, str]] = [
    (_without_a_cell, verdicts.check_verdicts, "gap", "NVVVVNNN"),
    (_overlapping, closing.check_closures, "overlap", ""),
    (_shadowed, closing.check_closures, "shadowed", ""),
    (_unreachable, machine.check_moves_of_edges, "unreachable", "P03_CACHE_MATCHED"),
    (_conflicting, domains.check_classes, "conflicting", "CACHE_TIMEOUT"),
]


@pytest.mark.parametrize(
    ("make", "check", "word", "example"), FAULTS, ids=[word for *_rest, word, _at in FAULTS]
)
def test_a_fault_is_said_in_one_of_five_words_with_its_smallest_counterexample(
    make: Callable[[], Tables], check: Callable[[Tables], Check], word: str, example: str
) -> None:
    found = check(make()).violations
    assert any(one.word == word and example in one.example for one in found), [str(one) for one in found[:9]]


def test_a_check_that_breaks_down_has_found_a_fault(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(tables: Tables) -> Check:
        raise KeyError(tables.lanes[0])

    monkeypatch.setattr("tools.audit.gate.CHECKS", (broken,))
    (violation,) = enumerate_all().violations
    assert violation.word == "conflicting" and "KeyError" in violation.text


def test_an_unknown_word_is_no_finding() -> None:
    with pytest.raises(ValueError, match="is not one of"):
        Violation("odd", "presence.yaml", "text")


@pytest.fixture
def enumerated(enumeration: Enumeration, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The command with an enumeration that was made already: these tests are about the records. Where no
    place is named, page and findings go into the test's own folder."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("tools.audit.__main__.enumerate_all", lambda: enumeration)


# -- records and exit codes ----------------------------------------------------------------------------


@pytest.mark.usefixtures("enumerated")
def test_missing_records_are_not_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--records", str(tmp_path)]) == EXIT_NOT_RUN
    assert capsys.readouterr().out.count("not run (missing)") == len(NAMES)


@pytest.mark.usefixtures("enumerated")
def test_current_records_pass_and_stale_ones_are_not_run(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in NAMES:
        write_record(name, RECORDS[name], tmp_path)
    assert main(["--records", str(tmp_path)]) == 0
    path = tmp_path / "mutants.json"
    value = json.loads(path.read_text(encoding="utf-8"))
    path.write_text(json.dumps({**value, STAMP: "0" * 64}), encoding="utf-8")
    capsys.readouterr()
    assert main(["--records", str(tmp_path)]) == EXIT_NOT_RUN
    assert "mutants: not run (stale: made from another spec)" in capsys.readouterr().out
    path.write_bytes(b"{")
    assert read_record("mutants", tmp_path).state == "damaged"


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("coverage", {"tables": {"cells": {**TABLE, "missing": ["b"]}}}),
        ("mutants", {**RECORDS["mutants"], "survivors": [{"change": "a cell", "reason": None}]}),
        ("atlas", {**RECORDS["atlas"], "empty": ["new terminal.write before"]}),
        ("atlas", {**RECORDS["atlas"], "violations": ["recovery tapped"]}),
        ("atlas", {**RECORDS["atlas"], "mutants": {"no_fsync": False}}),
    ],
)
@pytest.mark.usefixtures("enumerated")
def test_what_a_record_calls_wrong_makes_the_gate_red(
    tmp_path: Path, name: str, change: dict[str, object]
) -> None:
    for other in NAMES:
        write_record(other, RECORDS[other], tmp_path)
    write_record(name, change, tmp_path)
    assert faults_of(read_record(name, tmp_path))
    assert main(["--records", str(tmp_path)]) == EXIT_VIOLATION


@pytest.mark.usefixtures("enumerated")
def test_the_page_and_the_findings_are_written(tmp_path: Path) -> None:
    for name in NAMES:
        write_record(name, RECORDS[name], tmp_path)
    assert main(["--records", str(tmp_path)]) == 0
    named = [tmp_path / "named.html", tmp_path / "named.json"]
    assert main(["--records", str(tmp_path), "--html", str(named[0]), "--json", str(named[1])]) == 0
    page, findings = tmp_path / "audit.html", tmp_path / "audit.json"
    assert [path.read_bytes() for path in named] == [page.read_bytes(), findings.read_bytes()]
    document = json.loads(findings.read_text(encoding="utf-8"))
    assert document["violations"] == [] and document["records"]["atlas"] == {"state": "current", "faults": []}
    assert "<svg" in page.read_text(encoding="utf-8")
    with pytest.raises(SystemExit) as ended:
        main(["--html", str(tmp_path / "no" / "folder.html"), "--records", str(tmp_path)])
    assert ended.value.code == 64


def test_the_page_stands_alone(enumeration: Enumeration, tmp_path: Path) -> None:
    html = render(enumeration, {name: read_record(name, tmp_path) for name in NAMES})
    assert not re.search(
        r"<script|<link rel=.stylesheet|url\((?!#)|@import|https?://(?!www\.w3\.org/2000/svg)", html
    )
    for heading in (
        "matrices",
        "machine",
        "closures",
        "codes",
        "failures",
        "keep",
        "recovery",
        "rulings",
        "coverage",
        "mutants",
    ):
        assert f'id="{heading}"' in html
    for ruling in range(1, 32):
        assert f"<b>R{ruling}</b>" in html
    assert html.count("not run") >= 6


def test_the_page_in_a_browser(enumeration: Enumeration, tmp_path: Path) -> None:
    """It complains of nothing, does not scroll sideways, and is drawn, in both widths and both colours."""
    page, pictures = tmp_path / "audit.html", Path(os.environ.get("HIBOR_AUDIT_PICTURES", tmp_path))
    page.write_text(render(enumeration, {name: read_record(name, tmp_path) for name in NAMES}), "utf-8")
    browser = Browser(tmp_path / "browser")
    try:
        for width, dark in ((1280, False), (390, True)):
            browser.open(page, width=width, dark=dark)
            assert len(browser.picture(pictures / f"audit-{width}.png", whole=False)) > 10_000
            assert browser.value("document.documentElement.scrollWidth <= innerWidth"), width
            assert browser.value("document.querySelectorAll('svg').length") >= 1
        assert browser.complaints == []
    finally:
        browser.close()
