"""Verdicts of both matrices, every letter of every cell, every presence (V006 §2.1, §2.2, §5.1; R1)."""

from __future__ import annotations

import random
from collections import Counter
from itertools import product

import attrs
import pytest

from fsm import ContractError, StateUncertain, Tables, Verdict, move_allowed, verdict, verdict_table
from fsm.presence import require_defined
from tests.fsm import v006

ROWS = [(lane, short) for lane in v006.LANES for short in v006.SHORT]
BYTES = {"LEGAL": 0, "HALT": 1, "UNCERTAIN": 2, "CONTRACT_ERROR": 3}


def legal_of(lane: str, short: str) -> list[str]:
    """The presences a row lists, without U."""
    return ["".join(p) for p in product(*v006.cells(lane, short)) if "U" not in p and "X" not in p]


@pytest.mark.parametrize(("lane", "short"), ROWS)
def test_every_letter_of_every_cell(lane: str, short: str) -> None:
    for base in legal_of(lane, short) or ["NNNNNNNN"]:
        for place in range(8):
            for letter in v006.LETTERS:
                shown = base[:place] + letter + base[place + 1 :]
                assert verdict(lane, v006.FULL[short], shown) == v006.judge(lane, short, shown), shown


LITERALS = [
    ("NEW_TRIGGER", "P00_INIT", "NNNNNNNN", "LEGAL"),
    ("NEW_TRIGGER", "P00_INIT", "VNNNNNNN", "CONTRACT_ERROR"),
    ("NEW_TRIGGER", "P00_INIT", "UUUUUUUU", "UNCERTAIN"),
    ("NEW_TRIGGER", "P01_RESERVED", "NNNNNNNN", "LEGAL"),
    ("NEW_TRIGGER", "P01_RESERVED", "NNUNNNNN", "UNCERTAIN"),
    ("NEW_TRIGGER", "P01_RESERVED", "NNVNNNNN", "CONTRACT_ERROR"),
    ("NEW_TRIGGER", "P02_TRIGGER_UNKNOWN", "NNNNNNNN", "LEGAL"),
    ("NEW_TRIGGER", "P02_TRIGGER_UNKNOWN", "NNUNNNNN", "HALT"),
    ("NEW_TRIGGER", "P02_TRIGGER_UNKNOWN", "NNVNNNNN", "LEGAL"),
    ("NEW_TRIGGER", "P02_TRIGGER_UNKNOWN", "NNVUNNNN", "UNCERTAIN"),
    ("NEW_TRIGGER", "P02_TRIGGER_UNKNOWN", "NNVVNNNN", "CONTRACT_ERROR"),
    ("NEW_TRIGGER", "P03_CACHE_MATCHED", "NNVNNNNN", "LEGAL"),
    ("NEW_TRIGGER", "P03_CACHE_MATCHED", "NNVUNNNN", "HALT"),
    ("NEW_TRIGGER", "P03_CACHE_MATCHED", "NNVVNNNN", "LEGAL"),
    ("NEW_TRIGGER", "P03_CACHE_MATCHED", "NNUNNNNN", "UNCERTAIN"),
    ("NEW_TRIGGER", "P03_CACHE_MATCHED", "NNNNNNNN", "CONTRACT_ERROR"),
    ("NEW_TRIGGER", "P03_CACHE_MATCHED", "INVNNNNN", "CONTRACT_ERROR"),
    ("NEW_TRIGGER", "P04_STAGING_PARTIAL", "INVNNNNN", "LEGAL"),
    ("NEW_TRIGGER", "P04_STAGING_PARTIAL", "INVUNNNN", "HALT"),
    ("NEW_TRIGGER", "P04_STAGING_PARTIAL", "UNVUNNNN", "UNCERTAIN"),
    ("NEW_TRIGGER", "P04_STAGING_PARTIAL", "INVVNNNN", "LEGAL"),
    ("NEW_TRIGGER", "P04_STAGING_PARTIAL", "NNVNNNNN", "CONTRACT_ERROR"),
    ("NEW_TRIGGER", "P05_STAGING_VALID", "VNVNNNNN", "LEGAL"),
    ("NEW_TRIGGER", "P05_STAGING_VALID", "VNVUNNNN", "HALT"),
    ("NEW_TRIGGER", "P05_STAGING_VALID", "VNVVNNNN", "LEGAL"),
    ("NEW_TRIGGER", "P05_STAGING_VALID", "INVNNNNN", "CONTRACT_ERROR"),
    ("NEW_TRIGGER", "P05_STAGING_VALID", "VVVNNNNN", "CONTRACT_ERROR"),
    ("NEW_TRIGGER", "P06_PUBLISHED", "NVVVNNNN", "LEGAL"),
    ("NEW_TRIGGER", "P06_PUBLISHED", "VVVVNNNN", "LEGAL"),
    ("NEW_TRIGGER", "P06_PUBLISHED", "NVNNNNNN", "CONTRACT_ERROR"),
    ("NEW_TRIGGER", "P06_PUBLISHED", "NVVNNNNN", "CONTRACT_ERROR"),
    ("NEW_TRIGGER", "P06_PUBLISHED", "NVVUNNNN", "UNCERTAIN"),
    ("NEW_TRIGGER", "P07_MANIFESTED", "NVVVVNNN", "LEGAL"),
    ("NEW_TRIGGER", "P07_MANIFESTED", "NVVVNNNN", "CONTRACT_ERROR"),
    ("NEW_TRIGGER", "P07_MANIFESTED", "NVVVVNVN", "CONTRACT_ERROR"),
    ("NEW_TRIGGER", "P08_DELIVERY", "VVVVVVNN", "LEGAL"),
    ("NEW_TRIGGER", "P08_DELIVERY", "VVVVNVNN", "CONTRACT_ERROR"),
    ("NEW_TRIGGER", "P09_TIMING", "NVVVVVVN", "LEGAL"),
    ("NEW_TRIGGER", "P09_TIMING", "NVVVVVVU", "UNCERTAIN"),
    ("NEW_TRIGGER", "P09_TIMING", "NVVVVVVV", "CONTRACT_ERROR"),
    ("NEW_TRIGGER", "P09_TIMING", "NVVVVVVX", "CONTRACT_ERROR"),
    ("PURE_REUSE", "P00_INIT", "NNNNNNNN", "LEGAL"),
    ("PURE_REUSE", "P01_RESERVED", "XXXXXXXX", "CONTRACT_ERROR"),
    ("PURE_REUSE", "P01_RESERVED", "NNNNNNNN", "CONTRACT_ERROR"),
    ("PURE_REUSE", "P03_CACHE_MATCHED", "UUUUUUUU", "CONTRACT_ERROR"),
    ("PURE_REUSE", "P06_PUBLISHED", "NVNNNNNN", "LEGAL"),
    ("PURE_REUSE", "P06_PUBLISHED", "VVNNNNNN", "LEGAL"),
    ("PURE_REUSE", "P06_PUBLISHED", "NVVVNNNN", "CONTRACT_ERROR"),
    ("PURE_REUSE", "P06_PUBLISHED", "NVUNNNNN", "UNCERTAIN"),
    ("PURE_REUSE", "P07_MANIFESTED", "NVNNVNNN", "LEGAL"),
    ("PURE_REUSE", "P08_DELIVERY", "NVNNVVNN", "LEGAL"),
    ("PURE_REUSE", "P08_DELIVERY", "NVNVVVNN", "CONTRACT_ERROR"),
    ("PURE_REUSE", "P09_TIMING", "VVNNVVVN", "LEGAL"),
    ("PURE_REUSE", "P09_TIMING", "VVNNNVVN", "CONTRACT_ERROR"),
]


@pytest.mark.parametrize(("lane", "state", "presence", "expected"), LITERALS)
def test_literal_verdicts(lane: str, state: str, presence: str, expected: str) -> None:
    assert verdict(lane, state, presence) == expected
    assert verdict_table(lane, state)[v006.index(presence)] == BYTES[expected]


def test_a_known_mismatch_stays_wrong_whatever_is_uncertain_beside_it() -> None:
    assert verdict("NEW_TRIGGER", "P06_PUBLISHED", "UVUVUUUU") is Verdict.UNCERTAIN
    assert verdict("NEW_TRIGGER", "P06_PUBLISHED", "UNUVUUUU") is Verdict.CONTRACT_ERROR
    assert verdict("NEW_TRIGGER", "P02_TRIGGER_UNKNOWN", "INUNNNNN") is Verdict.CONTRACT_ERROR


def test_full_enumeration_equals_the_naive_twin_and_the_counts() -> None:
    counts: Counter[int] = Counter()
    for lane, short in ROWS:
        table = verdict_table(lane, v006.FULL[short])
        assert isinstance(table, bytes) and len(table) == 390_625
        assert table == v006.whole_table(lane, short), (lane, short)
        counts.update(table)
    assert counts == {0: 27, 1: 4, 2: 5_345, 3: 20 * 390_625 - 27 - 4 - 5_345}


def test_each_state_has_exactly_its_own_defined_presences() -> None:
    for lane, short in ROWS:
        table = verdict_table(lane, v006.FULL[short])
        defined = {i for i, byte in enumerate(table) if byte < 2}
        nodes = [
            p
            for (node_lane, node), ps in v006.NODE_PRESENCES.items()
            for p in ps
            if node_lane == lane and node.split("-")[0] == short
        ]
        assert defined == {v006.index(presence) for presence in nodes}, (lane, short)


@pytest.mark.parametrize(("lane", "short"), ROWS)
def test_verdict_and_table_agree(lane: str, short: str) -> None:
    state = v006.FULL[short]
    table = verdict_table(lane, state)
    dice = random.Random(f"{lane} {short}")
    shown = {"".join(dice.choices(v006.LETTERS, k=8)) for _ in range(400)}
    shown |= {
        "".join(letters) for letters in product(*({*cell, "U"} - {"X"} for cell in v006.cells(lane, short)))
    }
    for base in legal_of(lane, short):
        for first, second in product(range(8), repeat=2):
            for letters in product(v006.LETTERS, repeat=2):
                changed = list(base)
                changed[first], changed[second] = letters
                shown.add("".join(changed))
    for presence in shown:
        found = verdict(lane, state, presence)
        assert BYTES[found.value] == table[v006.index(presence)], presence
        assert found == v006.judge(lane, short, presence), presence


@pytest.mark.parametrize(
    ("lane", "state", "presence"),
    [
        ("NEW", "P00_INIT", "NNNNNNNN"),
        ("new_trigger", "P00_INIT", "NNNNNNNN"),
        ("", "P00_INIT", "NNNNNNNN"),
        (None, "P00_INIT", "NNNNNNNN"),
        (["NEW_TRIGGER"], "P00_INIT", "NNNNNNNN"),
        ("NEW_TRIGGER", "P00", "NNNNNNNN"),
        ("NEW_TRIGGER", "P10_CLOSED", "NVVVVVVV"),
        ("PURE_REUSE", "P10_CLOSED", "NVNNVVVV"),
        ("NEW_TRIGGER", "P11_DONE", "NNNNNNNN"),
        ("NEW_TRIGGER", "P02_TRIGGER_UNKNOWN-N", "NNNNNNNN"),
        ("NEW_TRIGGER", None, "NNNNNNNN"),
        ("NEW_TRIGGER", "P00_INIT", ""),
        ("NEW_TRIGGER", "P00_INIT", "NNNNNNN"),
        ("NEW_TRIGGER", "P00_INIT", "NNNNNNNNN"),
        ("NEW_TRIGGER", "P00_INIT", "nnnnnnnn"),
        ("NEW_TRIGGER", "P00_INIT", "NNNNNNN "),
        ("NEW_TRIGGER", "P00_INIT", "NNNNNNNＮ"),
        ("NEW_TRIGGER", "P00_INIT", "NNNNNNN?"),
        ("NEW_TRIGGER", "P00_INIT", None),
        ("NEW_TRIGGER", "P00_INIT", b"NNNNNNNN"),
        ("NEW_TRIGGER", "P00_INIT", tuple("NNNNNNNN")),
        ("PURE_REUSE", "P01_RESERVED", "NNNNNNN"),
    ],
)
def test_malformed_input_is_a_contract_error(lane: object, state: object, presence: object) -> None:
    with pytest.raises(ContractError) as caught:
        verdict(lane, state, presence)  # type: ignore[arg-type]
    assert caught.value.exit_code == 26


def test_a_table_of_unknown_names_is_a_contract_error() -> None:
    for lane, state in (("NEW", "P00_INIT"), ("NEW_TRIGGER", "P10_CLOSED"), ("PURE_REUSE", "P99")):
        with pytest.raises(ContractError):
            verdict_table(lane, state)


def test_require_defined_raises_by_the_kind_of_wrong() -> None:
    tables = Tables.default()
    assert require_defined(v006.NEW, "P05_STAGING_VALID", "VNVUNNNN", tables) is Verdict.HALT
    with pytest.raises(StateUncertain) as uncertain:
        require_defined(v006.NEW, "P05_STAGING_VALID", "UNVNNNNN", tables)
    assert uncertain.value.exit_code == 27
    with pytest.raises(ContractError):
        require_defined(v006.NEW, "P05_STAGING_VALID", "UNNNNNNN", tables)


def test_verdicts_follow_the_tables_given_and_not_the_generated_ones() -> None:
    default = Tables.default()
    matrix = {lane: dict(rows) for lane, rows in default.matrix.items()}
    row = matrix[v006.NEW]["P06_PUBLISHED"]
    matrix[v006.NEW]["P06_PUBLISHED"] = (*row[:2], "VN", *row[3:])
    changed = attrs.evolve(default, matrix=matrix)
    assert verdict(v006.NEW, "P06_PUBLISHED", "NVNVNNNN", changed) is Verdict.LEGAL
    assert verdict(v006.NEW, "P06_PUBLISHED", "NVNVNNNN") is Verdict.CONTRACT_ERROR
    assert verdict_table(v006.NEW, "P06_PUBLISHED", changed).count(0) == 4


def test_moves_of_ruling_r3_and_nothing_else() -> None:
    every = {"NV", "NU", "VU"}
    of_staging = every | {"NI", "IV", "VN", "IN"}
    for place in range(8):
        allowed = of_staging if place == 0 else every
        for old, new in product(v006.LETTERS, repeat=2):
            before = "N" * place + old + "N" * (7 - place)
            after = "N" * place + new + "N" * (7 - place)
            assert move_allowed(before, after) == (old == new or old + new in allowed), (place, old, new)


def test_moves_judge_all_letters_at_once_and_refuse_malformed_ones() -> None:
    assert move_allowed("VNVNNNNN", "NVVVNNNN")
    assert not move_allowed("VNVNNNNN", "NVNVNNNN")
    for before, after in (("NNNN", "NNNNNNNN"), ("NNNNNNNN", "NNNNNNNQ")):
        with pytest.raises(ContractError):
            move_allowed(before, after)
