"""The 41 codes: one class each, the domain of every node and quota state (V006 §3-§5; R11, R12, R25)."""

from __future__ import annotations

import attrs
import pytest

from fsm import (
    ContractError,
    FsmError,
    StateUncertain,
    Tables,
    allowed_codes,
    code_class,
    failure_code,
    quota_ids,
)
from tests.fsm import v006
from tests.fsm.stage_failures import FAILURE_CODES

NODES = [(lane, node, presence) for (lane, node), ps in v006.NODE_PRESENCES.items() for presence in ps]


def full(node: str) -> str:
    """`P02-N` as the tables name it."""
    short, dash, letter = node.partition("-")
    return v006.FULL[short] + dash + letter


def test_forty_one_codes_each_in_exactly_one_class() -> None:
    assert len(v006.ALL_CODES) == 41 and len(v006.FAIL_CODES) == 10 and len(v006.STOP_CODES) == 29
    assert not v006.FAIL_CODES & v006.STOP_CODES
    assert set(Tables.default().code_class) == v006.ALL_CODES
    classes = {code: code_class(code) for code in v006.ALL_CODES}
    assert classes.pop("NONE") == "NONE"
    assert classes.pop("DUPLICATE_EXISTING_ARTIFACT") == "DUPLICATE"
    assert {code for code, kind in classes.items() if kind == "FAIL"} == v006.FAIL_CODES
    assert {code for code, kind in classes.items() if kind == "STOP"} == v006.STOP_CODES


@pytest.mark.parametrize(
    "code",
    [
        "",
        "none",
        "STOP",
        "FAIL",
        "UNKNOWN",
        "HASH_MISMATCH ",
        "actual processing error",
        "high-precedence close STOP",
        "STOP:DEADLINE_EXPIRED",
        "WARNING:TRIGGER_UNCERTAIN_CACHE_IDENTITY_CONFIRMED",
        "ZERO_QUOTA_REUSE",
        None,
        27,
        [],
    ],
)
def test_placeholders_free_text_and_unknown_codes_are_refused(code: object) -> None:
    with pytest.raises(ContractError):
        code_class(code)  # type: ignore[arg-type]


@pytest.mark.parametrize(("lane", "node", "presence"), NODES)
def test_domain_of_every_node_and_quota_state(lane: str, node: str, presence: str) -> None:
    state = v006.FULL[node.split("-")[0]]
    found = allowed_codes(state, presence)
    assert isinstance(found, frozenset)
    # P00, P01 and P02-N show the same presence; the state alone tells them apart (ruling R18).
    assert found == v006.DOMAIN[node]
    assert not found & {"NONE", "DUPLICATE_EXISTING_ARTIFACT"}
    for quota_state in v006.NODE_QUOTA[lane, node]:
        assert allowed_codes(state, presence, quota_state) == v006.domain(node, quota_state), quota_state


def test_a_quota_state_that_cannot_be_there_is_refused() -> None:
    """Only P02-V is narrowed by the quota state; elsewhere it is looked at for its name alone."""
    for quota_state in ("NONE", "RESERVED"):
        with pytest.raises(ContractError):
            allowed_codes(v006.FULL["P02"], "NNVNNNNN", quota_state)
    assert allowed_codes(v006.FULL["P03"], "NNVNNNNN", "RESERVED") == v006.DOMAIN["P03-N"]


def test_sizes_of_the_domains() -> None:
    sizes = {
        "P00": 20,
        "P01": 13,
        "P02-N": 2,
        "P02-U": 3,
        "P02-V": 6,
        "P03-N": 11,
        "P03-U": 2,
        "P03-V": 2,
        "P04-N": 10,
        "P04-U": 2,
        "P04-V": 4,
        "P05-N": 11,
        "P05-U": 1,
        "P05-V": 8,
        "P06": 5,
        "P07": 3,
        "P08": 3,
        "P09": 3,
    }
    for _lane, node, presence in NODES:
        assert len(allowed_codes(v006.FULL[node.split("-")[0]], presence)) == sizes[node], node


def test_every_fail_and_stop_code_has_a_place() -> None:
    reached = {code for _lane, node, p in NODES for code in allowed_codes(v006.FULL[node.split("-")[0]], p)}
    assert reached == v006.FAIL_CODES | v006.STOP_CODES


@pytest.mark.parametrize(
    ("state", "presence", "quota_state", "error"),
    [
        ("P10_CLOSED", "NVVVVVVV", None, ContractError),
        ("P00", "NNNNNNNN", None, ContractError),
        ("P02_TRIGGER_UNKNOWN-V", "NNVNNNNN", None, ContractError),
        ("P00_INIT", "NNNNNNN", None, ContractError),
        ("P00_INIT", "NNNNNNNQ", None, ContractError),
        ("P00_INIT", "NNNNNNNN", "SPENT", ContractError),
        ("P02_TRIGGER_UNKNOWN", "NNVNNNNN", "", ContractError),
        ("P02_TRIGGER_UNKNOWN", "NNINNNNN", None, ContractError),
        ("P05_STAGING_VALID", "INVNNNNN", None, ContractError),
        ("P01_RESERVED", "XXXXXXXX", None, ContractError),
        ("P06_PUBLISHED", "NVVNNNNN", None, ContractError),
        ("P06_PUBLISHED", "NVVUNNNN", None, StateUncertain),
        ("P06_PUBLISHED", "NVUNNNNN", None, StateUncertain),
        ("P09_TIMING", "NVVVVVVU", None, StateUncertain),
        ("P00_INIT", "NNUNNNNN", None, StateUncertain),
    ],
)
def test_no_domain_where_nothing_is_defined(
    state: str, presence: str, quota_state: str | None, error: type[FsmError]
) -> None:
    with pytest.raises(error) as caught:
        allowed_codes(state, presence, quota_state)
    assert type(caught.value) is error


QUOTA_IDS = {
    ("NONE", "N"): "NNN",
    ("RESERVED", "N"): "RNN",
    ("RELEASED", "N"): "RRN",
    ("CONFIRMED", "N"): "RRN",
    ("CONFIRMED", "U"): "RRN",
    ("CONFIRMED", "V"): "RRR",
    ("UNCERTAIN", "N"): "RRN",
    ("UNCERTAIN", "U"): "RRN",
    ("UNCERTAIN", "V"): "RRR",
}


@pytest.mark.parametrize("quota_state", v006.QUOTA_STATES)
@pytest.mark.parametrize("letter", list(v006.LETTERS))
def test_quota_ids(quota_state: str, letter: str) -> None:
    expected = QUOTA_IDS.get((quota_state, letter))
    if expected is None:
        with pytest.raises(ContractError):
            quota_ids(quota_state, letter)
    else:
        assert quota_ids(quota_state, letter) == expected


@pytest.mark.parametrize(
    ("quota_state", "letter"), [("SPENT", "N"), ("NONE", "n"), ("NONE", ""), ("NONE", None), (None, "N")]
)
def test_quota_ids_refuse_unknown_names(quota_state: object, letter: object) -> None:
    with pytest.raises(ContractError):
        quota_ids(quota_state, letter)  # type: ignore[arg-type]


# ---------------------------------------------------------------- failures
# Where a ruling or V006 itself says what a failure is called; `run` is preflight and discovery.
FAILURES = [
    ("device_ambiguous", "P00", "DEVICE_NOT_UNIQUE"),
    ("device_offline", "P00", "DEVICE_NOT_ONLINE"),
    ("package_missing", "P00", "PACKAGE_MISSING"),
    ("cache_unreadable", "P00", "CACHE_UNREADABLE"),
    ("access_control", "P00", "ACCESS_CONTROL_PRESENT"),
    ("access_control", "P01", "ACCESS_CONTROL_PRESENT"),
    ("task_invalid", "run", "TASK_SPEC_INVALID"),
    ("clock_invalid", "P00", "CLOCK_INVALID"),
    ("day_boundary", "P00", "QUOTA_DATE_UNCERTAIN"),
    ("quota_exhausted", "P00", "QUOTA_EXHAUSTED"),
    ("already_paid", "P00", "CANDIDATE_REJECTED"),  # design 4
    ("replay_conflict", "P00", "QUOTA_REPLAY_CONFLICT"),
    ("lock_timeout", "P00", "LOCK_TIMEOUT"),
    ("lock_timeout", "P06", "LOCK_TIMEOUT"),
    ("ledger_invalid", "P00", "QUOTA_LEDGER_INVALID"),  # R28
    ("ledger_invalid", "run", "QUOTA_LEDGER_INVALID"),
    ("ledger_invalid", "P02-N", "PROCESS_LIVENESS_UNKNOWN"),  # R28: a tap in flight
    ("foreign_final", "P00", "CANDIDATE_REJECTED"),  # R15
    ("final_conflict", "P05-N", "FINAL_PATH_CONFLICT"),  # R15
    ("anchor_drift", "P01", "UI_ANCHOR_DRIFT"),
    ("cursor_lost", "P01", "UI_CURSOR_RESTORE_FAILED"),
    ("detail_mismatch", "P01", "DETAIL_RESULT_MISMATCH"),
    ("trigger_refused", "P02-V", "TRIGGER_NOT_OCCURRED"),  # R21
    ("no_new_file", "P03-N", "CACHE_TIMEOUT"),
    ("cache_ambiguous", "P03-N", "CACHE_AMBIGUOUS"),
    ("remote_changed", "P03-N", "REMOTE_FILE_CHANGED"),  # R14
    ("remote_refused", "P04-N", "PULL_FAILED"),  # R11: a definite answer from the phone
    ("short_pull", "P04-N", "BYTE_COUNT_MISMATCH"),
    ("pull_hash_mismatch", "P04-N", "HASH_MISMATCH"),
    ("file_rejected", "P00", "CANDIDATE_REJECTED"),  # R20
    ("publish_refused", "P05-N", "PUBLISH_FAILED"),
    ("manifest_invalid", "P06", "MANIFEST_INVALID"),  # R16
    *[("persist_late", node, "PERSIST_LATE") for node in v006.POST],  # R27
    *[
        ("deadline", node, "DEADLINE_EXPIRED")
        for node in ("P00", "P01", "P02-V", "P03-N", "P04-N", "P05-N", *v006.POST)
    ],
    *[
        ("unexpected", node, "UNEXPECTED_EXCEPTION")
        for node in ("P00", "P01", "P02-V", "P03-N", "P04-N", "P05-N")
    ],
    *[("unexpected", node, "UNEXPECTED_EXCEPTION") for node in v006.POST],  # R4, R24
]


@pytest.mark.parametrize(("failure", "node", "code"), FAILURES)
def test_failures_the_texts_name(failure: str, node: str, code: str) -> None:
    assert failure_code(failure, node if node == "run" else full(node)) == code


def test_a_failure_never_gets_a_code_its_node_may_not_stop_with() -> None:
    nodes = {full(node): node for _lane, node in v006.NODE_PRESENCES}
    for failure, places in Tables.default().failure_codes.items():
        for place, code in places.items():
            if place == "run":
                assert code in v006.FAIL_CODES | v006.STOP_CODES, failure
            else:
                assert code in v006.DOMAIN[nodes[place]], (failure, place, code)


@pytest.mark.parametrize(
    "failure", ["server_unreachable", "command_start_failed", "command_timeout", "output_limit", "link_lost"]
)
def test_a_lost_link_is_a_process_code_and_a_stop(failure: str) -> None:
    for node in ("P00", "P01", "P03-N", "P04-N"):
        code = failure_code(failure, full(node))
        assert code.startswith("PROCESS_") and code in v006.STOP_CODES  # R11
    assert failure_code(failure, full("P02-N")) == "PROCESS_LIVENESS_UNKNOWN"


@pytest.mark.parametrize(
    "failure", ["disk_failed", "disk_uncertain", "lock_timeout", "ledger_invalid", "replay_conflict"]
)
def test_inside_the_publish_window_nothing_is_of_fail_class(failure: str) -> None:
    assert failure_code(failure, full("P05-N")) == "RECOVERY_UNKNOWN"  # R29


def test_every_node_has_a_code_for_a_defect_of_the_program() -> None:
    for _lane, node in v006.NODE_PRESENCES:
        assert failure_code("unexpected", full(node)) in v006.DOMAIN[node]


@pytest.mark.parametrize(
    ("failure", "node"),
    [
        ("no_such_word", "P00_INIT"),
        ("manifest_invalid", "P00_INIT"),
        ("quota_exhausted", "P06_PUBLISHED"),
        ("deadline", "P99"),
        (None, "run"),
    ],
)
def test_a_failure_without_a_code_is_a_contract_error_and_no_default(failure: object, node: str) -> None:
    with pytest.raises(ContractError):
        failure_code(failure, node)  # type: ignore[arg-type]


def test_codes_follow_the_tables_given() -> None:
    default = Tables.default()
    changed = attrs.evolve(default, node_codes={**default.node_codes, "P09_TIMING": ("LOCK_TIMEOUT",)})
    assert allowed_codes("P09_TIMING", "NVVVVVVN", None, changed) == {"LOCK_TIMEOUT"}
    renamed = attrs.evolve(default, code_class={**default.code_class, "PULL_FAILED": "STOP"})
    assert code_class("PULL_FAILED", renamed) == "STOP"
    assert code_class("PULL_FAILED") == "FAIL"


def test_the_table_of_failures_is_the_one_written_stage_by_stage() -> None:
    found = {
        (failure, place): code
        for failure, places in Tables.default().failure_codes.items()
        for place, code in places.items()
    }
    due = {
        (failure, node if node == "run" else full(node)): code
        for (failure, node), code in FAILURE_CODES.items()
    }
    assert found == due
