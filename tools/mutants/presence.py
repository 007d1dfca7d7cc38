"""Mutants of the matrices, the evidence moves, the closures and the windows of C02."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from typing import Any, Final

from fsm import Tables
from tools.audit.closing import accepted_closings

from .mutant import Mutant, changed, flipped, toggled, with_key

DEAD_ROW: Final = "a row with X in it can never be met, whatever else it lists (V006 §2.2)"
SAME_CLOSINGS: Final = "accepts the same closings: no row of a source lists what was changed (ruling R6)"
OTHER_LANE: Final = "a source of the other lane never meets this variant"
KINDS: Final = (None, "SUCCESS", "DUPLICATE", "FAILURE")
STATUSES: Final = ("SUCCESS", "DUPLICATE", "FAILED", "STOPPED")
PATTERNS: Final = ("NNN", "RNN", "RRN", "RRR")


def cells(tables: Tables) -> Iterator[Mutant]:
    """Every letter of every cell taken away or added."""
    for lane, states in tables.matrix.items():
        for state, row in states.items():
            for at, name in enumerate(tables.objects):
                for letter in tables.letters:
                    cell = toggled(row[at], letter, "".join(tables.letters))
                    changed_row = (*row[:at], cell, *row[at + 1 :])
                    dead = sum("X" in one for one in row) > 1
                    yield Mutant(
                        "cells",
                        f"{lane} {state} {name}: {row[at]} becomes {cell or 'nothing'}",
                        changed(tables, matrix=with_key(tables.matrix, lane, state, value=changed_row)),
                        DEAD_ROW if dead else None,
                    )


def moves(tables: Tables) -> Iterator[Mutant]:
    """Every evidence move allowed or forbidden."""
    for name, (old, new) in product(tables.objects, product(tables.letters, repeat=2)):
        if old == new:
            continue
        listed = flipped(tables.moves[name], old + new)
        text = f"{name} from {old} to {new} {'allowed' if old + new in listed else 'forbidden'}"
        yield Mutant("moves", text, changed(tables, moves=with_key(tables.moves, name, value=listed)))


def closures(tables: Tables) -> Iterator[Mutant]:
    """Every field of every closure variant."""
    base = accepted_closings(tables)
    for variant, row in tables.closures.items():
        for field, value in _fields(tables, variant, row):
            closure = {**row, field: value}
            make = changed(tables, closures=with_key(tables.closures, variant, value=closure))
            left_out = _equivalent(tables, row, field, value, base, make)
            yield Mutant(
                "closures", f"{variant} {field}: {_say(row[field])} becomes {_say(value)}", make, left_out
            )
        rest = {name: closure for name, closure in tables.closures.items() if name != variant}
        yield Mutant("closures", f"{variant} removed", changed(tables, closures=rest))


def _say(value: Any) -> str:
    if isinstance(value, tuple):
        return ",".join(map(str, value)) or "nothing"
    return str(value)


def _fields(tables: Tables, variant: str, row: Any) -> Iterator[tuple[str, Any]]:
    for lane in tables.matrix:
        yield "lanes", flipped(row["lanes"], lane)
    for state in tables.states[:-1]:
        yield "sources", flipped(row["sources"], state)
        yield "producer", flipped(row["producer"], state)
    for name in tables.objects[:4]:
        yield "exempt", flipped(row["exempt"], name)
    for at, letter in product(range(4), tables.letters):
        cell = toggled(row["cells"][at], letter, "".join(tables.letters))
        yield "cells", (*row["cells"][:at], cell, *row["cells"][at + 1 :])
    for kind in KINDS:
        if kind != row["artifact"]:
            yield "artifact", kind
    for prefix in ("".join(letters) for letters in product("NV", repeat=3)):
        yield "prefix3", flipped(row["prefix3"], prefix)
    for pattern in PATTERNS:
        if pattern != row["quota_ids"]:
            yield "quota_ids", pattern
    for status in STATUSES:
        yield "statuses", flipped(row["statuses"], status)
    for source in ("NEW_TRIGGER", "PROJECT_REUSE", "CACHE_REUSE"):
        yield "only_sources", flipped(row["only_sources"], source)
    yield from _codes(tables, row)


def _codes(tables: Tables, row: Any) -> Iterator[tuple[str, Any]]:
    """Each status's codes: a listed one taken away, one more listed, all of the stage, none."""
    for status, codes in row["codes"].items():
        of_class = [
            code for code, kind in tables.code_class.items() if tables.status_of_class[kind] == status
        ]
        if codes == "stage":
            yield "codes", {**row["codes"], status: ()}
            for code in of_class:
                if any(code in tables.node_codes[node] for node in _nodes(tables, row)):
                    yield "codes", {**row["codes"], status: tuple(one for one in of_class if one != code)}
            continue
        yield "codes", {**row["codes"], status: "stage"}
        for code in of_class:
            yield "codes", {**row["codes"], status: flipped(tuple(codes), code)}


def _nodes(tables: Tables, row: Any) -> list[str]:
    """The nodes a variant can close: of its sources, and with a letter its cells list where the state is
    split.
    """
    found = []
    for node in tables.node_codes:
        state, _, letter = node.partition("-")
        split = tables.substates.get(state)
        fits = split is None or letter in row["cells"][tables.objects.index(split[0])]
        if state in row["sources"] and fits:
            found.append(node)
    return found


def _equivalent(tables: Tables, row: Any, field: str, value: Any, base: Any, make: Any) -> str | None:
    if field in ("lanes", "sources", "exempt", "cells", "artifact", "prefix3"):
        return SAME_CLOSINGS if accepted_closings(make()) == base else None
    if field == "only_sources":
        own = {source for lane in row["lanes"] for source in tables.lane_sources[lane]}
        return OTHER_LANE if set(value) & own == set(row["only_sources"]) & own else None
    if field == "codes":
        return _same_codes(tables, row, value)
    return None


def _same_codes(tables: Tables, row: Any, value: Any) -> str | None:
    """A code no source of the variant may stop with is refused by the source's own set (V006 §4)."""
    for status in row["codes"]:
        domain = {code for node in _nodes(tables, row) for code in tables.node_codes[node]}
        domain |= {"NONE", "DUPLICATE_EXISTING_ARTIFACT"}
        kinds = {code for code, kind in tables.code_class.items() if tables.status_of_class[kind] == status}
        one, other = (
            domain & kinds if codes == "stage" else domain & kinds & set(codes)
            for codes in (row["codes"][status], value[status])
        )
        if one != other:
            return None
    return "no source of the variant may stop with the code that was changed (V006 §4)"


def windows(tables: Tables) -> Iterator[Mutant]:
    """The windows of an announced closure."""
    for at, window in enumerate(tables.closing_windows):
        changes: list[tuple[str, Any]] = [
            ("prefix3", flipped(window["prefix3"], prefix))
            for prefix in ("".join(letters) for letters in product("NV", repeat=3))
        ]
        changes += [("artifact", kind) for kind in KINDS if kind != window["artifact"]]
        changes += [("state", state) for state in tables.states[:-1] if state != window["state"]]
        changes += [("lane", lane) for lane in tables.matrix if lane != window["lane"]]
        changes += [("closing", name) for name in tables.closures if name != window["closing"]]
        for place, letter in product(range(4), tables.letters):
            cell = toggled(window["cells"][place], letter, "".join(tables.letters))
            changes.append(("cells", (*window["cells"][:place], cell, *window["cells"][place + 1 :])))
        for field, value in changes:
            changed_windows = (
                *tables.closing_windows[:at],
                {**window, field: value},
                *tables.closing_windows[at + 1 :],
            )
            yield Mutant(
                "windows",
                f"window of {window['closing']} {field}: {_say(window[field])} becomes {_say(value)}",
                changed(tables, closing_windows=changed_windows),
                _window_rule(field, value),
            )


def _window_rule(field: str, value: Any) -> str | None:
    if field == "cells" and value[3] not in ("V", ""):
        return "DUPLICATE goes with A verified alone, so no other letter of A is met in the window (R22)"
    return None
