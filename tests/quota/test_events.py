"""Lines of the ledger: canonical, strict, chained (design 9)."""

from __future__ import annotations

import hashlib
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from generated.ledger import AUTOMATON as GENERATED
from generated.ledger import OUTSIDE_FAMILIES
from hibor.quota.events import (
    OUTSIDE_TYPES,
    ZERO_HASH,
    Event,
    EventInvalid,
    canonical,
    event_id,
    family_id,
    make_event,
    parse_event,
)
from tests.quota.support import FAMILY_TABLE

KEYS = [
    "account",
    "at",
    "data",
    "day",
    "event_id",
    "family",
    "hash",
    "item_id",
    "ordinal",
    "prev",
    "report_id",
    "run_id",
    "schema_version",
    "seq",
    "type",
]


def made(data: dict[str, Any] | None = None, **changes: Any) -> tuple[Event, bytes]:
    values: dict[str, Any] = {
        "account": "团队 a",
        "at": "2026-11-30T08:31:05.120+08:00",
        "day": "2026-11-30",
        "data": data or {},
        "prev": ZERO_HASH,
        "seq": 1,
        "report_id": "HB1",
        "ordinal": 1,
        "item_id": "i",
        "run_id": "r",
    }
    return make_event("RESERVED", **(values | changes))


def test_the_line_is_the_format() -> None:
    """Recomputed here from the design's words, not with the module's own helpers."""
    event, line = made({"b": 1, "a": "报告"})
    value = json.loads(line)
    assert list(value) == sorted(value) == KEYS
    assert b" " not in line.replace("团队 a".encode(), b"")
    family = hashlib.sha256("团队 a\n2026-11-30\nHB1\n1".encode()).hexdigest()[:32]
    assert (value["family"], event.family) == (family, family)
    assert value["event_id"] == hashlib.sha256(f"{family}\nRESERVED".encode()).hexdigest()[:32]
    digest = value.pop("hash")
    bare = json.dumps(value, ensure_ascii=False, sort_keys=True, separators=(",", ":")).encode()
    assert hashlib.sha256(bare).hexdigest() == digest


JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_categories=["Cs"])),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["hash", "item_id", "data", 'x","hash":"', "é"]), inner, max_size=4)
    ),
    max_leaves=12,
)


@given(st.dictionaries(st.sampled_from(["hash", "item_id", "ordinal", "why"]), JSON, max_size=4))
def test_any_data_survives_the_round_trip(data: dict[str, Any]) -> None:
    event, line = made(data)
    assert parse_event(line) == event
    assert canonical(event.data) == canonical(data)


@pytest.mark.parametrize(
    "changes",
    [
        {"seq": 0},
        {"seq": True},
        {"seq": "1"},
        {"seq": 1.0},
        {"schema_version": 2},
        {"schema_version": True},
        {"data": []},
        {"day": "30.11.2026"},
        {"at": "2026-11-30T08:31:05"},
        {"at": 5},
        {"ordinal": 0},
        {"ordinal": None},
        {"ordinal": True},
        {"family": None},
        {"family": "0" * 32},
        {"event_id": "0" * 32},
        {"item_id": None},
        {"report_id": 7},
        {"prev": "x" * 64},
        {"type": "REPAIRED"},
    ],
)
def test_wrong_values_are_refused_even_with_a_right_hash(changes: dict[str, Any]) -> None:
    value = json.loads(made()[1]) | changes
    value.pop("hash")
    value["hash"] = hashlib.sha256(canonical(value)).hexdigest()
    with pytest.raises(EventInvalid):
        parse_event(canonical(value))


@pytest.mark.parametrize(
    "spoil",
    [
        lambda line: line.replace(b'"account"', b' "account"'),
        lambda line: b'{"account":"x",' + line[1:],
        lambda line: line[:-1] + b',"zz":1}',
        lambda line: line.replace("团".encode(), b"\\u56e2"),
        lambda line: line + b" ",
        lambda line: b"\xef\xbb\xbf" + line,
        lambda line: line + b"\r",
        lambda line: b"[]",
        lambda line: b"",
        lambda line: b"\xff",
        lambda line: b"[" * 100_000,
    ],
)
def test_other_spellings_are_altered_lines(spoil: Any) -> None:
    with pytest.raises(EventInvalid):
        parse_event(spoil(made()[1]))


def test_events_outside_families_have_their_own_ids() -> None:
    ids = set()
    for prev in (ZERO_HASH, "1" * 64):
        event, line = make_event(
            "CLOCK_ACCEPTED",
            account="a",
            at="2026-11-30T08:31:05.120+08:00",
            day="2026-11-30",
            data={},
            prev=prev,
            seq=1,
        )
        assert parse_event(line) == event
        assert event.event_id == event_id(prev, "CLOCK_ACCEPTED")
        ids.add(event.event_id)
    assert len(ids) == 2


def test_the_contracts_table_is_the_one_tested_here() -> None:
    assert {state: dict(row) for state, row in GENERATED.items() if row} == FAMILY_TABLE
    assert set(OUTSIDE_FAMILIES) == OUTSIDE_TYPES
    assert family_id("a", "d", "r", 1) != family_id("a", "d", "r", 2)
