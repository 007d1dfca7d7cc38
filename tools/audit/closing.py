"""All closure inputs, by cell class (V006 §2.4; rulings R4-R9).

For one lane and source, letters that no closure and no row tells apart are one class; one letter stands for
its class and its weight is counted. So every input is judged: 2 lanes × 10 sources × 5⁸ presences × 4 kinds
of A × 4 statuses.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from itertools import product
from typing import Any

from fsm import Tables, match_closure
from tests.fsm import v006

from . import expected
from .findings import Check, Violation

SPEC = "closures.yaml"
KINDS = (None, "SUCCESS", "DUPLICATE", "FAILURE")
STATUSES = ("SUCCESS", "DUPLICATE", "FAILED", "STOPPED")

Key = tuple[str, str, str, str | None, str]


def accepting(tables: Tables, key: Key) -> list[str]:
    """Every variant whose row accepts an input, read cell by cell and not by `match_closure`."""
    lane, source, presence, kind, status = key
    found = []
    row = tables.matrix[lane][source]
    due = sum(cell == "V" for cell in row[4:7])
    for variant, closure in tables.closures.items():
        fits = (
            lane in closure["lanes"]
            and source in closure["sources"]
            and status in closure["statuses"]
            and kind == closure["artifact"]
            and presence[7] == "V"
            and presence[4:7] in closure["prefix3"]
            and presence[4:7].count("V") >= due
        )
        for place in range(4):
            letter = presence[place]
            fits = fits and letter in closure["cells"][place]
            fits = fits and (letter in row[place] or expected.OBJECTS[place] in closure["exempt"])
        if fits:
            found.append(variant)
    return found


def _classes(tables: Tables, lane: str, source: str) -> Iterator[tuple[str, int]]:
    """(presence, weight): one presence for every class, and how many it stands for."""
    rows: list[Any] = [
        closure
        for closure in tables.closures.values()
        if lane in closure["lanes"] and source in closure["sources"]
    ]
    places = []
    for place in range(4):
        cell = tables.matrix[lane][source][place]
        groups: dict[tuple[bool, ...], list[str]] = {}
        for letter in tables.letters:
            mark = (letter in cell, *(letter in closure["cells"][place] for closure in rows))
            groups.setdefault(mark, []).append(letter)
        places.append([(letters[0], len(letters)) for letters in groups.values()])
    known = {prefix for closure in rows for prefix in closure["prefix3"]} | set(v006.PREFIXES)
    other = next(text for text in map("".join, product("IVNUX", repeat=3)) if text not in known)
    prefixes = [(prefix, 1) for prefix in sorted(known)] + [(other, 125 - len(known))]
    for four in product(*places):
        for prefix, many in prefixes:
            weight = many
            for _letter, size in four:
                weight *= size
            shown = "".join(letter for letter, _size in four) + prefix
            yield shown + "V", weight
            yield shown + "N", weight * 4


def inputs(tables: Tables) -> Iterator[tuple[Key, int]]:
    """All closure inputs by class, with their weight."""
    for lane in v006.LANES:
        for state in v006.OPEN_STATES:
            for presence, weight in _classes(tables, lane, state):
                for kind, status in product(KINDS, STATUSES):
                    yield (lane, state, presence, kind, status), weight


def contract_closings() -> dict[Key, str]:
    """What V006 §2.4 accepts, with full state names."""
    return {
        (lane, v006.FULL[source], presence, kind, status): variant
        for (lane, source, presence, kind, status), variant in v006.accepted_closings().items()
    }


def check_closures(tables: Tables) -> Check:
    """Every input: at most one variant, the contract's one, and `match_closure` says so."""
    counts: Counter[str] = Counter({"overlaps": 0})
    violations: list[Violation] = []
    taken: set[str] = set()
    offered: dict[str, Key] = {}
    for key, weight in inputs(tables):
        counts["inputs"] += weight
        counts["classes"] += 1
        found = accepting(tables, key)
        matched = match_closure(*key, tables)
        if matched is not None:
            taken.add(matched)
        for variant in found:
            offered.setdefault(variant, key)
        if len(found) > 1:
            counts["overlaps"] += weight
            violations.append(
                Violation("overlap", SPEC, " and ".join(found) + " accept one input", _say(key))
            )
        if matched != (found[0] if found else None):
            text = f"match_closure says {matched} and the rows say {found}"
            violations.append(Violation("conflicting", SPEC, text, _say(key)))
    for variant in tables.closures:
        if variant in offered and variant not in taken:
            text = f"an earlier variant always takes the place of {variant}"
            violations.append(Violation("shadowed", SPEC, text, _say(offered[variant])))
        if variant not in offered:
            violations.append(Violation("unreachable", SPEC, f"no input is accepted by {variant}"))
    return Check("closures", counts, tuple(violations[:40]))


def check_closings(tables: Tables) -> Check:
    """The closings the tables accept are the contract's, one for one."""
    due, found = contract_closings(), accepted_closings(tables)
    violations = []
    for key in sorted(due.keys() | found.keys(), key=str):
        if due.get(key) == found.get(key):
            continue
        word = "gap" if key not in found else "conflicting"
        text = f"{due.get(key, 'no closure')} is due and {found.get(key, 'none')} is found"
        violations.append(Violation(word, SPEC, text, _say(key)))
    counts = {"closings of the contract": len(due), "accepted": len(found)}
    return Check("closings", counts, tuple(violations[:40]))


def accepted_closings(tables: Tables) -> dict[Key, str]:
    """Everything `match_closure` accepts. What no row allows need not be asked."""
    found = {}
    for closure in tables.closures.values():
        presences = [
            "".join(four) + prefix + "V"
            for four in product(*closure["cells"][:4])
            for prefix in closure["prefix3"]
        ]
        axes = (closure["lanes"], closure["sources"], presences, (closure["artifact"],), closure["statuses"])
        for key in product(*axes):
            if key not in found:
                variant = match_closure(*key, tables)
                if variant is not None:
                    found[key] = variant
    return found


def _say(key: Key) -> str:
    lane, source, presence, kind, status = key
    return f"{lane} {source} {presence} A kind {kind} {status}"


def check_variants(tables: Tables) -> Check:
    """Names, producers, id patterns and codes of the variants agree with the machine and the other tables."""
    violations: list[Violation] = []
    if tuple(tables.closures) != v006.VARIANTS:
        violations.append(
            Violation("conflicting", SPEC, "the ten variants in order", ", ".join(tables.closures))
        )
    for variant, closure in tables.closures.items():
        due = {source.split("-")[0] for _lane, source, of, _steps in expected.CLOSING_EDGES if of == variant}
        if set(closure["producer"]) != due:
            text = f"{variant} is produced from {sorted(due)}"
            violations.append(Violation("conflicting", SPEC, text, ", ".join(closure["producer"])))
        violations += _patterns(variant, closure)
        if set(closure["codes"]) != set(closure["statuses"]):
            violations.append(
                Violation("gap", SPEC, f"{variant}: a status without codes", str(closure["codes"]))
            )
    return Check("closure variants", {"variants": len(tables.closures)}, tuple(violations))


def _patterns(variant: str, closure: Any) -> list[Violation]:
    """The variant's id pattern is the one V006 §3.3 gives for its Q and A."""
    given = set()
    for q, a in product(closure["cells"][2], closure["cells"][3]):
        for quota in v006.QUOTA_STATES:
            if (q == "V") != (quota in ("RELEASED", "CONFIRMED", "UNCERTAIN")):
                continue
            if (quota == "NONE") != (variant[:3] in ("C03", "C04", "C05", "C10")):
                continue
            pattern = expected.ID_PATTERNS.get((quota, a))
            given |= {pattern} if pattern else set()
    if given == {closure["quota_ids"]}:
        return []
    text = f"{variant} has the id pattern {closure['quota_ids']}"
    return [Violation("conflicting", SPEC, text, f"V006 §3.3 gives {sorted(given)}")]
