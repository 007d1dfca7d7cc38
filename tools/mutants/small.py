"""Mutants of stage × failure → code, of the small tables, and of the tables beside the contract's value.

Prose in `spec/` (meaning, why, text, clause, reason) decides nothing: no mutant is made of it. How the
library, the ledger's housekeeping and a run write their own files (steps that are in no edge) is judged by
the crash atlas, which plays each of them, and not here.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import attrs

from fsm import Tables
from tools.audit.small import Beside

from .mutant import Mutant, changed, flipped, with_key, without_key

RUN = "run"


def failures(tables: Tables) -> Iterator[Mutant]:
    """Every failure's code at every place forgotten, or another that is admissible there; every failure met
    where it has no code.
    """
    places = (*tables.node_codes, RUN)
    for failure, codes in tables.failure_codes.items():
        for place in places:
            where, others = f"{failure} at {place}", _codes(tables, place)
            if place not in codes:
                value = with_key(tables.failure_codes, failure, value={**codes, place: others[0]})
                yield Mutant("failures", f"{where}: {others[0]}", changed(tables, failure_codes=value))
                continue
            value = without_key(tables.failure_codes, failure, place)
            yield Mutant("failures", f"{where} forgotten", changed(tables, failure_codes=value))
            for other in others:
                if other != codes[place]:
                    value = with_key(tables.failure_codes, failure, place, value=other)
                    yield Mutant("failures", f"{where}: {other}", changed(tables, failure_codes=value))


def _codes(tables: Tables, place: str) -> tuple[str, ...]:
    """The codes an item may stop with at a place; for a run those of its first two stages."""
    if place != RUN:
        return tuple(tables.node_codes[place])
    first, second = list(tables.node_codes)[:2]
    return tuple(dict.fromkeys((*tables.node_codes[first], *tables.node_codes[second])))


def small_tables(tables: Tables) -> Iterator[Mutant]:
    """Sources of lanes, kinds of A, sub-states, status of a class, ties, breaker, guard rails, steps."""
    for name in ("lane_sources", "node_artifact", "substates", "status_of_class", "breaker", "guard_rails"):
        for text, value in _changes(getattr(tables, name)):
            yield Mutant("small tables", f"{name} {text}", changed(tables, **{name: value}))
    for text, value in _changes(tables.ties):
        yield Mutant("small tables", f"ties {text}", changed(tables, ties=value))
    for prefix in ("NNN", "VNN", "VVN", "VVV", "NVN", "NNV", "VNV", "NVV"):
        listed = flipped(tables.prefix3, prefix)
        yield Mutant("small tables", f"Prefix3 becomes {','.join(listed)}", changed(tables, prefix3=listed))
    yield Mutant("small tables", "schema version 2", changed(tables, schema_version=2))
    yield from _step_kinds(tables)


def names(tables: Tables) -> Iterator[Mutant]:
    """The names everything else is said in: every letter, object, lane, state and node forgotten or moved."""
    for name in ("letters", "objects", "lanes", "states"):
        for text, value in _changes(getattr(tables, name)):
            yield Mutant("names", f"{name} {text}", changed(tables, **{name: value}))
    for lane in tables.nodes:
        for text, value in _changes(tables.nodes[lane]):
            listed = with_key(tables.nodes, lane, value=value)
            yield Mutant("names", f"nodes of {lane} {text}", changed(tables, nodes=listed))


def _step_kinds(tables: Tables) -> Iterator[Mutant]:
    used = {step for *_rest, steps in tables.edges for step in steps}
    kinds = sorted({row[0] for row in tables.steps.values()})
    of_what = sorted({row[1] for row in tables.steps.values()})
    marks = sorted({row[3] for row in tables.steps.values() if row[3] is not None})
    for step in sorted(used):
        kind, of, moved, mark = tables.steps[step]
        rows: list[tuple[Any, ...]] = [(other, of, moved, mark) for other in kinds if other != kind]
        rows += [(kind, other, moved, mark) for other in of_what if other != of]
        rows += [(kind, of, moved, other) for other in (*marks, None) if other != mark]
        for row in rows:
            value = with_key(tables.steps, step, value=row)
            text = f"step {step}: {row[0]} of {row[1]}, marks {row[3]}"
            yield Mutant("small tables", text, changed(tables, steps=value))


def beside(_tables: Tables) -> Iterator[Mutant]:
    """Every entry of the tables beside the contract forgotten, changed or moved."""
    base = Beside.default()
    for name, table in base.values.items():
        for text, value in _changes(table):
            made = attrs.evolve(base, values={**base.values, name: value})
            yield Mutant("beside", f"{name} {text}", lambda made=made: made)  # type: ignore[misc]


def _changes(table: Any) -> Iterator[tuple[str, Any]]:
    """A table's every entry gone, its every value another, its every neighbour swapped."""
    if isinstance(table, Mapping):
        for key, value in table.items():
            yield f"without {key}", without_key(table, key)
            for other in _others(value, table):
                yield f"{key}: {_say(other)}", {**table, key: other}
        return
    for at, value in enumerate(table):
        yield f"without {_say(value)}", (*table[:at], *table[at + 1 :])
        if at:
            yield f"{_say(value)} earlier", (*table[: at - 1], value, table[at - 1], *table[at + 1 :])


def _others(value: Any, table: Mapping[str, Any]) -> list[Any]:
    """Values near `value`: one more or less of a number, a part of a list missing, another row's word."""
    if isinstance(value, int):
        return [value + 1, value - 1]
    if isinstance(value, tuple):
        return [(*value[:at], *value[at + 1 :]) for at in range(len(value))]
    words = dict.fromkeys(other for other in table.values() if other != value)
    return list(words) or [f"{value}_"]


def _say(value: Any) -> str:
    return ",".join(map(_say, value)) if isinstance(value, tuple) else str(value)
