"""What the audit compares with: V006 and the rulings as people copied them by hand, never read from `spec/`.

The literals are those the tests of `fsm` use; what they hold inside test functions (moves, ledger, run
statuses, id patterns) stands here once more. A table that is only compared with itself proves nothing, so
this file imports neither `generated` nor `fsm`.
"""

from __future__ import annotations

from typing import Final

from tests.fsm import samples, v006
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
