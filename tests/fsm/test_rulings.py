"""The executable witnesses of the rulings hold, in `fsm` and in the copy of V006 made by hand (design 3)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any

import pytest

from fsm import ContractError, Tables, allowed_codes, match_closure, move_allowed, quota_ids, verdict
from generated.rulings import RULINGS
from tests.fsm import v006
from tests.fsm.samples import PATTERN


def _verdict(lane: str, state: str, presence: str, expected: str) -> None:
    assert verdict(lane, state, presence) == expected
    assert v006.judge(lane, v006.SHORT_OF[state], presence) == expected


def _move(name: str, move: str, allowed: bool) -> None:
    place = "SFQAMDTZ".index(name)
    before, after = ("N" * place + letter + "N" * (7 - place) for letter in move)
    assert move_allowed(before, after) is allowed
    assert (move in {"NV", "NU", "VU", *(("NI", "IV", "IN", "VN") if name == "S" else ())}) is allowed


def _closure(
    lane: str, source: str, presence: str, artifact: str | None, status: str, variant: str | None
) -> None:
    assert match_closure(lane, source, presence, artifact, status) == variant
    assert v006.accepted_closings().get((lane, v006.SHORT_OF[source], presence, artifact, status)) == variant


def _codes(
    state: str, presence: str, quota_state: str | None, within: tuple[str, ...], outside: tuple[str, ...]
) -> None:
    found = allowed_codes(state, presence, quota_state)
    node = v006.node_of(state, presence)
    twin = v006.DOMAIN[node] if quota_state is None else v006.domain(node, quota_state)
    assert set(within) <= found and not set(outside) & found
    assert found == twin


def _ids(quota_state: str, letter: str, expected: str | None) -> None:
    assert PATTERN.get((quota_state, letter)) == expected
    if expected is None:
        with pytest.raises(ContractError):
            quota_ids(quota_state, letter)
    else:
        assert quota_ids(quota_state, letter) == expected


def _keep(lane: str, node: str, quota_state: str, code: str, action: str) -> None:
    assert Tables.default().keep_or_close[lane][node][quota_state][code] == action


def _test(behaviour: str) -> None:
    assert len(behaviour.split()) > 3, "a witness on disk says what is to be seen"


EXECUTORS: dict[str, Callable[..., None]] = {
    "verdict": _verdict, "move": _move, "closure": _closure, "codes": _codes, "ids": _ids, "keep": _keep,
     "test": _test,
}  # fmt: skip
WITNESSES = [(ruling["id"], witness) for ruling in RULINGS for witness in ruling["witness"]]


@pytest.mark.parametrize(
    ("ruling", "witness"), WITNESSES, ids=[f"{ruling}-{i}" for i, (ruling, _) in enumerate(WITNESSES)]
)
def test_witness_holds(ruling: str, witness: Mapping[str, Any]) -> None:
    assert len(witness) == 1, ruling
    for kind, values in witness.items():
        EXECUTORS[kind](*([values] if kind == "test" else values))


def test_thirty_one_rulings_in_order_each_with_clause_text_and_witness() -> None:
    assert [ruling["id"] for ruling in RULINGS] == [f"R{number}" for number in range(1, 32)]
    for ruling in RULINGS:
        assert ruling["clause"].startswith("V006 §"), ruling["id"]
        assert len(ruling["text"]) > 40 and ruling["witness"], ruling["id"]


def test_enough_witnesses_are_executed() -> None:
    kinds = Counter(kind for _ruling, witness in WITNESSES for kind in witness)
    assert set(kinds) == set(EXECUTORS)
    assert sum(count for kind, count in kinds.items() if kind != "test") >= 30
