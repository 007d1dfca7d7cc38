"""Keep or close, crash windows, ledger automaton and run statuses against R10, designs 3 and 4."""

from __future__ import annotations

import pytest

from fsm import ContractError, Tables, match_closure
from tests.fsm import v006

NEW, PURE = v006.NEW, v006.PURE
NODES = [(lane, node, quota) for (lane, node), quotas in v006.NODE_QUOTA.items() for quota in quotas]


def full(node: str) -> str:
    """`P02-N` as the tables name it."""
    short, dash, letter = node.partition("-")
    return v006.FULL[short] + dash + letter


def closes_at_once(lane: str, node: str, quota: str) -> frozenset[str]:
    """R10's second list, node by node; whatever has no closure is not in it."""
    if node in ("P00", "P01"):
        return v006.DOMAIN[node] - {"UNEXPECTED_EXCEPTION"}
    if lane == PURE:
        return v006.DOMAIN[node]  # nothing was paid, so nothing is kept
    if node == "P02-V" and quota == "RELEASED":
        return frozenset(
            {"TRIGGER_NOT_OCCURRED", "DEADLINE_EXPIRED", "PROCESS_LIVENESS_UNKNOWN", "RECOVERY_UNKNOWN"}
        )
    if node == "P02-V" and quota == "UNCERTAIN":
        return frozenset({"TRIGGER_UNCERTAIN"})
    if node in ("P03-V", "P04-V", "P05-V"):
        return v006.DOMAIN[node]
    return frozenset({"P06": {"MANIFEST_INVALID"}, "P09": {"PERSIST_LATE"}}.get(node, set()))


@pytest.mark.parametrize(("lane", "node", "quota"), NODES)
def test_keep_or_close_of_every_node_quota_state_and_code(lane: str, node: str, quota: str) -> None:
    row = Tables.default().keep_or_close[lane][full(node)][quota]
    assert set(row) == v006.domain(node, quota)
    assert set(row.values()) <= {"keep", "close"}
    assert {code for code, action in row.items() if action == "close"} == closes_at_once(lane, node, quota)


def test_there_are_no_other_keep_rows() -> None:
    found = {(lane, node, quota) for lane, nodes in Tables.default().keep_or_close.items()
             for node, quotas in nodes.items() for quota in quotas}  # fmt: skip
    assert found == {(lane, full(node), quota) for lane, node, quota in NODES}


@pytest.mark.parametrize(("lane", "node", "quota"), NODES)
def test_nothing_is_closed_that_no_closure_accepts(lane: str, node: str, quota: str) -> None:
    presence = v006.NODE_PRESENCES[lane, node][0]
    artifact = None if presence[3] != "V" else "FAILURE" if "-" in node else "SUCCESS"
    for code, action in Tables.default().keep_or_close[lane][full(node)][quota].items():
        variant = match_closure(
            lane, v006.FULL[node[:3]], presence[:7] + "V", artifact, v006.STATUS_OF_CODE[code]
        )
        if action == "close":
            assert variant is not None and code not in v006.WITHOUT_CLOSURE[lane, node]


# Design 4, "from every instant to one place": (lane, node) -> last journal mark -> action.
HALT = dict.fromkeys(
    ("TRIGGER_INTENT", "STATE", "CACHE_IDENTITY", "PUBLISH_INTENT", "CODE", "CLOSING"), "halt"
)
ROLL = {"PUBLISH_INTENT": "roll_forward", "CLOSING": "finish"}
REUSE = {"STATE": "roll_forward", "CLOSING": "finish"}
RECOVERY = {
    (NEW, "P00"): {"NONE": "close", "ITEM_OPENED": "close", "CLOSING": "finish"},
    (NEW, "P01"): {"ITEM_OPENED": "close", "CLOSING": "finish"},
    (NEW, "P02-N"): {"TRIGGER_INTENT": "ask_phone", "CLOSING": "finish"},
    (NEW, "P02-U"): HALT,
    (NEW, "P02-V"): {"TRIGGER_INTENT": "ask_phone", "CLOSING": "finish"},
    (NEW, "P03-N"): {"STATE": "ask_phone", "CACHE_IDENTITY": "ask_phone", "CODE": "roll_forward",
     "CLOSING": "finish"},
    (NEW, "P03-U"): HALT,
    (NEW, "P03-V"): {"CODE": "close", "CLOSING": "finish"},
    (NEW, "P04-N"): {"CACHE_IDENTITY": "ask_phone", "CODE": "roll_forward"},
    (NEW, "P04-U"): HALT,
    (NEW, "P04-V"): {"CODE": "close", "CLOSING": "finish"},
    (NEW, "P05-N"): {"CACHE_IDENTITY": "roll_forward", "PUBLISH_INTENT": "roll_forward",
     "CODE": "roll_forward",
                     "CLOSING": "finish"},
    (NEW, "P05-U"): HALT,
    (NEW, "P05-V"): {"CODE": "close", "CLOSING": "finish"},
    (NEW, "P06"): ROLL,
    (NEW, "P07"): ROLL,
    (NEW, "P08"): ROLL,
    (NEW, "P09"): ROLL,
    (PURE, "P00"): {"NONE": "close", "ITEM_OPENED": "close", "PUBLISH_INTENT": "roll_forward",
     "CLOSING": "finish"},
    (PURE, "P06"): REUSE,
    (PURE, "P07"): REUSE,
    (PURE, "P08"): REUSE,
    (PURE, "P09"): REUSE,
}  # fmt: skip


def test_one_recovery_action_for_every_crash_window() -> None:
    found = {(lane, node): dict(marks) for lane, nodes in Tables.default().recovery.items()
             for node, marks in nodes.items()}  # fmt: skip
    assert found == {(lane, full(node)): marks for (lane, node), marks in RECOVERY.items()}


def test_the_life_of_a_quota_family() -> None:
    types = (
        "RESERVED",
        "RELEASED",
        "CONFIRMED",
        "UNCERTAIN",
        "ARTIFACT_SUCCESS",
        "ARTIFACT_DUPLICATE_OR_FAILED",
    )
    allowed = {
        ("", "RESERVED"),
        ("RESERVED", "RELEASED"), ("RESERVED", "CONFIRMED"), ("RESERVED", "UNCERTAIN"),
        ("CONFIRMED", "ARTIFACT_SUCCESS"), ("CONFIRMED", "ARTIFACT_DUPLICATE_OR_FAILED"),
        ("UNCERTAIN", "ARTIFACT_SUCCESS"), ("UNCERTAIN", "ARTIFACT_DUPLICATE_OR_FAILED"),
    }  # fmt: skip
    automaton = Tables.default().automaton
    assert set(automaton) == {"", *types}
    found = {(state, event) for state, events in automaton.items() for event in events}
    assert found == allowed
    assert all(target == event for events in automaton.values() for event, target in events.items())


def test_run_statuses_in_order_with_unique_exit_codes() -> None:
    rows = [(status, code) for status, code, _when, _meaning in Tables.default().run_statuses]
    assert rows == [
        ("STATE_UNCERTAIN", 27), ("CONTRACT_ERROR", 26), ("INTERRUPTED", 130), ("TASK_INVALID", 64), ("BUSY",
         75),
        ("DEADLINE_STOP", 12), ("PARTIAL_QUOTA_STOP", 11), ("STOPPED", 20), ("FAILED", 21), ("PARTIAL", 10),
        ("COMPLETE", 0),
    ]  # fmt: skip


def test_doubt_codes_of_ruling_r4() -> None:
    expected = {v006.FULL[short]: "UNEXPECTED_EXCEPTION" if short in v006.POST else "RECOVERY_UNKNOWN"
                for short in v006.SHORT}  # fmt: skip
    assert dict(Tables.default().doubt_codes) == expected


def test_breaker_and_guard_rails_of_design_1() -> None:
    tables = Tables.default()
    assert dict(tables.breaker) == {
        "ACCESS_CONTROL_PRESENT": 1, "TRIGGER_UNCERTAIN": 1, "CACHE_TIMEOUT": 1, "UI_ANCHOR_DRIFT": 2,
    }  # fmt: skip
    rails = tables.guard_rails
    assert (rails["spacing_min_s"], rails["deadline_default_s"], rails["retrigger_after_s"]) == (8, 600, 900)
    assert rails["recovery_budget_s"] == 60 and rails["kept_for_days"] == 7


def test_an_unknown_state_has_no_node() -> None:
    with pytest.raises(ContractError):
        match_closure(NEW, "P02_TRIGGER_UNKNOWN-N", "NNNNNNNV", None, "STOPPED")
