"""What the audit compares with: V006 and the rulings as people copied them by hand, never read from `spec/`.

The literals are those the tests of `fsm` use; what they hold inside test functions (moves, ledger, run
statuses, id patterns) stands here once more. A table that is only compared with itself proves nothing, so
this file imports neither `generated` nor `fsm`.
"""

from __future__ import annotations

from typing import Final

from tests.fsm import samples, stage_failures, v006
from tests.fsm.test_keep_recovery import RECOVERY as _RECOVERY
from tests.fsm.test_keep_recovery import closes_at_once
from tests.fsm.test_machine import C02_STEPS as _C02_STEPS
from tests.fsm.test_machine import CLOSINGS as _CLOSINGS
from tests.fsm.test_machine import EDGES as _EDGES

NEW: Final = v006.NEW
PURE: Final = v006.PURE
OBJECTS: Final = "SFQAMDTZ"


def full(node: str) -> str:
    """`P02-N` as the tables name it."""
    short, dash, letter = node.partition("-")
    return v006.FULL[short] + dash + letter


# -- V006 §2.3, §3.3: nodes, what they may carry, id patterns --------------------------------------
NODE_PRESENCES: Final = {(lane, full(node)): shown for (lane, node), shown in v006.NODE_PRESENCES.items()}
_IN_ORDER: Final = sorted(v006.NODE_PRESENCES, key=lambda key: (key[1][:3], "NVU".find(key[1][-1])))
NODES: Final = {lane: tuple(full(node) for of, node in _IN_ORDER if of == lane) for lane in v006.LANES}
NODE_QUOTA: Final = {(lane, full(node)): quota for (lane, node), quota in v006.NODE_QUOTA.items()}
SHORT_NODE: Final = {full(node): node for _lane, node in v006.NODE_PRESENCES}
ID_PATTERNS: Final = samples.PATTERN
CELLS: Final = sum(len(shown) for shown in v006.NODE_PRESENCES.values())
"""Legal and halting cells of both matrices: every defined (lane, node, presence)."""

# -- design 4, "what is written before what" -------------------------------------------------------
EDGES: Final = {
    (lane, full(source), event, full(target), guard, tuple(steps.split()))
    for lane, source, event, target, guard, steps, _before, _after in _EDGES
}
CLOSING_EDGES: Final = {(row[0], full(row[1]), row[2], tuple(row[3].split())) for row in _CLOSINGS} | {
    (NEW, full("P05-N"), "C02_NEW_DUPLICATE", tuple(_C02_STEPS.split()))
}
WORK_EVENTS: Final = {
    (lane, full(node)): frozenset(
        [event for of_lane, source, event, *_rest in _EDGES if (of_lane, source) == (lane, node)]
        + {"P05-N": ["identical"], "P09": ["finished"]}.get(node, [])
    )
    for lane, node in v006.NODE_PRESENCES
}
WORK: Final = {
    (NEW, "P00"): ("admit", "abandon"),
    (NEW, "P01"): ("open_detail", "abandon"),
    (NEW, "P02-N"): ("trigger", "look"),
    (NEW, "P02-V"): ("decide", "decide"),
    (NEW, "P03-N"): ("match", "match"),
    (NEW, "P04-N"): ("pull", "pull"),
    (NEW, "P05-N"): ("check", "check"),
    (PURE, "P00"): ("validate", "abandon"),
    **{(NEW, f"P0{stage}-V"): ("finish_rejected", "finish_rejected") for stage in (3, 4, 5)},
    **{(NEW, f"P0{stage}-U"): ("halt", "halt") for stage in (2, 3, 4, 5)},
    **{(lane, short): ("advance", "advance") for lane in v006.LANES for short in v006.POST},
}

# -- V006 §1 and ruling R3 -------------------------------------------------------------------------
MOVES: Final = {name: frozenset({"NV", "NU", "VU"}) for name in OBJECTS} | {
    "S": frozenset({"NV", "NU", "VU", "NI", "IV", "IN", "VN"})
}

# -- rulings R10, R19; design 4 "recovery" ---------------------------------------------------------
RECOVERY: Final = {(lane, full(node)): dict(marks) for (lane, node), marks in _RECOVERY.items()}
KEEP: Final = {
    (lane, full(node), quota, code): "close" if code in closes_at_once(lane, node, quota) else "keep"
    for (lane, node), quotas in v006.NODE_QUOTA.items()
    for quota in quotas
    for code in v006.domain(node, quota)
}
DOUBT: Final = {
    state: "UNEXPECTED_EXCEPTION" if v006.SHORT_OF[state] in v006.POST else "RECOVERY_UNKNOWN"
    for state in v006.OPEN_STATES
}

# -- V006 §3.3 and design 4: the life of a quota family --------------------------------------------
LEDGER: Final = frozenset(
    {
        ("", "RESERVED"),
        ("RESERVED", "RELEASED"),
        ("RESERVED", "CONFIRMED"),
        ("RESERVED", "UNCERTAIN"),
        ("CONFIRMED", "ARTIFACT_SUCCESS"),
        ("CONFIRMED", "ARTIFACT_DUPLICATE_OR_FAILED"),
        ("UNCERTAIN", "ARTIFACT_SUCCESS"),
        ("UNCERTAIN", "ARTIFACT_DUPLICATE_OR_FAILED"),
    }
)

# -- design 3, "run level" -------------------------------------------------------------------------
RUN_STATUSES: Final = (
    ("STATE_UNCERTAIN", 27),
    ("CONTRACT_ERROR", 26),
    ("INTERRUPTED", 130),
    ("TASK_INVALID", 64),
    ("BUSY", 75),
    ("DEADLINE_STOP", 12),
    ("PARTIAL_QUOTA_STOP", 11),
    ("STOPPED", 20),
    ("FAILED", 21),
    ("PARTIAL", 10),
    ("COMPLETE", 0),
)

# -- V006 §4, design 3: stage × failure → code -----------------------------------------------------
FAILURE_CODES: Final = {
    (failure, node if node == stage_failures.RUN else full(node)): code
    for (failure, node), code in stage_failures.FAILURE_CODES.items()
}

# -- V006 §2.2, §2.3, §3.5; design 3 ---------------------------------------------------------------
LANE_SOURCES: Final = {NEW: {"NEW_TRIGGER"}, PURE: {"PROJECT_REUSE", "CACHE_REUSE"}}
NODE_ARTIFACT: Final = {full(f"P0{stage}-V"): "FAILURE" for stage in (3, 4, 5)} | {
    full(f"P0{stage}"): "SUCCESS" for stage in (6, 7, 8, 9)
}
SUBSTATES: Final = {full("P02"): ("Q", "NUV")} | {full(f"P0{stage}"): ("A", "NUV") for stage in (3, 4, 5)}
STATUS_OF_CLASS: Final = {
    "NONE": "SUCCESS",
    "DUPLICATE": "DUPLICATE",
    "FAIL": "FAILED",
    "STOP": "STOPPED",
}
SCHEMA_VERSION: Final = 1

# -- design 1: circuit breaker, guard rails; design 4, 5: limits -----------------------------------
TIES: Final = (
    "QUOTA_LEDGER_INVALID",
    "RECOVERY_UNKNOWN",
    "ACCESS_CONTROL_PRESENT",
    "QUOTA_EXHAUSTED",
    "DEADLINE_EXPIRED",
)
BREAKER: Final = {
    "ACCESS_CONTROL_PRESENT": 1,
    "TRIGGER_UNCERTAIN": 1,
    "CACHE_TIMEOUT": 1,
    "UI_ANCHOR_DRIFT": 2,
}
GUARD_RAILS: Final = {
    "spacing_min_s": 8,
    "deadline_default_s": 600,
    "closing_reserve_s": 20,
    "discovery_budget_s": 120,
    "recovery_budget_s": 60,
    "kept_for_days": 7,
    "quarantine_days": 30,
    "retrigger_after_s": 15 * 60,
    "dialogs_dismissed_per_run": 3,
    "dump_worst_s": 6,
    "battery_least_percent": 15,
    "battery_hottest_c": 45,
}

# -- design 4, 9: how the steps of an item's edges become durable, and the record each one leaves --
_JOURNALLED: Final = {
    "open.journal": "ITEM_OPENED",
    "intent.journal": "TRIGGER_INTENT",
    "seek.journal": "STATE",
    "changed.journal": "STATE",
    "reuse.journal": "STATE",
    "identity.journal": "CACHE_IDENTITY",
    "code.journal": "CODE",
    "publish.journal": "PUBLISH_INTENT",
    "closing.journal": "CLOSING",
}
_LEDGER: Final = "reserve confirm release doubt reject artifact duplicate"
STEPS: Final[dict[str, tuple[str, str, str | None]]] = {
    **{step: ("append", "item", mark) for step, mark in _JOURNALLED.items()},
    **{f"{name}.append": ("append", "ledger", None) for name in _LEDGER.split()},
    "staging.create": ("sink", "item", None),
    "staging.fill": ("sink", "item", None),
    "staging.remove": ("remove", "item", None),
    "quarantine.publish": ("publish", "library", None),
    "publish.folder": ("folder", "library", None),
    "publish.link": ("publish", "library", None),
    "manifest.append": ("append", "library", None),
    "delivery.write": ("write_once", "item", None),
    "timing.write": ("write_once", "item", None),
    "terminal.write": ("write_once", "item", None),
}

# -- design 5 "PDF check" and V006 §4 P05: finding → code, in the order of judgement ---------------
_FINDINGS: Final = (
    ("PDF_NOT_OPENABLE", "not_regular missing unreadable"),
    ("PDF_MAGIC_INVALID", "empty magic not_pdf"),
    ("BYTE_COUNT_MISMATCH", "size"),
    ("HASH_MISMATCH", "sha256 changed"),
    ("PDF_ENCRYPTED", "encrypted restricted"),
    (
        "PDF_NOT_OPENABLE",
        "timed_out over_memory worker_died not_openable repaired no_trailer page_unloadable",
    ),
    ("PAGE_COUNT_MISMATCH", "no_pages count_lies page_count"),
    ("NONE", "ok"),
)
PDF_FINDINGS: Final = tuple((word, code) for code, words in _FINDINGS for word in words.split())

# -- design 3 "run level", design 4 "quota ledger", V006 §1 ----------------------------------------
BESIDE: Final = {
    "pdf_findings": PDF_FINDINGS,
    "stop_words": (
        "NOTHING_NEW",
        "FEWER_THAN_COUNT",
        "DISCOVERY_INCOMPLETE",
        "INTERRUPTED",
        "BUSY",
        "DRY_RUN",
    ),
    "command_exits": {"done": 0, "found": 1, "warnings": 2, "usage": 64},
    "error_exits": {"ContractError": 26, "StateUncertain": 27},
    "event_quota": {word: word for word in ("RESERVED", "RELEASED", "CONFIRMED", "UNCERTAIN")},
    "event_object": {
        **dict.fromkeys(("RELEASED", "CONFIRMED", "UNCERTAIN"), "Q"),
        **dict.fromkeys(("ARTIFACT_SUCCESS", "ARTIFACT_DUPLICATE_OR_FAILED"), "A"),
    },
    "event_artifact": {
        "ARTIFACT_SUCCESS": ("SUCCESS",),
        "ARTIFACT_DUPLICATE_OR_FAILED": ("DUPLICATE", "FAILURE"),
    },
    "outside_families": ("REPAIRED", "CLOCK_ACCEPTED"),
    "counted_as_spent": ("CONFIRMED", "UNCERTAIN"),
    "persistence_order": {
        NEW: (("Q",), ("S", "F"), ("A",), ("M",), ("D",), ("T",), ("Z",)),
        PURE: (("S", "F"), ("M",), ("D",), ("T",), ("Z",)),
    },
    "statuses": ("SUCCESS", "DUPLICATE", "FAILED", "STOPPED"),
    "artifact_kinds": ("SUCCESS", "DUPLICATE", "FAILURE"),
}
