"""`python -m hibor.run`: the 6 + 4 package, the same run again, and a day without quota (design 1; issue
"Must show").

Expected values are the product's own figures; files are read by a second reader, PDFs by pymupdf.
"""

from __future__ import annotations

import hashlib
import json
import re
import shutil
from collections import Counter
from pathlib import Path
from typing import Any

import pymupdf

from tests.conftest import WarmLibrary
from tests.main_job import (
    ITEM_KEYS,
    RUN_KEYS,
    MainJob,
    check_served,
    events,
    item_folder,
    ledgers,
    lines_of,
    nothing_reserved,
    read_ledger,
    served,
)

# -- the 6 + 4 package -----------------------------------------------------------------------------------


def test_default_run_is_complete(warm: WarmLibrary) -> None:
    document = warm.first.document
    assert warm.first.summary() == (0, "COMPLETE", None)
    assert list(document) == RUN_KEYS
    assert document["schema_version"] == 1
    assert re.fullmatch(r"\d{8}T\d{6}Z-[0-9a-f]{6}", document["run_id"])
    assert document["recovered"] == []
    assert document["counts"]["by_status"] == {"SUCCESS": 10}
    assert document["counts"]["by_source"] == {"NEW_TRIGGER": 6, "CACHE_REUSE": 4}


def test_default_run_has_six_new_and_four_reused_items(warm: WarmLibrary) -> None:
    items = warm.first.items
    assert len(items) == 10
    assert Counter(item["source"] for item in items) == {"NEW_TRIGGER": 6, "CACHE_REUSE": 4}
    assert {(item["state"], item["status"], item["stop_code"]) for item in items} == {
        ("P10_CLOSED", "SUCCESS", None)
    }
    assert [item["item_index"] for item in items] == list(range(1, 11))
    assert len({item["report_id"] for item in items}) == 10


def test_items_have_26_keys_in_order(warm: WarmLibrary) -> None:
    assert len(ITEM_KEYS) == 26
    for run in (warm.first, warm.second):
        for item in run.items:
            assert list(item) == ITEM_KEYS


def test_ids_are_derived_as_the_formats_say(warm: WarmLibrary) -> None:
    for item in warm.first.items:
        words = f"{item['run_id']}\n{item['report_id']}\n{item['source']}"
        assert item["item_id"] == hashlib.sha256(words.encode()).hexdigest()[:16]
        row = f"{item['run_id']}\n{item['item_id']}"
        assert item["manifest_row_id"] == "m-" + hashlib.sha256(row.encode()).hexdigest()[:16]


def check_final(library: Path, item: dict[str, Any]) -> None:
    path = library / item["final_path"]
    content = path.read_bytes()
    assert (len(content), hashlib.sha256(content).hexdigest()) == (item["bytes"], item["sha256"])
    with pymupdf.open(path) as pdf:
        assert pdf.is_pdf and not pdf.needs_pass and pdf.page_count == item["page_count"] >= 1
        for page in pdf:
            page.get_text()


def test_every_final_pdf_opens_with_the_stated_bytes_hash_and_pages(warm: WarmLibrary) -> None:
    for item in warm.first.items:
        check_final(warm.path, item)
    finals = {item["final_path"] for item in warm.first.items}
    assert finals == {path.relative_to(warm.path).as_posix() for path in warm.path.glob("reports/**/*.pdf")}


def test_final_names_say_date_institution_title_and_report(warm: WarmLibrary) -> None:
    for item in warm.first.items:
        year, month, _day = item["date"].split("-")
        folder, name = item["final_path"].rsplit("/", 1)
        assert folder == f"reports/{year}/{month}"
        assert name == f"{item['date']}_{item['institution']}_{item['title']}_{item['report_id']}.pdf"


def test_notes_trigger_pair_and_event_ids_follow_the_source(warm: WarmLibrary) -> None:
    for item in warm.first.items:
        new = item["source"] == "NEW_TRIGGER"
        assert item["reused_without_new_trigger"] is not new
        assert (item["trigger_attempted"], item["triggered"]) == (new, new)
        assert item["error_or_note"] == ("NONE" if new else "ZERO_QUOTA_REUSE")
        assert item["quota_state"] == ("CONFIRMED" if new else "NONE")
        ids = [
            item[f"{part}_event_id"] for part in ("quota_reservation", "quota_terminal", "artifact_terminal")
        ]
        assert all(value is not None for value in ids) if new else ids == [None, None, None]


def test_event_ids_of_items_are_their_ledger_events(warm: WarmLibrary) -> None:
    known = {event["event_id"]: event for event in events(warm.path)}
    for item in warm.first.items:
        if item["source"] != "NEW_TRIGGER":
            continue
        pairs = {
            "RESERVED": item["quota_reservation_event_id"],
            "CONFIRMED": item["quota_terminal_event_id"],
            "ARTIFACT_SUCCESS": item["artifact_terminal_event_id"],
        }
        for kind, event_id in pairs.items():
            event = known[event_id]
            assert (event["type"], event["report_id"], event["item_id"]) == (
                kind,
                item["report_id"],
                item["item_id"],
            )
            family = "\n".join((event["account"], event["day"], event["report_id"], str(event["ordinal"])))
            assert event["family"] == hashlib.sha256(family.encode()).hexdigest()[:32]
            assert event_id == hashlib.sha256(f"{event['family']}\n{kind}".encode()).hexdigest()[:32]


def test_ledger_holds_six_families_of_three_events(warm: WarmLibrary) -> None:
    (ledger,) = ledgers(warm.path)
    found = read_ledger(ledger)
    assert len(found) == 18
    assert Counter(event["type"] for event in found) == {"RESERVED": 6, "CONFIRMED": 6, "ARTIFACT_SUCCESS": 6}


def test_quota_of_the_default_run(warm: WarmLibrary) -> None:
    quota = warm.first.document["quota"]
    assert (quota["safe_before"], quota["safe_after"]) == (20, 14)
    assert (quota["label_before"], quota["label_after"]) == (20, 14)
    assert (quota["reserved"], quota["confirmed"], quota["uncertain"], quota["unexplained"]) == (0, 6, 0, 0)


def test_phone_time_is_printed_and_below_600_s(warm: WarmLibrary) -> None:
    timing = warm.first.document["timing"]
    assert 0 < timing["phone_time_s"] < 600 and timing["deadline_s"] == 600
    said = re.search(r"phone time (\d+) s of 600 s", warm.first.stderr)
    assert said is not None and int(said[1]) == round(timing["phone_time_s"])


def test_the_phone_is_said_to_be_simulated(warm: WarmLibrary) -> None:
    assert warm.first.document["device"]["simulated"] is True
    assert warm.first.stderr.startswith("The phone is simulated")


def test_served_equals_confirmed(warm: WarmLibrary) -> None:
    check_served(warm.path)
    assert len(warm.served_after_first) == 6


def test_run_json_is_the_document_on_stdout(warm: WarmLibrary) -> None:
    for run in (warm.first, warm.second):
        document = run.document
        folder = warm.path / document["paths"]["run"]
        assert (folder / "run.json").read_bytes() == run.stdout
        assert (warm.path / document["paths"]["delivery"]).is_file()


def test_manifest_rows_are_the_items(warm: WarmLibrary) -> None:
    rows = {row["manifest_row_id"]: row for row in lines_of(warm.path / "manifest.jsonl")}
    items = [*warm.first.items, *warm.second.items]
    assert len(rows) == len(items) == 20
    for item in items:
        row = rows[item["manifest_row_id"]]
        for key in (
            "run_id",
            "item_id",
            "report_id",
            "source",
            "final_path",
            "bytes",
            "sha256",
            "page_count",
        ):
            assert row[key] == item[key]


def test_terminal_json_holds_the_item_and_the_hashes_of_its_package(warm: WarmLibrary) -> None:
    closures = {"NEW_TRIGGER": "C01_NEW_SUCCESS", "CACHE_REUSE": "C03_REUSE_SUCCESS"}
    for item in warm.first.items:
        folder = item_folder(warm.path, item)
        terminal = json.loads((folder / "terminal.json").read_bytes())
        assert terminal["item"] == item and list(terminal["item"]) == ITEM_KEYS
        assert terminal["closure_variant"] == closures[item["source"]]
        assert terminal["source_state"] == "P09_TIMING"
        for name in ("delivery.md", "timing.json"):
            key = name.split(".")[0] + "_sha256"
            assert terminal[key] == hashlib.sha256((folder / name).read_bytes()).hexdigest()


def test_no_temporary_file_is_left(warm: WarmLibrary) -> None:
    kept = [path for path in warm.path.rglob("*") if "sim-phone" not in path.parts]
    odd = [path.name for path in kept if re.search(r"\.(tmp|part|partial|staging|new)$", path.name)]
    assert odd == []


# -- the same again --------------------------------------------------------------------------------------


def test_second_run_reuses_all_ten_from_the_library(warm: WarmLibrary) -> None:
    assert warm.second.summary() == (0, "COMPLETE", None)
    items = warm.second.items
    assert [item["source"] for item in items] == ["PROJECT_REUSE"] * 10
    assert {(item["state"], item["status"]) for item in items} == {("P10_CLOSED", "SUCCESS")}
    before = {item["report_id"]: (item["final_path"], item["sha256"]) for item in warm.first.items}
    assert {item["report_id"]: (item["final_path"], item["sha256"]) for item in items} == before


def test_second_run_leaves_the_ledger_byte_identical(warm: WarmLibrary) -> None:
    (ledger,) = ledgers(warm.path)
    assert ledger.read_bytes() == warm.ledger_after_first


def test_second_run_makes_the_phone_serve_nothing(warm: WarmLibrary) -> None:
    assert served(warm.path) == warm.served_after_first


# -- without quota ---------------------------------------------------------------------------------------


def test_without_quota_reuse_succeeds_and_the_first_new_item_stops(main_job: MainJob, tmp_path: Path) -> None:
    library = tmp_path / "library"
    run = main_job("--library", library, "--quota-limit", "0")
    assert run.summary() == (11, "PARTIAL_QUOTA_STOP", "QUOTA_EXHAUSTED")
    reused, new = run.items[:-1], run.items[-1]
    assert [item["source"] for item in reused] == ["CACHE_REUSE"] * 4
    assert {(item["state"], item["status"]) for item in reused} == {("P10_CLOSED", "SUCCESS")}
    for item in reused:
        check_final(library, item)
    assert new["source"] == "NEW_TRIGGER" and new["stop_code"] == "QUOTA_EXHAUSTED"
    assert (new["status"], new["error_or_note"]) == ("STOPPED", "STOP:QUOTA_EXHAUSTED")
    terminal = json.loads((item_folder(library, new) / "terminal.json").read_bytes())
    assert terminal["source_state"].startswith("P00_")
    assert terminal["closure_variant"].startswith("C05_")
    assert nothing_reserved(library) and served(library) == []
    assert run.document["quota"]["safe_before"] == run.document["quota"]["safe_after"] == 0


def test_without_quota_a_used_ledger_stays_byte_identical(
    main_job: MainJob, warm: WarmLibrary, tmp_path: Path
) -> None:
    """With rows in the ledger already: bytes, hash and row count stay, and no further NEW item is opened."""
    library = tmp_path / "library"
    shutil.copytree(warm.path, library)
    (ledger,) = ledgers(library)
    run = main_job("--library", library, "--quota-limit", "0", "--count", "12")
    assert run.summary() == (11, "PARTIAL_QUOTA_STOP", "QUOTA_EXHAUSTED")
    assert Counter(item["source"] for item in run.items) == {"PROJECT_REUSE": 10, "NEW_TRIGGER": 1}
    assert ledger.read_bytes() == warm.ledger_after_first
    assert served(library) == warm.served_after_first
