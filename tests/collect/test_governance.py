"""Run level: the first row that applies names the run (design 3 "Run level"), and what stops the NEW lane
(design 1).

The table is written here once more from the design, not read from `generated/`.
"""

from __future__ import annotations

import itertools
from typing import Any

import attrs
import pytest

from generated.governance import BREAKER, GUARD_RAILS
from hibor.collect.breaker import Canary, CircuitBreaker
from hibor.collect.governance import RunFacts, decide

ORDER = [
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
]
EXIT = dict(ORDER)


def item(
    status: str, code: str | None = None, *, source: str = "NEW_TRIGGER", number: int = 1
) -> dict[str, Any]:
    return {"item_id": f"item-{number}", "status": status, "stop_code": code, "source": source}


DELIVERED = item("SUCCESS", number=1)
DUPLICATE = item("DUPLICATE", "DUPLICATE_EXISTING_ARTIFACT", number=2)
STOPPED = item("STOPPED", "UI_ANCHOR_DRIFT", number=3)
FAILED = item("FAILED", "PULL_FAILED", number=4)
NO_QUOTA = item("STOPPED", "QUOTA_EXHAUSTED", number=5)
LATE = item("STOPPED", "DEADLINE_EXPIRED", number=6)
LATE_WRITE = item("STOPPED", "PERSIST_LATE", number=7)

ROWS: dict[str, tuple[RunFacts, str]] = {
    "nothing selected": (RunFacts(), "COMPLETE"),
    "delivered": (RunFacts(items=[DELIVERED]), "COMPLETE"),
    "a duplicate is delivered": (RunFacts(items=[DUPLICATE]), "COMPLETE"),
    "stopped beside delivered": (RunFacts(items=[DELIVERED, STOPPED]), "PARTIAL"),
    "failed beside delivered": (RunFacts(items=[DELIVERED, FAILED]), "PARTIAL"),
    "fewer than min_count": (RunFacts(items=[DELIVERED], min_count=2), "PARTIAL"),
    "stopped by itself after a delivery": (
        RunFacts(items=[DELIVERED], cause="UNEXPECTED_EXCEPTION"),
        "PARTIAL",
    ),
    "exactly min_count": (RunFacts(items=[DELIVERED, DUPLICATE], min_count=2), "COMPLETE"),
    "only stopped": (RunFacts(items=[STOPPED]), "STOPPED"),
    "only failed": (RunFacts(items=[FAILED]), "FAILED"),
    "the first cause counts, stop": (RunFacts(items=[STOPPED, FAILED]), "STOPPED"),
    "the first cause counts, fail": (RunFacts(items=[FAILED, STOPPED]), "FAILED"),
    "the run's own cause": (RunFacts(cause="DEVICE_NOT_ONLINE"), "STOPPED"),
    "quota met": (RunFacts(items=[NO_QUOTA]), "PARTIAL_QUOTA_STOP"),
    "quota met, whatever was delivered": (RunFacts(items=[DELIVERED, NO_QUOTA]), "PARTIAL_QUOTA_STOP"),
    "deadline before quota": (RunFacts(items=[LATE, NO_QUOTA]), "DEADLINE_STOP"),
    "deadline, whatever was delivered": (RunFacts(items=[DELIVERED, LATE]), "DEADLINE_STOP"),
    "durable too late": (RunFacts(items=[DELIVERED, LATE_WRITE]), "DEADLINE_STOP"),
    "selected and not opened in time": (RunFacts(items=[DELIVERED], deadline_ended=True), "DEADLINE_STOP"),
    "made good by another item": (
        RunFacts(items=[STOPPED, DELIVERED], replaced=frozenset({"item-3"})),
        "COMPLETE",
    ),
    "busy": (RunFacts(busy=True, cause="BUSY"), "BUSY"),
    "task": (RunFacts(task_invalid=True, cause="TASK_SPEC_INVALID"), "TASK_INVALID"),
}


@pytest.mark.parametrize("name", ROWS)
def test_status_of_a_run(name: str) -> None:
    facts, status = ROWS[name]
    assert decide(facts) == (status, EXIT[status])


FLAGS = {
    "uncertain": "STATE_UNCERTAIN",
    "contract_error": "CONTRACT_ERROR",
    "interrupted": "INTERRUPTED",
    "task_invalid": "TASK_INVALID",
    "busy": "BUSY",
    "deadline_ended": "DEADLINE_STOP",
}
MIXES = ([], [DELIVERED], [DELIVERED, NO_QUOTA], [STOPPED], [FAILED], [DELIVERED, FAILED])


def test_first_row_wins_in_every_combination() -> None:
    """All 2⁶ flags over six mixes of items: the earliest row of the design's table that has a reason."""
    rank = {status: place for place, (status, _exit) in enumerate(ORDER)}
    for mix in MIXES:
        calm, _exit = decide(RunFacts(items=mix))
        for chosen in itertools.product((False, True), repeat=len(FLAGS)):
            flags = dict(zip(FLAGS, chosen, strict=True))
            reasons = [calm, *(FLAGS[name] for name, is_set in flags.items() if is_set)]
            status = min(reasons, key=rank.__getitem__)
            facts = attrs.evolve(RunFacts(items=mix), **flags)
            assert decide(facts) == (status, EXIT[status]), (flags, mix)


def test_quota_met_by_a_reused_item_is_no_quota_stop() -> None:
    """Only a NEW item can meet the end of the quota."""
    odd = item("STOPPED", "QUOTA_EXHAUSTED", source="CACHE_REUSE")
    assert decide(RunFacts(items=[DELIVERED, odd]))[0] == "PARTIAL"


# -- circuit breaker and canary --------------------------------------------------------------------------


def test_limits_are_the_designs() -> None:
    assert dict(BREAKER) == {
        "ACCESS_CONTROL_PRESENT": 1,
        "TRIGGER_UNCERTAIN": 1,
        "CACHE_TIMEOUT": 1,
        "UI_ANCHOR_DRIFT": 2,
    }
    assert GUARD_RAILS["spacing_min_s"] == 8 and GUARD_RAILS["deadline_default_s"] == 600


@pytest.mark.parametrize("code", ["ACCESS_CONTROL_PRESENT", "TRIGGER_UNCERTAIN", "CACHE_TIMEOUT"])
def test_breaker_opens_at_the_first(code: str) -> None:
    breaker = CircuitBreaker()
    breaker.note(None)
    assert not breaker.open
    breaker.note(code)
    assert breaker.open and breaker.reason == code


def test_breaker_opens_at_the_second_drift_and_keeps_its_first_reason() -> None:
    breaker = CircuitBreaker()
    breaker.note("UI_ANCHOR_DRIFT")
    breaker.note(None)
    assert not breaker.open
    breaker.note("UI_ANCHOR_DRIFT")
    breaker.note("CACHE_TIMEOUT")
    assert breaker.reason == "UI_ANCHOR_DRIFT"


def test_breaker_ignores_what_is_no_reason() -> None:
    breaker = CircuitBreaker()
    for _ in range(20):
        breaker.note("CANDIDATE_REJECTED")
        breaker.note("PULL_FAILED")
    assert not breaker.open


def test_canary_lets_one_item_through_until_it_is_delivered() -> None:
    canary = Canary(proven=False)
    assert not canary.must_wait
    canary.sent()
    assert canary.must_wait
    canary.delivered()
    assert not canary.must_wait


def test_proven_phone_needs_no_canary() -> None:
    canary = Canary(proven=True)
    canary.sent()
    assert not canary.must_wait
