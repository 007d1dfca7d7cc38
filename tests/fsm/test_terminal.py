"""The closed constructor: 26 keys, notes, pairs, ids, every reason to refuse (V006 §3, §5.2-§5.5; R4-R24)."""

from __future__ import annotations

from itertools import product
from typing import Any

import attrs
import pytest

from fsm import (
    Closure,
    ContractError,
    FinalFile,
    ItemOutcome,
    StateUncertain,
    TerminalItem,
    build_terminal_item,
    validate_snapshot,
)
from tests.fsm import v006
from tests.fsm.samples import (
    FINAL,
    IDS,
    KEYS,
    PATTERN,
    SHA,
    closed,
    closing,
    public_item,
    running,
    snapshot,
    stopped,
    trigger_pair,
)  # fmt: skip

NEW, PURE = v006.NEW, v006.PURE
SUCCESS = closing("NONE", "C01_NEW_SUCCESS", "P09")
DUPLICATE = closing("DUPLICATE_EXISTING_ARTIFACT", "C02_NEW_DUPLICATE", "P05")
NODES = [(lane, node, quota) for (lane, node), quotas in v006.NODE_QUOTA.items() for quota in quotas]


def success(**changes: Any) -> Any:
    """A plain NEW success as closed."""
    return closed(NEW, "P09", "NVVVVVVV", "CONFIRMED", "SUCCESS", **changes)


def test_exactly_the_26_keys_in_order() -> None:
    item = build_terminal_item(success(), SUCCESS)
    assert isinstance(item, TerminalItem)
    shown = item.to_dict()
    assert len(KEYS) == 26
    assert tuple(shown) == KEYS
    assert shown == {
        "schema_version": 1,
        "run_id": "20261130T003105Z-0a1b2c",
        "item_index": 1,
        "item_id": "0123456789abcdef",
        "report_id": "HB2026113000012",
        "source": "NEW_TRIGGER",
        "state": "P10_CLOSED",
        "status": "SUCCESS",
        "stop_code": None,
        "error_or_note": "NONE",
        "reused_without_new_trigger": False,
        "trigger_attempted": True,
        "triggered": True,
        "quota_state": "CONFIRMED",
        "quota_reservation_event_id": "reservation-event",
        "quota_terminal_event_id": "quota-event",
        "artifact_terminal_event_id": "artifact-event",
        "title": "存储行业周报",
        "institution": "国信证券",
        "date": "2026-11-30",
        "analysts": ["张三", "李四"],
        "final_path": "reports/2026/11/2026-11-30_国信证券_存储行业周报_HB2026113000012.pdf",
        "bytes": 482_113,
        "sha256": SHA,
        "page_count": 12,
        "manifest_row_id": "m-0123456789abcdef",
    }
    assert item["bytes"] == 482_113


NOTES = [
    (success(), SUCCESS, "SUCCESS", None, "NONE"),
    (closed(NEW, "P09", "NVVVVVVV", "UNCERTAIN", "SUCCESS"), SUCCESS, "SUCCESS", None,
     "WARNING:TRIGGER_UNCERTAIN_CACHE_IDENTITY_CONFIRMED"),
    (closed(PURE, "P09", "NVNNVVVV", "NONE", source="PROJECT_REUSE"), closing("NONE", "C03_REUSE_SUCCESS",
     "P09"),
     "SUCCESS", None, "ZERO_QUOTA_REUSE"),
    (closed(PURE, "P09", "VVNNVVVV", "NONE"), closing("NONE", "C03_REUSE_SUCCESS", "P09"), "SUCCESS", None,
     "ZERO_QUOTA_REUSE"),
    (closed(NEW, "P05", "VVVVVVVV", "CONFIRMED", "DUPLICATE"), DUPLICATE, "DUPLICATE",
     "DUPLICATE_EXISTING_ARTIFACT",
     "DUPLICATE_EXISTING_ARTIFACT"),
    (closed(NEW, "P05", "VVVVVVVV", "UNCERTAIN", "DUPLICATE"), DUPLICATE, "DUPLICATE",
     "DUPLICATE_EXISTING_ARTIFACT",
     "DUPLICATE_EXISTING_ARTIFACT"),
    (closed(PURE, "P09", "VVNNVVVV", "NONE"), closing("DUPLICATE_EXISTING_ARTIFACT", "C04_REUSE_DUPLICATE",
     "P09"),
     "DUPLICATE", "DUPLICATE_EXISTING_ARTIFACT", "DUPLICATE_EXISTING_ARTIFACT"),
    (closed(NEW, "P00", "NNNNNNNV", "NONE"), closing("QUOTA_EXHAUSTED", "C05_PREQUOTA_STOP", "P00"),
     "STOPPED",
     "QUOTA_EXHAUSTED", "STOP:QUOTA_EXHAUSTED"),
    (closed(NEW, "P05", "VNVVNNNV", "CONFIRMED", "FAILURE"), closing("PDF_ENCRYPTED", "C08_PROCESSING_FAILED",
     "P05"),
     "FAILED", "PDF_ENCRYPTED", "FAILED:PDF_ENCRYPTED"),
    (running(NEW, "P03-N"), stopped("CACHE_TIMEOUT"), "STOPPED", "CACHE_TIMEOUT", "STOP:CACHE_TIMEOUT"),
    (running(NEW, "P09"), stopped("UNEXPECTED_EXCEPTION"), "FAILED", "UNEXPECTED_EXCEPTION",
     "FAILED:UNEXPECTED_EXCEPTION"),
]  # fmt: skip


@pytest.mark.parametrize(("shot", "outcome", "status", "stop_code", "note"), NOTES)
def test_status_stop_code_and_note(
    shot: Any, outcome: ItemOutcome, status: str, stop_code: str | None, note: str
) -> None:
    item = build_terminal_item(shot, outcome).to_dict()
    assert (item["status"], item["stop_code"], item["error_or_note"]) == (status, stop_code, note)


@pytest.mark.parametrize(("lane", "node", "quota"), NODES)
def test_every_node_quota_state_and_code(lane: str, node: str, quota: str) -> None:
    for presence, code in product(v006.NODE_PRESENCES[lane, node], sorted(v006.ALL_CODES)):
        shot = running(lane, node, quota, presence)
        if code not in v006.domain(node, quota):
            with pytest.raises(ContractError):
                build_terminal_item(shot, stopped(code))
            continue
        item = build_terminal_item(shot, stopped(code)).to_dict()
        assert item == public_item(shot, stopped(code))
        assert item["state"] == v006.FULL[node[:3]]
        assert item["status"] == ("FAILED" if code in v006.FAIL_CODES else "STOPPED")
        assert item["error_or_note"] == ("FAILED:" if code in v006.FAIL_CODES else "STOP:") + code


@pytest.mark.parametrize(("lane", "node", "quota"), NODES)
def test_one_trigger_pair_and_one_id_pattern_per_node(lane: str, node: str, quota: str) -> None:
    shot = running(lane, node, quota)
    pairs = list(product((False, True), (False, True, None)))
    accepted = []
    for attempted, triggered in pairs:
        try:
            validate_snapshot(attrs.evolve(shot, trigger_attempted=attempted, triggered=triggered))
        except ContractError:
            continue
        accepted.append((attempted, triggered))
    assert accepted == [trigger_pair(quota, node[:3])]
    patterns = []
    for ids in product(*((value, None) for value in IDS)):
        changed: dict[str, Any] = dict(
            zip(("reservation_event_id", "quota_terminal_event_id", "artifact_event_id"), ids, strict=True)
        )
        try:
            validate_snapshot(attrs.evolve(shot, **changed))
        except ContractError:
            continue
        patterns.append("".join("N" if value is None else "R" for value in ids))
    assert patterns == [PATTERN[quota, shot.presence[3]]]


def test_literal_trigger_pairs() -> None:
    assert trigger_pair("RESERVED", "P01") == (False, False)
    for node, quota, pair in (("P00", "NONE", (False, False)), ("P02-N", "RESERVED", (True, None)),
                              ("P02-U", "RESERVED", (True, None)), ("P02-V", "RELEASED", (True, False)),
                              ("P02-V", "CONFIRMED", (True, True)), ("P02-V", "UNCERTAIN", (True, None)),
                              ("P06", "UNCERTAIN", (True, None))):  # fmt: skip
        shot = running(NEW, node, quota)
        assert (shot.trigger_attempted, shot.triggered) == pair
        validate_snapshot(shot)
    validate_snapshot(running(PURE, "P06"))
    for attempted, triggered in ((True, False), (True, True), (True, None)):
        with pytest.raises(ContractError):
            validate_snapshot(running(PURE, "P06", trigger_attempted=attempted, triggered=triggered))


def test_a_quota_state_the_node_cannot_carry_is_refused() -> None:
    for (lane, node), quotas in v006.NODE_QUOTA.items():
        presence = v006.NODE_PRESENCES[lane, node][0]
        for quota in set(v006.QUOTA_STATES) - set(quotas):
            if (quota, presence[3]) in PATTERN:
                with pytest.raises(ContractError):
                    validate_snapshot(running(lane, node, quota))


@pytest.mark.parametrize("prefix", v006.PREFIXES)
def test_the_duplicate_window_stands_only_with_its_record(prefix: str) -> None:
    inside = snapshot(NEW, "P05", f"VVVV{prefix}N", "CONFIRMED", "DUPLICATE", closing="C02_NEW_DUPLICATE")
    validate_snapshot(inside)
    item = build_terminal_item(inside, stopped("UNEXPECTED_EXCEPTION")).to_dict()
    assert (item["state"], item["status"]) == ("P05_STAGING_VALID", "FAILED")
    assert (item["manifest_row_id"] is None) == (prefix == "NNN")
    for changes in ({"closing": None}, {"closing": "C08_PROCESSING_FAILED"}, {"artifact": "FAILURE"},
                    {"artifact": "SUCCESS"}, {"state": "P06_PUBLISHED"}, {"presence": f"NVVV{prefix}N"},
                    {"presence": f"VVVV{prefix}V"}, {"presence": f"VVVV{prefix}U"}):  # fmt: skip
        with pytest.raises((ContractError, StateUncertain)):
            validate_snapshot(attrs.evolve(inside, **changes))
    for gap in ("NVN", "NNV", "VNV"):
        with pytest.raises(ContractError):
            validate_snapshot(
                snapshot(NEW, "P05", f"VVVV{gap}N", "CONFIRMED", "DUPLICATE", closing="C02_NEW_DUPLICATE")
            )
    with pytest.raises(ContractError):
        build_terminal_item(inside, stopped("HASH_MISMATCH"))
    with pytest.raises(ContractError):
        build_terminal_item(inside, ItemOutcome("DUPLICATE_EXISTING_ARTIFACT"))


def test_a_closing_record_does_not_make_other_presences_acceptable() -> None:
    validate_snapshot(running(NEW, "P05-N", closing="C02_NEW_DUPLICATE"))
    with pytest.raises(ContractError):
        validate_snapshot(running(NEW, "P06", presence="NVVVVNNN", closing="C09_POSTPUBLISH_STOP"))


# V006 §5.4: what stops, where, with which 26 fields; each next to the neighbour that must be refused.
COUNTER_EXAMPLES = [
    ("P03-N", "DEADLINE_EXPIRED", "STOPPED", "FINAL_PATH_CONFLICT"),
    ("P03-N", "CACHE_TIMEOUT", "STOPPED", "HASH_MISMATCH"),
    ("P04-N", "BYTE_COUNT_MISMATCH", "FAILED", "CACHE_TIMEOUT"),
    ("P04-N", "HASH_MISMATCH", "FAILED", "PDF_NOT_OPENABLE"),
    ("P04-V", "HASH_MISMATCH", "FAILED", "DEADLINE_EXPIRED"),
    ("P05-N", "FINAL_PATH_CONFLICT", "STOPPED", "PERSIST_LATE"),
    ("P05-N", "RECOVERY_UNKNOWN", "STOPPED", "PULL_FAILED"),
    ("P07", "PERSIST_LATE", "STOPPED", "MANIFEST_INVALID"),
    ("P08", "PERSIST_LATE", "STOPPED", "LOCK_TIMEOUT"),
    ("P09", "PERSIST_LATE", "STOPPED", "RECOVERY_UNKNOWN"),
    ("P09", "UNEXPECTED_EXCEPTION", "FAILED", "MANIFEST_INVALID"),
]


@pytest.mark.parametrize(("node", "code", "status", "refused"), COUNTER_EXAMPLES)
def test_stops_of_v006_5_4(node: str, code: str, status: str, refused: str) -> None:
    shot = running(NEW, node)
    item = build_terminal_item(shot, stopped(code)).to_dict()
    finished = node in v006.POST
    assert tuple(item) == KEYS
    assert item["state"] == v006.FULL[node[:3]]
    assert (item["status"], item["stop_code"]) == (status, code)
    assert item["error_or_note"] == {"STOPPED": "STOP:", "FAILED": "FAILED:"}[status] + code
    assert (item["quota_state"], item["trigger_attempted"], item["triggered"]) == ("CONFIRMED", True, True)
    assert item["quota_reservation_event_id"] and item["quota_terminal_event_id"]
    assert (item["artifact_terminal_event_id"] is not None) == (finished or node.endswith("-V"))
    for key in ("final_path", "bytes", "sha256", "page_count"):
        assert (item[key] is not None) == finished
    assert (item["manifest_row_id"] is not None) == (node in ("P07", "P08", "P09"))
    with pytest.raises(ContractError):
        build_terminal_item(shot, stopped(refused))


def test_z_that_failed_leaves_the_item_where_it_was() -> None:
    shot = running(NEW, "P09")
    assert build_terminal_item(shot, stopped("UNEXPECTED_EXCEPTION"))["state"] == "P09_TIMING"
    for code in ("NONE", "DUPLICATE_EXISTING_ARTIFACT"):
        with pytest.raises(ContractError):
            build_terminal_item(shot, stopped(code))
    with pytest.raises(ContractError):
        build_terminal_item(running(NEW, "P09", presence="NVVVVVVV"), stopped("PERSIST_LATE"))


@pytest.mark.parametrize(
    ("lane", "node", "presence"),
    [
        (NEW, "P06", "NVVVUNNN"),
        (NEW, "P09", "NVVVVVVU"),
        (PURE, "P00", "NNNNUNNN"),
        (NEW, "P03-N", "NNVNUNNN"),
    ],
)
def test_a_doubt_without_a_substate_is_uncertain(lane: str, node: str, presence: str) -> None:
    shot = running(lane, node)
    facts = attrs.evolve(shot, presence=presence)
    with pytest.raises(StateUncertain):
        validate_snapshot(facts)
    with pytest.raises(StateUncertain):
        build_terminal_item(facts, stopped("DEADLINE_EXPIRED"))


def final(**changes: Any) -> FinalFile:
    """The final file with something wrong about it."""
    return attrs.evolve(FINAL, **changes)


REFUSED_SNAPSHOTS: list[dict[str, Any]] = [
    {"lane": "NEW"}, {"state": "P10"}, {"source": "CACHE_REUSE"}, {"source": ""}, {"quota_state": "SPENT"},
    {"presence": "NVVVVVV"}, {"presence": "NVVVVVVQ"}, {"presence": "NVVVVVVN"}, {"presence": "NVVVVVVX"},
    {"presence": "IVVVVVVV"}, {"presence": "NNVVVVVV", "final": None}, {"presence": "NVVVNVVV",
     "manifest_row_id": None},
    {"presence": "NVVVVNVV"}, {"presence": "NVVVVVNV"}, {"artifact": None}, {"artifact": "FAILURE"},
    {"artifact": "DUPLICATE"}, {"artifact": "DONE"}, {"item_index": 0}, {"item_index": -1},
     {"item_index": True},
    {"item_index": 1.0}, {"item_index": "1"}, {"item_index": None}, {"run_id": ""}, {"run_id": None},
     {"item_id": ""},
    {"item_id": 7}, {"report_id": ""}, {"reservation_event_id": None}, {"quota_terminal_event_id": None},
    {"artifact_event_id": None}, {"reservation_event_id": ""}, {"artifact_event_id": ""},
     {"trigger_attempted": False},
    {"triggered": None}, {"triggered": False}, {"final": None}, {"manifest_row_id": None},
     {"manifest_row_id": ""},
    {"quota_state": "UNCERTAIN"}, {"quota_state": "RELEASED"}, {"quota_state": "RESERVED"},
     {"quota_state": "NONE"},
    {"quota_state": "UNCERTAIN", "triggered": None, "cache_identity": None},
    {"closing": "C11_ANYTHING"}, {"closing": ""},
    {"final": final(size_bytes=0)}, {"final": final(size_bytes=-5)}, {"final": final(size_bytes=1.5)},
    {"final": final(size_bytes=True)}, {"final": final(page_count=0)}, {"final": final(page_count="12")},
    {"final": final(sha256=SHA.upper())}, {"final": final(sha256=SHA[:-1])}, {"final": final(sha256="")},
    {"final": final(sha256=None)}, {"final": final(path="")}, {"final": final(path="/reports/a.pdf")},
    {"final": final(path="reports/../a.pdf")}, {"final": final(path="reports//a.pdf")},
    {"final": final(path="reports\\a.pdf")}, {"final": final(path="./a.pdf")},
     {"final": final(path="C:/a.pdf")},
    {"final": final(path=None)},
]  # fmt: skip


@pytest.mark.parametrize("changes", REFUSED_SNAPSHOTS, ids=str)
def test_snapshots_the_constructor_refuses(changes: dict[str, Any]) -> None:
    build_terminal_item(success(), SUCCESS)
    with pytest.raises(ContractError):
        build_terminal_item(success(**changes), SUCCESS)


REFUSED_OUTCOMES: list[tuple[Any, ItemOutcome]] = [
    (success(), ItemOutcome("NONE")),
    (success(), ItemOutcome("SUCCESS", Closure("C01_NEW_SUCCESS", "P09_TIMING"))),
    (success(), ItemOutcome("", Closure("C01_NEW_SUCCESS", "P09_TIMING"))),
    (success(), ItemOutcome("actual processing error", Closure("C01_NEW_SUCCESS", "P09_TIMING"))),
    (success(), ItemOutcome("NONE", Closure("C01", "P09_TIMING"))),
    (success(), ItemOutcome("NONE", Closure("C01_NEW_SUCCESS", "P09"))),
    (success(), ItemOutcome("NONE", Closure("C01_NEW_SUCCESS", "P10_CLOSED"))),
    (success(), ItemOutcome("NONE", Closure("C01_NEW_SUCCESS", "P05_STAGING_VALID"))),
    (success(), ItemOutcome("NONE", Closure("C03_REUSE_SUCCESS", "P09_TIMING"))),
    (success(), ItemOutcome("NONE", Closure("C09_POSTPUBLISH_STOP", "P09_TIMING"))),
    (success(), ItemOutcome("DUPLICATE_EXISTING_ARTIFACT", Closure("C01_NEW_SUCCESS", "P09_TIMING"))),
    (success(), closing("DUPLICATE_EXISTING_ARTIFACT", "C02_NEW_DUPLICATE", "P09")),
    (success(), closing("PERSIST_LATE", "C01_NEW_SUCCESS", "P09")),
    (success(), closing("UNEXPECTED_EXCEPTION", "C09_POSTPUBLISH_STOP", "P09")),  # R9
    (success(), closing("MANIFEST_INVALID", "C09_POSTPUBLISH_STOP", "P09")),  # V006 §4: not a code of P09
    (success(), closing("LOCK_TIMEOUT", "C09_POSTPUBLISH_STOP", "P06")),  # R9, R10
    (running(NEW, "P09"), SUCCESS),
    (running(NEW, "P09"), closing("PERSIST_LATE", "C09_POSTPUBLISH_STOP", "P09")),
    (running(PURE, "P00"), stopped("NONE")),
    (closed(PURE, "P09", "VVNNVVVV", "NONE"), closing("DUPLICATE_EXISTING_ARTIFACT", "C03_REUSE_SUCCESS",
     "P09")),
    (closed(PURE, "P09", "VVNNVVVV", "NONE"), closing("NONE", "C04_REUSE_DUPLICATE", "P09")),
    (closed(PURE, "P09", "NVNNVVVV", "NONE", source="PROJECT_REUSE"),
     closing("DUPLICATE_EXISTING_ARTIFACT", "C04_REUSE_DUPLICATE", "P09")),  # R7
    (closed(PURE, "P09", "VVNNVVVV", "NONE", source="PROJECT_REUSE"), closing("NONE", "C03_REUSE_SUCCESS",
     "P09")),
    (closed(NEW, "P07", "NVVVVNNV", "CONFIRMED", "SUCCESS"), closing("MANIFEST_INVALID",
     "C09_POSTPUBLISH_STOP", "P07")),
    (closed(NEW, "P00", "NNNNNNNV", "NONE"), closing("UNEXPECTED_EXCEPTION", "C05_PREQUOTA_STOP", "P00")),
    (closed(NEW, "P00", "NNNNNNNV", "NONE"), closing("PERSIST_LATE", "C05_PREQUOTA_STOP", "P00")),
    (closed(NEW, "P00", "NNNNNNNV", "NONE"), closing("QUOTA_EXHAUSTED", "C06_RESERVED_STOP", "P00")),
    (closed(NEW, "P02", "NNNNNNNV", "RESERVED"), closing("DEADLINE_EXPIRED", "C06_RESERVED_STOP", "P02")),
     # R12
    (closed(NEW, "P02", "NNUNNNNV", "RESERVED"), closing("TRIGGER_UNCERTAIN", "C06_RESERVED_STOP", "P02")),
    (closed(NEW, "P02", "NNVNNNNV", "CONFIRMED"), closing("TRIGGER_NOT_OCCURRED",
     "C07_TRIGGER_CLOSED_NO_ARTIFACT", "P02")),
    (closed(NEW, "P03", "NNVUNNNV", "CONFIRMED"), closing("CACHE_TIMEOUT", "C07_TRIGGER_CLOSED_NO_ARTIFACT",
     "P03")),
    (closed(NEW, "P03", "NNVNNNNV", "RELEASED"), closing("CACHE_TIMEOUT", "C07_TRIGGER_CLOSED_NO_ARTIFACT",
     "P03")),
    (closed(NEW, "P04", "INVVNNNV", "CONFIRMED", "FAILURE"), closing("PDF_ENCRYPTED", "C08_PROCESSING_FAILED",
     "P04")),
    (closed(NEW, "P04", "INVVNNNV", "CONFIRMED", "FAILURE"), closing("RECOVERY_UNKNOWN",
     "C08_PROCESSING_FAILED", "P04")),
    (closed(NEW, "P04", "NNVVNNNV", "CONFIRMED", "FAILURE"), closing("HASH_MISMATCH", "C08_PROCESSING_FAILED",
     "P04")),
]  # fmt: skip


@pytest.mark.parametrize(("shot", "outcome"), REFUSED_OUTCOMES)
def test_outcomes_the_constructor_refuses(shot: Any, outcome: ItemOutcome) -> None:
    with pytest.raises(ContractError):
        build_terminal_item(shot, outcome)


@pytest.mark.parametrize("prefix", ["NVN", "NNV", "VNV"])
def test_illegal_prefixes_are_contract_errors(prefix: str) -> None:
    shot = closed(NEW, "P00", f"NNNN{prefix}V", "NONE")
    with pytest.raises(ContractError):
        build_terminal_item(shot, closing("QUOTA_EXHAUSTED", "C05_PREQUOTA_STOP", "P00"))


def test_a_closed_item_is_not_validated_as_a_running_one() -> None:
    with pytest.raises(ContractError):
        validate_snapshot(success())


def test_title_and_the_like_are_kept_as_known_and_never_made_up() -> None:
    shot = running(NEW, "P00", title=None, institution=None, date=None, analysts=None)
    item = build_terminal_item(shot, stopped("CANDIDATE_REJECTED")).to_dict()
    assert [item[key] for key in ("title", "institution", "date", "analysts")] == [None] * 4
    shown = build_terminal_item(running(NEW, "P00", analysts=()), stopped("CANDIDATE_REJECTED"))
    assert shown["title"] == "存储行业周报" and shown["analysts"] == []
