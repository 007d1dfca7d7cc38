"""tools.diff: a change of the contract is told by its meaning, and recorded items are replayed against it."""

from __future__ import annotations

import json
import subprocess
from itertools import product
from pathlib import Path

import pytest

from fsm import verdict_table
from tests.tools.spec_copy import ROOT, SpecCopy, copy_spec
from tools.compile.check import compile_folder
from tools.compile.derive import Derived
from tools.diff.__main__ import main
from tools.diff.recorded import shortest_trace
from tools.diff.verdicts import changes, verdict


@pytest.fixture
def spec(tmp_path: Path) -> SpecCopy:
    return copy_spec(tmp_path / "new")


@pytest.fixture(scope="module")
def contract() -> Derived:
    return compile_folder(ROOT / "spec").derived


def told(spec: SpecCopy, capsys: pytest.CaptureFixture[str], *more: str) -> tuple[int, str]:
    exit_code = main([str(ROOT / "spec"), str(spec.folder), *more])
    return exit_code, capsys.readouterr().out


def test_same_contract_exits_0(spec: SpecCopy, capsys: pytest.CaptureFixture[str]) -> None:
    assert told(spec, capsys) == (0, "The two contracts are the same.\n")


def test_wording_alone_is_told_and_exits_0(spec: SpecCopy, capsys: pytest.CaptureFixture[str]) -> None:
    spec.change("governance", "meaning: any contract error", "meaning: some contract error")
    spec.change("presence", "meaning: nothing durable yet", "meaning: nothing is durable yet")
    exit_code, text = told(spec, capsys)
    assert exit_code == 0
    assert text.startswith("wording only:\n")
    assert "CONTRACT_ERROR is explained in other words" in text


SENTENCES = [
    (
        "presence",
        "    P07: [N|V, V, V, ",
        "    P07: [N,   V, V, ",
        "NEW_TRIGGER P07_MANIFESTED: S was N|V, is N. 1 presence LEGAL → CONTRACT_ERROR, the first VVVVVNNN; "
        "127 presences UNCERTAIN → CONTRACT_ERROR, the first VVVVVNNU.",
    ),
    (
        "closures",
        "only_sources: [CACHE_REUSE]",
        "only_sources: [PROJECT_REUSE]",
        'C04_REUSE_DUPLICATE: only_sources was ("CACHE_REUSE",), is ("PROJECT_REUSE",).',
    ),
    (
        "presence",
        "    P07: [N|V, V, N, N, V, N, N, N]",
        "    P07: [N,   V, N, N, V, N, N, N]",
        "C03_REUSE_SUCCESS no longer accepts 1 input, "
        "the first PURE_REUSE P07_MANIFESTED VVNNVVVV - SUCCESS.",
    ),
    (
        "codes",
        "  P07: [PERSIST_LATE]",
        "  P07: [PERSIST_LATE, LOCK_TIMEOUT]",
        "An item at P07_MANIFESTED (CONFIRMED) may now stop with LOCK_TIMEOUT.",
    ),
    (
        "failures",
        "P06: LOCK_TIMEOUT, run",
        "run",
        "lock_timeout at P06_PUBLISHED was LOCK_TIMEOUT, is impossible.",
    ),
    (
        "keep",
        "nodes: [P06], codes: [MANIFEST_INVALID], action: close",
        "nodes: [P06], codes: [MANIFEST_INVALID], action: keep",
        "NEW_TRIGGER P06_PUBLISHED (CONFIRMED) with MANIFEST_INVALID: was close, is keep.",
    ),
    (
        "recovery",
        "nodes: [P01], marks: [ITEM_OPENED], action: close",
        "nodes: [P01], marks: [ITEM_OPENED], action: halt",
        "A run that ended at NEW_TRIGGER P01_RESERVED with mark ITEM_OPENED: was close, is halt.",
    ),
    (
        "edges",
        "event: told, target: P08, steps: [delivery.write]}\n  - {lane: NEW_TRIGGER",
        "event: told, target: P08, steps: [candidate.remove, delivery.write]}\n  - {lane: NEW_TRIGGER",
        "NEW_TRIGGER P07_MANIFESTED on told: the steps were delivery.write; "
        "they are candidate.remove, delivery.write.",
    ),
    (
        "governance",
        "status: PARTIAL, exit: 10",
        "status: PARTIAL, exit: 13",
        "Run status PARTIAL: exit was 10, is 13.",
    ),
    (
        "governance",
        "closing_reserve_s: 20",
        "closing_reserve_s: 25",
        "GUARD_RAILS closing_reserve_s was 20, is 25.",
    ),
    (
        "governance",
        "{code: CACHE_TIMEOUT, at: 1}",
        "{code: CACHE_TIMEOUT, at: 3}",
        "BREAKER CACHE_TIMEOUT was 1, is 3.",
    ),
    (
        "terminal",
        "'STOP:{code}'",
        "'STOPPED:{code}'",
        'NOTES STOPPED was "STOP:{code}", is "STOPPED:{code}".',
    ),
    (
        "ledger",
        "outside_families: [REPAIRED, CLOCK",
        "outside_families: [CLOCK",
        'OUTSIDE_FAMILIES loses "REPAIRED".',
    ),
]


@pytest.mark.parametrize(
    ("name", "old", "new", "sentence"), SENTENCES, ids=[row[3][:40] for row in SENTENCES]
)
def test_change_is_told_by_its_meaning(
    spec: SpecCopy, capsys: pytest.CaptureFixture[str], name: str, old: str, new: str, sentence: str
) -> None:
    spec.change(name, old, new)
    exit_code, text = told(spec, capsys)
    assert exit_code == 1
    assert sentence in text


def test_verdict_counts_equal_brute_force(contract: Derived) -> None:
    """Counting by letter classes against all 5⁸ presences, and the verdicts against those of `fsm`."""
    lane, short = "NEW_TRIGGER", contract.open_shorts[5]
    old = contract.rows[lane, short]
    new = (frozenset("IV"), *old[1:7], frozenset("NU"))
    counted: dict[tuple[str, str], int] = {}
    table = verdict_table(lane, contract.state(short))
    order = ["LEGAL", "HALT", "UNCERTAIN", "CONTRACT_ERROR"]
    for index, letters in enumerate(product(contract.letters, repeat=8)):
        before, after = verdict(old, "".join(letters)), verdict(new, "".join(letters))
        if order[table[index]] != before:
            pytest.fail(f"{''.join(letters)}: {before} here, {order[table[index]]} in fsm")
        if before != after:
            counted[before, after] = counted.get((before, after), 0) + 1
    assert {pair: count for pair, (count, _) in changes(contract.letters, old, new).items()} == counted
    assert len(counted) >= 3


def write_terminal(library: Path, name: str, **changed: str) -> None:
    row = {
        "source": "NEW_TRIGGER",
        "status": "STOPPED",
        "stop_code": "PERSIST_LATE",
        "quota_state": "CONFIRMED",
        "item_id": name,
        "presence": "NVVVVVVV",
        "closure_variant": "C09_POSTPUBLISH_STOP",
        "source_state": "P09_TIMING",
        **changed,
    }
    item = {key: row[key] for key in ("source", "status", "stop_code", "quota_state", "item_id")}
    folder = library / "runs" / "20261130T003105Z-0a1b2c" / "items" / name
    folder.mkdir(parents=True)
    document = {"item": item, **{key: row[key] for key in ("presence", "closure_variant", "source_state")}}
    (folder / "terminal.json").write_text(json.dumps(document), encoding="utf-8")


def test_recorded_items_that_would_close_differently(
    spec: SpecCopy, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    library = tmp_path / "library"
    write_terminal(library, "01-late")
    write_terminal(
        library,
        "02-good",
        status="SUCCESS",
        stop_code="",
        closure_variant="C01_NEW_SUCCESS",
    )
    write_terminal(
        library,
        "03-released",
        stop_code="TRIGGER_NOT_OCCURRED",
        quota_state="RELEASED",
        presence="NNVNNNNV",
        closure_variant="C07_TRIGGER_CLOSED_NO_ARTIFACT",
        source_state="P02_TRIGGER_UNKNOWN",
    )
    broken = library / "runs" / "20261130T003105Z-0a1b2c" / "items" / "04-broken"
    broken.mkdir()
    (broken / "terminal.json").write_text("{", encoding="utf-8")
    spec.change(
        "keep",
        "nodes: [P09], codes: [PERSIST_LATE], action: close",
        "nodes: [P09], codes: [PERSIST_LATE], action: keep",
    )
    exit_code, text = told(spec, capsys, "--runs", str(library), "--json")
    document = json.loads(text)
    assert exit_code == 1
    assert document["items_read"] == 3
    assert [row["item_id"] for row in document["items_changed"]] == ["01-late"]
    changed = document["items_changed"][0]
    assert changed["was"] == "C09_POSTPUBLISH_STOP"
    assert changed["now"].startswith("kept")
    assert changed["trace"][0] == "admitted"
    assert changed["trace"][-1] == "close:C09_POSTPUBLISH_STOP"
    assert len(document["items_unread"]) == 1 and "04-broken" in document["items_unread"][0]


def test_recorded_item_that_no_closure_accepts_any_more(
    spec: SpecCopy, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    library = tmp_path / "library"
    write_terminal(library, "01-kept-staging", presence="VVVVVVVV")
    spec.change(
        "presence",
        "    P09: [N|V, V, V,     V,     V, V, V, N]",
        "    P09: [N,   V, V,     V,     V, V, V, N]",
    )
    spec.change("presence", "    P08: [N|V, V, V, ", "    P08: [N,   V, V, ")
    spec.change("presence", "    P07: [N|V, V, V, ", "    P07: [N,   V, V, ")
    exit_code, text = told(spec, capsys, "--runs", str(library))
    assert exit_code == 1
    assert "item 01-kept-staging closed as C09_POSTPUBLISH_STOP, would now be: no closure accepts it." in text
    assert "Shortest trace: admitted → detail_open → confirmed → seek → matched" in text


def test_shortest_trace_is_a_path_of_edges(contract: Derived) -> None:
    for edge in contract.closing_edges:
        assert edge.variant is not None
        state = contract.state(edge.source.partition("-")[0])
        trace = shortest_trace(contract, edge.lane, state, edge.variant)
        if not edge.source.endswith("-U"):
            assert trace, (edge.lane, state, edge.variant)
        node = contract.nodes[edge.lane][0]
        for event in trace:
            (found,) = [e for e in contract.edges if (e.lane, e.source, e.event) == (edge.lane, node, event)]
            node = found.target
        assert not trace or node == contract.closed


def test_git_revision(capsys: pytest.CaptureFixture[str]) -> None:
    head = subprocess.run(
        ["git", "-C", str(ROOT), "cat-file", "-e", "HEAD:spec/codes.yaml"], capture_output=True
    )
    if head.returncode != 0:
        pytest.skip("not a checkout with a committed spec")
    assert main(["HEAD", "HEAD"]) == 0
    assert capsys.readouterr().out == "The two contracts are the same.\n"


def test_a_change_that_does_not_compile_is_told_all_the_same(
    spec: SpecCopy, capsys: pytest.CaptureFixture[str]
) -> None:
    """A reviewer who changes one cell sees what it means before the rest is made to fit."""
    row = "P09: [N|V, V, V,     V,     V, V, V, N]"
    spec.change("presence", row, row.replace("N|V", "V", 1))
    assert main([str(ROOT), str(spec.folder)]) == 64
    told = capsys.readouterr()
    assert "does not compile" in told.err and "spec/edges.yaml:" in told.err
    assert "NEW_TRIGGER P09_TIMING: S was N|V, is V. 1 presence LEGAL → CONTRACT_ERROR" in told.out


def test_faulty_spec_is_no_comparison(spec: SpecCopy, capsys: pytest.CaptureFixture[str]) -> None:
    spec.change("codes", "  P07: [PERSIST_LATE]\n", "")
    assert main([str(ROOT), str(spec.folder)]) == 64
    assert "spec/codes.yaml:" in capsys.readouterr().err


@pytest.mark.parametrize("arguments", [[], ["nowhere-at-all", "."], [".", ".", "--runs", "/no/such/folder"]])
def test_usage(arguments: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    with pytest.raises(SystemExit) as caught:
        main(arguments)
    assert caught.value.code == 64
