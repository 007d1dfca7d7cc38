"""Mutation of the contract: a seeded part of it is killed, and a killer that only repeats the table kills
nothing.
"""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import attrs
import pytest

from fsm import Tables
from tools.audit.records import read_record
from tools.audit.small import Beside
from tools.mutants.__main__ import all_mutants, judge, main, sample_of
from tools.mutants.kill import INVARIANTS, LITERALS, killer_of

MUTANTS = all_mutants()
SMALL = ("names", "small tables", "beside", "public item", "code classes")


def test_every_row_of_the_contract_is_changed() -> None:
    made = Counter(mutant.table for mutant in MUTANTS)
    tables = Tables.default()
    assert made["cells"] == 2 * 10 * 8 * 5
    assert made["moves"] == 8 * 20
    assert made["stage codes"] == 39 * (len(tables.node_codes) + 3)
    decisions = sum(
        len(codes)
        for nodes in tables.keep_or_close.values()
        for quotas in nodes.values()
        for codes in quotas.values()
    )
    assert made["keep or close"] == 2 * decisions
    windows = sum(len(marks) for nodes in tables.recovery.values() for marks in nodes.values())
    assert made["recovery"] == 5 * windows
    pairs = sum(len(places) for places in tables.failure_codes.values())
    forgotten = [one for one in MUTANTS if one.table == "failures" and one.change.endswith("forgotten")]
    assert len(forgotten) == pairs == 300
    for variant in tables.closures:
        fields = {
            mutant.change.split()[1].rstrip(":")
            for mutant in MUTANTS
            if mutant.table == "closures" and mutant.change.startswith(variant)
        }
        assert fields >= {
            "lanes",
            "sources",
            "producer",
            "exempt",
            "cells",
            "artifact",
            "prefix3",
            "quota_ids",
            "statuses",
            "codes",
            "only_sources",
            "removed",
        }
    assert all(
        any(mutant.change.startswith(" ".join(edge[:3])) for mutant in MUTANTS if mutant.table == "edges")
        for edge in tables.edges
    )


def test_no_table_escapes() -> None:
    """Every field of the contract's value and every table beside it has mutants."""
    base, others = Tables.default(), Beside.default()
    touched: set[str] = set()
    for mutant in sample_of(MUTANTS, "9/2") + [one for one in MUTANTS if one.table in SMALL]:
        made = mutant.make()
        if isinstance(made, Tables):
            touched |= {
                field.name
                for field in attrs.fields(Tables)
                if getattr(made, field.name) is not getattr(base, field.name)
            }
        else:
            touched |= {name for name in others.values if made.values[name] is not others.values[name]}
    assert touched == {field.name for field in attrs.fields(Tables)} | set(others.values)


def test_no_killer_kills_the_contract_itself() -> None:
    for name, killer in {**LITERALS, **INVARIANTS}.items():
        assert not killer(Tables.default()), name


def test_a_mutant_differs_from_the_contract_in_one_field() -> None:
    base = Tables.default()
    for mutant in sample_of(MUTANTS, "200/3"):
        changed = mutant.make()
        if isinstance(changed, Beside):
            continue
        fields = [
            name
            for name in base.__attrs_attrs__
            if getattr(base, name.name) is not getattr(changed, name.name)
        ]
        assert len(fields) == 1, mutant.change


def test_a_seeded_part_is_killed() -> None:
    found = judge(sample_of(MUTANTS, "200/5"))
    assert found["survivors"] == []
    assert found["made"] == found["killed"] > 40


def test_what_is_left_out_is_left_out_by_a_rule_and_really_unnoticed() -> None:
    left_out = [mutant for mutant in MUTANTS if mutant.left_out is not None]
    for mutant in sample_of(left_out, "500/1"):
        assert killer_of(mutant.table, mutant.make(), side_effects=False) is None, mutant.change


def test_a_sample_is_the_same_for_the_same_seed() -> None:
    first, again = (sample_of(MUTANTS, "100/7") for _ in range(2))
    assert [one.change for one in first] == [one.change for one in again]
    assert [one.change for one in first] != [one.change for one in sample_of(MUTANTS, "100/8")]
    for text in ("7", "0/1", "a/b", "10/-1"):
        with pytest.raises(ValueError, match="N/SEED"):
            sample_of(MUTANTS, text)


def test_a_sample_writes_no_record_and_a_bad_one_is_a_usage_error(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["--sample", "2000/1", "--records", str(tmp_path)]) == 0
    assert "sample 2000/1" in capsys.readouterr().out
    assert read_record("mutants", tmp_path).state == "missing"
    with pytest.raises(SystemExit) as ended:
        main(["--sample", "x"])
    assert ended.value.code == 64
    json.dumps(judge(MUTANTS[:3]))
