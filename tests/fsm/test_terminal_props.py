"""What the constructor accepts satisfies the contract, and what satisfies it is accepted (V006 §3, §5)."""

from __future__ import annotations

from itertools import product
from typing import Any

import attrs
import pytest
from hypothesis import HealthCheck, event, given, settings
from hypothesis import strategies as st

from fsm import Closure, FsmError, ItemOutcome, StateUncertain, build_terminal_item
from tests.fsm import v006
from tests.fsm.samples import (
    FINAL,
    IDS,
    KEYS,
    PATTERN,
    SOURCES,
    Refused,
    closed,
    closing,
    public_item,
    running,
    snapshot,
    stopped,
)  # fmt: skip

ACCEPTED = v006.accepted_closings()
CODES = sorted(v006.ALL_CODES)


def built(shot: Any, outcome: ItemOutcome) -> dict[str, Any] | None:
    """The item as `fsm` builds it, None when it refuses."""
    try:
        return build_terminal_item(shot, outcome).to_dict()
    except FsmError:
        return None


def twin(shot: Any, outcome: ItemOutcome) -> dict[str, Any] | None:
    """The item as V006 reads, None when it refuses."""
    try:
        return public_item(shot, outcome)
    except Refused:
        return None


def test_every_running_item_with_every_code_equals_the_twin() -> None:
    built_items = 0
    for (lane, node), quotas in v006.NODE_QUOTA.items():
        for quota, presence, source in product(quotas, v006.NODE_PRESENCES[lane, node], SOURCES[lane]):
            shot = running(lane, node, quota, presence, source=source)
            for code in CODES:
                item = built(shot, stopped(code))
                assert item == twin(shot, stopped(code)), (lane, node, quota, presence, source, code)
                built_items += item is not None
    assert built_items == 292


def test_every_closing_with_every_code_and_quota_state_equals_the_twin() -> None:
    kinds: set[tuple[str, str]] = set()
    for (lane, short, presence, artifact, _status), variant in ACCEPTED.items():
        for quota, source in product(v006.QUOTA_STATES, SOURCES[lane]):
            if (quota, presence[3]) not in PATTERN:
                continue
            shot = closed(lane, short, presence, quota, artifact, source=source)
            for code in CODES:
                outcome = closing(code, variant, short)
                item = built(shot, outcome)
                assert item == twin(shot, outcome), (
                    lane,
                    short,
                    presence,
                    artifact,
                    quota,
                    source,
                    code,
                    variant,
                )
                if item is not None:
                    kinds.add((variant, item["status"]))
    assert {variant for variant, _status in kinds} == set(v006.VARIANTS)
    assert len(kinds) == 12  # C09 and C10 have two statuses each


def test_pairs_without_a_closure_are_exactly_those_r10_and_r12_imply() -> None:
    for (lane, node), quotas in v006.NODE_QUOTA.items():
        for quota, presence in product(quotas, v006.NODE_PRESENCES[lane, node]):
            artifact = None if presence[3] != "V" else "FAILURE" if "-" in node else "SUCCESS"
            shot = closed(lane, node[:3], presence[:7] + "V", quota, artifact)
            without = {
                code
                for code in v006.domain(node, quota)
                if all(built(shot, closing(code, variant, node[:3])) is None for variant in v006.VARIANTS)
            }
            expected = v006.WITHOUT_CLOSURE[lane, node] & v006.domain(node, quota)
            assert without == expected, (lane, node, quota)


def test_no_item_has_two_closures() -> None:
    for (lane, short, presence, artifact, status), variant in ACCEPTED.items():
        quotas = [quota for quota in v006.QUOTA_STATES if (quota, presence[3]) in PATTERN]
        for quota, code in product(quotas, [c for c in CODES if v006.STATUS_OF_CODE[c] == status]):
            shot = closed(lane, short, presence, quota, artifact)
            names = [name for name in v006.VARIANTS if built(shot, closing(code, name, short)) is not None]
            assert names in ([], [variant]), (lane, short, presence, status, quota, code)


# ---------------------------------------------------------------- near misses
_TEXT = st.one_of(st.none(), st.just(""), st.text(min_size=1, max_size=6))
_FINALS = st.one_of(
    st.none(), st.just(FINAL),
    st.builds(attrs.evolve, st.just(FINAL), path=st.sampled_from(["a.pdf", "x/../a.pdf", "/a.pdf", "a\\b.pdf",
     "D:/a", "报告/一.pdf"])),
    st.builds(attrs.evolve, st.just(FINAL), size_bytes=st.integers(-1, 3), page_count=st.integers(-1, 3)),
    st.builds(attrs.evolve, st.just(FINAL), sha256=st.text("0123456789abcdefgA", min_size=63, max_size=65)),
)  # fmt: skip
_CHANGES: dict[str, st.SearchStrategy[Any]] = {
    "lane": st.sampled_from(v006.LANES),
    "source": st.sampled_from(["NEW_TRIGGER", "PROJECT_REUSE", "CACHE_REUSE"]),
    "state": st.sampled_from([*v006.OPEN_STATES, v006.CLOSED]),
    "presence": st.text("NVIUX", min_size=8, max_size=8),
    "artifact": st.sampled_from([None, "SUCCESS", "DUPLICATE", "FAILURE"]),
    "quota_state": st.sampled_from(v006.QUOTA_STATES),
    "reservation_event_id": _TEXT,
    "quota_terminal_event_id": _TEXT,
    "artifact_event_id": _TEXT,
    "trigger_attempted": st.booleans(),
    "triggered": st.sampled_from([True, False, None]),
    "final": _FINALS,
    "manifest_row_id": _TEXT,
    "cache_identity": st.sampled_from([None, "sdcard:report.pdf"]),
    "closing": st.sampled_from([None, "C02_NEW_DUPLICATE", "C05_PREQUOTA_STOP", "C99"]),
    "item_index": st.integers(-1, 3),
    "run_id": st.sampled_from(["", "run"]),
    "title": st.one_of(st.none(), st.text(max_size=4)),
    "analysts": st.one_of(st.none(), st.lists(st.text(max_size=3), max_size=3).map(tuple)),
}


@st.composite
def bases(draw: st.DrawFn) -> tuple[Any, ItemOutcome]:
    """A snapshot and an outcome that fit: running, closed or inside the duplicate's window."""
    kind = draw(st.sampled_from(["running", "closed", "window"]))
    if kind == "window":
        prefix, quota = draw(st.sampled_from(v006.PREFIXES)), draw(st.sampled_from(v006.PAID))
        shot = snapshot(v006.NEW, "P05", f"VVVV{prefix}N", quota, "DUPLICATE", closing="C02_NEW_DUPLICATE")
        return shot, stopped("UNEXPECTED_EXCEPTION")
    if kind == "running":
        lane, node = draw(st.sampled_from(sorted(v006.NODE_QUOTA)))
        quota = draw(st.sampled_from(v006.NODE_QUOTA[lane, node]))
        shot = running(lane, node, quota, draw(st.sampled_from(v006.NODE_PRESENCES[lane, node])))
        return shot, stopped(draw(st.sampled_from(sorted(v006.domain(node, quota)))))
    (lane, short, presence, artifact, status), variant = draw(st.sampled_from(list(ACCEPTED.items())))
    quota = draw(st.sampled_from([q for q in v006.QUOTA_STATES if (q, presence[3]) in PATTERN]))
    codes = [code for code in CODES if v006.STATUS_OF_CODE[code] == status]
    return closed(lane, short, presence, quota, artifact), closing(
        draw(st.sampled_from(codes)), variant, short
    )


@st.composite
def near_misses(draw: st.DrawFn) -> tuple[Any, ItemOutcome]:
    """A base with up to three facts and perhaps the outcome changed."""
    shot, outcome = draw(bases())
    for name in draw(st.lists(st.sampled_from(sorted(_CHANGES)), max_size=3, unique=True)):
        value = draw(_CHANGES[name])
        if name == "presence" and draw(st.booleans()):
            place = draw(st.integers(0, 7))
            value = shot.presence[:place] + value[place] + shot.presence[place + 1 :]
        shot = attrs.evolve(shot, **{name: value})
    if draw(st.integers(0, 3)) == 0:
        closures = st.builds(
            Closure, st.sampled_from(v006.VARIANTS), st.sampled_from([*v006.OPEN_STATES, v006.CLOSED])
        )
        changed = draw(st.one_of(st.just(outcome.closure), st.none(), closures))
        outcome = ItemOutcome(draw(st.sampled_from(CODES)), changed)
    return shot, outcome


@settings(max_examples=600, deadline=None, database=None, suppress_health_check=[HealthCheck.too_slow])
@given(near_misses())
def test_acceptance_is_the_twins_and_what_is_accepted_is_sound(case: tuple[Any, ItemOutcome]) -> None:
    shot, outcome = case
    item = built(shot, outcome)
    event("accepted" if item else "refused")
    assert item == twin(shot, outcome)
    if item is not None:
        check_invariants(item, shot)


def check_invariants(item: dict[str, Any], shot: Any) -> None:
    """What V006 §3 says of every public item, from the item alone where it can be."""
    assert tuple(item) == KEYS
    assert item["reused_without_new_trigger"] == (item["source"] != "NEW_TRIGGER")
    final_keys = [item[key] is not None for key in ("final_path", "bytes", "sha256", "page_count")]
    assert len(set(final_keys)) == 1 and final_keys[0] == (shot.presence[1] == "V")
    assert (item["manifest_row_id"] is not None) == (shot.presence[4] == "V")
    assert (item["state"] == v006.CLOSED) == (shot.presence[7] == "V")
    status, code, note = item["status"], item["stop_code"], item["error_or_note"]
    if status == "SUCCESS":
        assert (
            code is None and item["final_path"] and item["manifest_row_id"] and item["state"] == v006.CLOSED
        )
        assert note in ("NONE", "ZERO_QUOTA_REUSE", "WARNING:TRIGGER_UNCERTAIN_CACHE_IDENTITY_CONFIRMED")
    elif status == "DUPLICATE":
        assert code == note == "DUPLICATE_EXISTING_ARTIFACT" and item["state"] == v006.CLOSED
    elif status == "FAILED":
        assert code in v006.FAIL_CODES and note == f"FAILED:{code}"
    else:
        assert status == "STOPPED" and code in v006.STOP_CODES and note == f"STOP:{code}"
    ids = [item[f"{name}_event_id"] for name in ("quota_reservation", "quota_terminal", "artifact_terminal")]
    assert all(value is None or value for value in ids)
    assert [value is not None for value in ids] == sorted((value is not None for value in ids), reverse=True)
    assert sum(value is not None for value in ids) == {"NONE": 0, "RESERVED": 1, "RELEASED": 2}.get(
        item["quota_state"], 3 if shot.presence[3] == "V" else 2
    )
    assert item["trigger_attempted"] or item["triggered"] is False
    assert item["triggered"] is not True or item["quota_state"] == "CONFIRMED"
    if item["source"] != "NEW_TRIGGER":
        assert ids == [None] * 3 and item["quota_state"] == "NONE" and not item["trigger_attempted"]


@pytest.mark.parametrize("place", range(8))
def test_a_doubtful_letter_never_yields_an_item_unless_a_substate_or_r4_has_it(place: int) -> None:
    for (lane, node), quotas in v006.NODE_QUOTA.items():
        presence = v006.NODE_PRESENCES[lane, node][0]
        shown = presence[:place] + "U" + presence[place + 1 :]
        if shown in v006.NODE_PRESENCES.get((lane, f"{node[:3]}-U"), ()):
            continue
        shot = attrs.evolve(
            running(lane, node, quotas[0]),
            presence=shown,
            artifact=None if place == 3 else running(lane, node, quotas[0]).artifact,
        )
        with pytest.raises(StateUncertain):
            build_terminal_item(shot, stopped("DEADLINE_EXPIRED"))


def test_the_ids_of_the_samples_are_three_different_ones() -> None:
    assert len(set(IDS)) == 3
