"""delivery.md says what the item says, in both languages, whatever the phone called the report."""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fsm import Tables
from hibor.messages import advice
from hibor.package.delivery import item_delivery, run_delivery
from hibor.package.delivery_texts import TEXTS

HEAD = {"count": 41, "hash": "ab" * 32}


def item(**changes: Any) -> dict[str, Any]:
    return {
        "schema_version": 1,
        "run_id": "20261130T003105Z-0a1b2c",
        "item_index": 7,
        "item_id": "0123456789abcdef",
        "report_id": "HB2026113000012",
        "source": "NEW_TRIGGER",
        "state": "P08_DELIVERY",
        "status": "SUCCESS",
        "stop_code": None,
        "error_or_note": "NONE",
        "reused_without_new_trigger": False,
        "trigger_attempted": True,
        "triggered": True,
        "quota_state": "CONFIRMED",
        "quota_reservation_event_id": "1" * 32,
        "quota_terminal_event_id": "2" * 32,
        "artifact_terminal_event_id": "3" * 32,
        "title": "半导体行业周报",
        "institution": "国信证券",
        "date": "2026-11-30",
        "analysts": ["张三", "李四"],
        "final_path": "reports/2026/11/2026-11-30_国信证券_半导体行业周报_HB2026113000012.pdf",
        "bytes": 1234567,
        "sha256": "cd" * 32,
        "page_count": 12,
        "manifest_row_id": "m-0123456789abcdef",
        **changes,
    }


def stopped(**changes: Any) -> dict[str, Any]:
    empty = dict.fromkeys(("final_path", "bytes", "sha256", "page_count", "manifest_row_id"))
    code = {"stop_code": "CACHE_TIMEOUT", "error_or_note": "STOP:CACHE_TIMEOUT"}
    return item(**{"status": "STOPPED", **code, **empty, **changes})


def run(**changes: Any) -> dict[str, Any]:
    return {
        "schema_version": 1,
        "run_id": "20261130T003105Z-0a1b2c",
        "status": "PARTIAL",
        "exit_code": 10,
        "stop_reason": {"code": "CACHE_TIMEOUT", "detail": "one <b>file</b> never appeared"},
        "task": {},
        "device": {},
        "quota": {
            "account": "team-a", "day": "2026-11-30", "limit": 20, "limit_source": "task", "safe_before": 15,
            "safe_after": 13, "reserved": 0, "confirmed": 1, "uncertain": 1, "label_before": 15,
            "label_after": 13, "unexplained": 0,
        },
        "timing": {},
        "items": [item(), stopped(item_index=8, quota_state="UNCERTAIN")],
        "recovered": [],
        "provenance": {"tool_version": "0.1.0", "spec_sha256": "e" * 64, "profile_sha256": None},
        "paths": {},
        **changes,
    }  # fmt: skip


def test_both_languages_have_the_same_keys_and_places() -> None:
    assert set(TEXTS["zh"]) == set(TEXTS["en"])
    for key, text in TEXTS["zh"].items():
        assert text.count("{") == TEXTS["en"][key].count("{"), key


def test_every_outcome_has_its_words() -> None:
    from generated.terminal import STATUSES

    for lang, words in TEXTS.items():
        for status in STATUSES:
            assert words[f"status.{status}"], lang
        assert words["next.SUCCESS"] and words["next.DUPLICATE"] and words["next.open"], lang


@pytest.mark.parametrize("lang", ["zh", "en"])
def test_the_note_has_the_numbers_of_the_item(lang: str) -> None:
    told = item()
    text = item_delivery(told, ledger_head=HEAD, lang=lang)
    for key in (
        "run_id", "item_index", "item_id", "report_id", "state", "error_or_note",
        "quota_reservation_event_id", "quota_terminal_event_id", "artifact_terminal_event_id",
        "title", "institution", "date", "final_path", "bytes", "sha256", "page_count",
    ):  # fmt: skip
        assert str(told[key]) in text, key
    assert f"--head 41:{'ab' * 32}" in text
    assert TEXTS[lang]["status.SUCCESS"] in text and TEXTS[lang]["quota.CONFIRMED"] in text
    assert text.endswith("\n") and "\r" not in text
    assert text == item_delivery(told, ledger_head=HEAD, lang=lang)


def test_the_first_line_is_for_programs() -> None:
    first = item_delivery(item(run_id="x-->y"), ledger_head=HEAD).splitlines()[0]
    assert first.startswith("<!-- ") and first.endswith(" -->") and first.count("-->") == 1
    told = json.loads(first[5:-4])
    assert told == {"schema_version": 1, "item_id": "0123456789abcdef", "lang": "zh", "run_id": "x-->y"}


def test_every_combination_of_status_source_and_quota_is_told_apart() -> None:
    texts = {
        item_delivery(item(status=status, source=source, quota_state=quota), ledger_head=None)
        for status, source, quota in itertools.product(
            ("SUCCESS", "DUPLICATE", "FAILED", "STOPPED"),
            ("NEW_TRIGGER", "PROJECT_REUSE", "CACHE_REUSE"),
            ("NONE", "RESERVED", "RELEASED", "CONFIRMED", "UNCERTAIN"),
        )
    }
    assert len(texts) == 4 * 3 * 5


def test_nothing_delivered_says_so_and_what_to_do() -> None:
    no_head = {"count": 0, "hash": "0" * 64}
    text = item_delivery(stopped(title=None, analysts=None), ledger_head=no_head, lang="en")
    assert "No file was delivered." in text and "`CACHE_TIMEOUT`" in text and "STOP:CACHE_TIMEOUT" in text
    assert "is not charged again" in text and "hibor.recover --list" in text
    assert "The ledger has no line." in text and "None" not in text


HOSTILE = [
    "a\n# b", "<script>alert(1)</script>", "| x | y", "[k](http://e)", "`rm`", "\u202eabc\0", "**b**", "&lt;",
]  # fmt: skip


@pytest.mark.parametrize("title", HOSTILE)
def test_a_title_stays_text(title: str) -> None:
    told = item(title=title, institution=title, analysts=[title], report_id=title)
    for text in (item_delivery(told, ledger_head=HEAD), run_delivery(run(items=[told]), ledger_head=HEAD)):
        outside = re.sub(r"`[^`\n]*`|\\[<\[*]", "", text)  # code and escaped marks are not read as markup
        for marked in ("<script", "\n# b", "[k](", "**b**", "\u202e", "\0"):
            assert marked not in outside
    heads = [line for line in item_delivery(told, ledger_head=HEAD).splitlines() if line.startswith("#")]
    assert len(heads) == 5


@given(st.text(max_size=60))
def test_a_table_row_stays_one_row(title: str) -> None:
    def bars(text: str) -> Mapping[str, int]:
        row = next(line for line in text.splitlines() if line.startswith("| 7 "))
        return {"bars": row.replace("\\|", "").count("|"), "lines": len(text.splitlines())}

    plain = bars(run_delivery(run(), ledger_head=HEAD))
    told = item(title=title, institution=title, report_id=title)
    assert bars(run_delivery(run(items=[told, stopped(item_index=8)]), ledger_head=HEAD)) == plain


@pytest.mark.parametrize("lang", ["zh", "en"])
def test_the_run_note(lang: str) -> None:
    told = run(recovered=[item(item_index=3, run_id="20261129T003105Z-ffffff", report_id="OLD")])
    text = run_delivery(told, ledger_head=HEAD, lang=lang)
    words = TEXTS[lang]
    assert words["delivered"].format(delivered=1, selected=2) in text
    for expected in ("PARTIAL", "10", "CACHE_TIMEOUT", "1234567", "team-a", "20", "15", "13"):
        assert f"`{expected}`" in text, expected
    assert "| 3 |" in text
    assert words["recovered"] in text and words["next.open"] in text
    assert f"--head 41:{'ab' * 32}" in text
    empty = run(items=[], stop_reason=None, quota=None, provenance=None)
    calm = run_delivery(empty, ledger_head=None, lang=lang)
    assert words["no_items"] in calm and words["recovered"] not in calm and words["next.SUCCESS"] in calm
    loud = run_delivery(run(quota={**told["quota"], "unexplained": 2}), ledger_head=HEAD, lang=lang)
    assert words["unexplained"].format(count=2) in loud


@pytest.mark.parametrize("lang", ["zh", "en"])
def test_what_comes_next_is_true_of_the_item(lang: str) -> None:
    """An open item goes on by itself; a closed one does not, and is told by its own code."""
    words, closed = TEXTS[lang], Tables.default().closed_state
    refused = stopped(state=closed, stop_code="CANDIDATE_REJECTED", error_or_note="STOP:CANDIDATE_REJECTED")
    for text in (
        item_delivery(refused, ledger_head=HEAD, lang=lang),
        run_delivery(run(items=[item(), refused]), ledger_head=HEAD, lang=lang),
    ):
        assert words["next.open"] not in text
        assert advice(lang, "CANDIDATE_REJECTED").next in text
    assert words["next.open"] in item_delivery(stopped(), ledger_head=HEAD, lang=lang)


def test_a_report_that_was_replaced_is_told_apart_from_what_was_selected() -> None:
    """Two of two came, and a third had been tried before one of them."""
    words, closed = TEXTS["en"], Tables.default().closed_state
    items = [item(), stopped(item_index=2, state=closed, stop_code="CANDIDATE_REJECTED"), item(item_index=3)]
    text = run_delivery(run(items=items, counts={"selected": 2}), ledger_head=HEAD, lang="en")
    assert words["delivered"].format(delivered=2, selected=2) in text
    assert words["replaced"].format(count=1) in text
