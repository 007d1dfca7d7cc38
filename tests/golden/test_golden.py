"""Sixteen public items written out in full from V006 §3, and what `fsm` makes of their facts (ruling R31)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import attrs
import pytest

from fsm import (
    Closure,
    ContractError,
    FinalFile,
    ItemOutcome,
    ItemPackageSnapshot,
    StateUncertain,
    build_terminal_item,
)

FILES = sorted(Path(__file__).parent.glob("*.json"))
CASES = {path.stem: json.loads(path.read_text(encoding="utf-8")) for path in FILES}
KEYS = [
    "schema_version", "run_id", "item_index", "item_id", "report_id", "source", "state", "status",
     "stop_code",
    "error_or_note", "reused_without_new_trigger", "trigger_attempted", "triggered", "quota_state",
    "quota_reservation_event_id", "quota_terminal_event_id", "artifact_terminal_event_id", "title",
     "institution",
    "date", "analysts", "final_path", "bytes", "sha256", "page_count", "manifest_row_id",
]  # fmt: skip


def facts_of(case: dict[str, Any]) -> tuple[ItemPackageSnapshot, ItemOutcome]:
    """The snapshot and outcome the golden item tells of."""
    item, inner, closure = case["item"], case["snapshot"], case["outcome"]["closure"]
    final = None
    if item["final_path"] is not None:
        final = FinalFile(item["final_path"], item["bytes"], item["sha256"], item["page_count"])
    shot = ItemPackageSnapshot(
        run_id=item["run_id"],
        item_index=item["item_index"],
        item_id=item["item_id"],
        report_id=item["report_id"],
        source=item["source"],
        lane=inner["lane"],
        state=item["state"],
        presence=inner["presence"],
        artifact=inner["artifact"],
        quota_state=item["quota_state"],
        reservation_event_id=item["quota_reservation_event_id"],
        quota_terminal_event_id=item["quota_terminal_event_id"],
        artifact_event_id=item["artifact_terminal_event_id"],
        trigger_attempted=item["trigger_attempted"],
        triggered=item["triggered"],
        title=item["title"],
        institution=item["institution"],
        date=item["date"],
        analysts=None if item["analysts"] is None else tuple(item["analysts"]),
        final=final,
        manifest_row_id=item["manifest_row_id"],
        cache_identity=inner["cache_identity"],
        closing=inner["closing"],
    )
    return shot, ItemOutcome(case["outcome"]["code"], Closure(**closure) if closure else None)


def test_sixteen_documents_that_differ_in_what_they_show() -> None:
    assert len(CASES) == 16
    shown = {(c["item"]["state"], c["item"]["source"], c["item"]["status"], c["item"]["error_or_note"],
              c["snapshot"]["presence"]) for c in CASES.values()}  # fmt: skip
    assert len(shown) == 16
    variants = {c["outcome"]["closure"]["variant"][:3] for c in CASES.values() if c["outcome"]["closure"]}
    assert variants == {f"C{number:02}" for number in range(1, 11)}
    assert {c["item"]["status"] for c in CASES.values()} == {"SUCCESS", "DUPLICATE", "FAILED", "STOPPED"}


@pytest.mark.parametrize("name", CASES)
def test_the_document_is_rebuilt_key_by_key(name: str) -> None:
    case = CASES[name]
    assert case["clause"].startswith("V006 §") and case["about"]
    assert list(case["item"]) == KEYS
    item = build_terminal_item(*facts_of(case)).to_dict()
    assert json.dumps(item, ensure_ascii=False) == json.dumps(case["item"], ensure_ascii=False)


@pytest.mark.parametrize("name", CASES)
def test_no_other_code_gives_the_document(name: str) -> None:
    case = CASES[name]
    shot, outcome = facts_of(case)
    for other in {c["outcome"]["code"] for c in CASES.values()} - {outcome.code}:
        try:
            item = build_terminal_item(shot, attrs.evolve(outcome, code=other)).to_dict()
        except ContractError:
            continue
        assert item != case["item"]


@pytest.mark.parametrize("name", CASES)
def test_one_letter_of_evidence_less_or_more_is_refused(name: str) -> None:
    case = CASES[name]
    shot, outcome = facts_of(case)
    for place in range(1, 8):  # S alone may be N or V after publishing
        for letter in "NVIUX":
            shown = shot.presence[:place] + letter + shot.presence[place + 1 :]
            # C10 takes every Prefix3 from P08 on: with T it is another closing of the same facts (ruling R5).
            if shown == shot.presence or (name, shown) == ("15_reuse_persist_late", "NVNNVVVV"):
                continue
            with pytest.raises((ContractError, StateUncertain)):
                build_terminal_item(attrs.evolve(shot, presence=shown), outcome)
