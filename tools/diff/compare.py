"""Compares two compiled contracts and says what changed in sentences.

Meaning and wording are told apart: an explanation, a reason or a ruling's text may change without any run
changing. Matrices, closures, edges, code domains, failures, keep-or-close and recovery have sentences of
their own; whatever else the generated modules hold is compared value by value, so that no table can change
unseen.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import product

import attrs

from tools.compile.derive import Derived
from tools.compile.flow import recovery_table
from tools.compile.model import ClosureVariant
from tools.compile.render import flat
from tools.compile.tables import MODULES

from .verdicts import changes

WORDING = {
    "LETTER_NAMES",
    "LETTER_MEANING",
    "OBJECT_NAMES",
    "LANE_MEANING",
    "STATE_MEANING",
    "GUARDS",
    "FAILURE_MEANING",
    "KEEP_WHY",
    "PDF_FINDING_MEANING",
    "RULINGS",
}
# Told in sentences of their own, or derived from what is.
TOLD = {"MATRIX", "CLOSURES", "NODE_CODES", "NODE_QUOTA_CODES", "EDGES", "CLOSE_EVENTS", "FAILURE_CODES"}
TOLD |= {"KEEP_OR_CLOSE", "RECOVERY", "WINDOWS", "KNOWN_UNREACHABLE", "RUN_STATUSES"}


@attrs.frozen
class Difference:
    """One thing that changed: the area, a sentence, and whether only words changed."""

    area: str
    text: str
    wording: bool = False


def compare(old: Derived, new: Derived) -> list[Difference]:
    """All differences, in the order of the contract's chapters."""
    found: list[Difference] = []
    for area, tell in (
        ("presence", _presence),
        ("closures", _closures),
        ("edges", _edges),
        ("codes", _codes),
        ("failures", _failures),
        ("keep", _keep),
        ("recovery", _recovery),
        ("governance", _statuses),
        ("unreachable", _unreachable),
    ):
        found.extend(Difference(area, text) for text in tell(old, new))
    return [*found, *_remaining(old, new)]


def _words(words: object) -> str:
    return (
        ", ".join(sorted(map(str, words))) if isinstance(words, (set, frozenset, tuple, list)) else str(words)
    )


def _presence(old: Derived, new: Derived) -> list[str]:
    found: list[str] = []
    for lane, short in {**old.rows, **new.rows}:
        place = f"{lane} {new.state(short)}"
        before, after = old.rows.get((lane, short)), new.rows.get((lane, short))
        if before is None or after is None:
            found.append(f"{place}: the row is {'new' if before is None else 'gone'}.")
            continue
        if len(before) != len(after) or before == after:
            continue
        cells = [
            f"{name} was {'|'.join(old.ordered(was))}, is {'|'.join(new.ordered(now))}"
            for name, was, now in zip(new.objects, before, after, strict=True)
            if was != now
        ]
        moved = [
            f"{count} presence{'s' if count > 1 else ''} {pair[0]} → {pair[1]}, the first {least}"
            for pair, (count, least) in sorted(changes(new.letters, before, after).items())
        ]
        found.append(f"{place}: {'; '.join(cells)}. " + ("; ".join(moved) or "No verdict changes") + ".")
    return found


Input = tuple[str, ...]


def accepted(d: Derived, variant: ClosureVariant) -> frozenset[Input]:
    """Every (lane, source, presence, artifact, status) that the variant accepts."""
    found: set[Input] = set()
    for lane, source in product(variant.lanes, variant.sources):
        row = d.rows[lane, source]
        cells = [
            cell if name in variant.exempt else cell & row[at]
            for at, (name, cell) in enumerate(zip(d.objects[:4], d.closure_cells(variant), strict=True))
        ]
        own = next(
            (p for p in d.spec.evidence.prefix3 if all(c in row[4 + i] for i, c in enumerate(p))), "NNN"
        )
        prefixes = [prefix for prefix in variant.prefix3 if prefix.count("V") >= own.count("V")]
        for letters, prefix, status in product(product(*cells), prefixes, variant.statuses):
            artifact = variant.artifact if letters[3] == "V" else None
            found.add((lane, d.state(source), "".join(letters) + prefix + "V", artifact or "-", status))
    return frozenset(found)


def _closures(old: Derived, new: Derived) -> list[str]:
    found: list[str] = []
    for name in dict.fromkeys([*old.closure, *new.closure]):
        before, after = old.closure.get(name), new.closure.get(name)
        if before is None or after is None:
            found.append(f"{name} is {'new' if before is None else 'gone'}.")
            continue
        for field in attrs.fields(ClosureVariant):
            was, now = getattr(before, field.name), getattr(after, field.name)
            if was != now:
                found.append(f"{name}: {field.name} was {flat(was)}, is {flat(now)}.")
        was_in, now_in = accepted(old, before), accepted(new, after)
        for inputs, verb in ((was_in - now_in, "no longer accepts"), (now_in - was_in, "newly accepts")):
            if inputs:
                first = " ".join(min(inputs))
                found.append(
                    f"{name} {verb} {len(inputs)} input{'s' if len(inputs) > 1 else ''}, the first {first}."
                )
    return found


def _edges(old: Derived, new: Derived) -> list[str]:
    found: list[str] = []
    tables = [{(e.lane, d.node(e.source), e.event): (d, e) for e in d.edges} for d in (old, new)]
    for key in dict.fromkeys([*tables[0], *tables[1]]):
        place = f"{key[0]} {key[1]} on {key[2]}"
        if key not in tables[0] or key not in tables[1]:
            d, edge = tables[0].get(key) or tables[1][key]
            word = "gone" if key in tables[0] else "new"
            found.append(f"{place}: the edge to {d.node(edge.target)} is {word}.")
            continue
        (d_old, was), (d_new, now) = tables[0][key], tables[1][key]
        if d_old.node(was.target) != d_new.node(now.target):
            found.append(f"{place}: led to {d_old.node(was.target)}, leads to {d_new.node(now.target)}.")
        if was.guard != now.guard:
            found.append(f"{place}: the guard was {was.guard}, is {now.guard}.")
        if was.steps != now.steps:
            found.append(f"{place}: the steps were {', '.join(was.steps)}; they are {', '.join(now.steps)}.")
    return found


def _codes(old: Derived, new: Derived) -> list[str]:
    found: list[str] = []
    stops = [
        {(d.node(node), quota): set(d.node_codes(node, quota)) for lane, node, quota, _ in d.stops}
        for d in (old, new)
    ]
    for place in dict.fromkeys([*stops[0], *stops[1]]):
        was, now = stops[0].get(place, set()), stops[1].get(place, set())
        if was - now:
            found.append(f"An item at {place[0]} ({place[1]}) may no longer stop with {_words(was - now)}.")
        if now - was:
            found.append(f"An item at {place[0]} ({place[1]}) may now stop with {_words(now - was)}.")
    return found


def _failures(old: Derived, new: Derived) -> list[str]:
    found: list[str] = []
    for failure in sorted({*old.failure_codes, *new.failure_codes}):
        was = {old.node(node): code for node, code in old.failure_codes.get(failure, {}).items()}
        now = {new.node(node): code for node, code in new.failure_codes.get(failure, {}).items()}
        for place in dict.fromkeys([*was, *now]):
            if was.get(place) != now.get(place):
                text = f"was {was.get(place, 'impossible')}, is {now.get(place, 'impossible')}"
                found.append(f"{failure} at {place} {text}.")
    return found


def _keep(old: Derived, new: Derived) -> list[str]:
    found: list[str] = []
    tables = [{(k[0], d.node(k[1]), *k[2:]): action for k, (action, _) in d.keep.items()} for d in (old, new)]
    changed: dict[tuple[str, ...], list[str]] = {}
    for stop in tables[0]:
        if stop in tables[1] and tables[0][stop] != tables[1][stop]:
            key = (*stop[:3], tables[0][stop], tables[1][stop])
            changed.setdefault(key, []).append(stop[3])
    for (lane, node, quota, was, now), codes in changed.items():
        found.append(f"{lane} {node} ({quota}) with {', '.join(codes)}: was {was}, is {now}.")
    return found


def _recovery(old: Derived, new: Derived) -> list[str]:
    found: list[str] = []
    tables = [{(k[0], d.node(k[1]), k[2]): v for k, v in recovery_table(d).items()} for d in (old, new)]
    for key in dict.fromkeys([*tables[0], *tables[1]]):
        was, now = tables[0].get(key, "not answered"), tables[1].get(key, "not answered")
        if was != now:
            found.append(f"A run that ended at {key[0]} {key[1]} with mark {key[2]}: was {was}, is {now}.")
    return found


def _statuses(old: Derived, new: Derived) -> list[str]:
    found: list[str] = []
    rows = [{row.status: row for row in d.spec.governance.run_statuses} for d in (old, new)]
    for status in dict.fromkeys([*rows[0], *rows[1]]):
        was, now = rows[0].get(status), rows[1].get(status)
        if was is None or now is None:
            found.append(f"Run status {status} is {'new' if was is None else 'gone'}.")
            continue
        for key in ("exit", "when"):
            if getattr(was, key) != getattr(now, key):
                found.append(f"Run status {status}: {key} was {getattr(was, key)}, is {getattr(now, key)}.")
    if [s for s in rows[0] if s in rows[1]] != [s for s in rows[1] if s in rows[0]]:
        found.append(f"Run statuses are tried in another order: {', '.join(rows[1])}.")
    return found


def _unreachable(old: Derived, new: Derived) -> list[str]:
    sets = [
        {
            (r.variant, d.state(word))
            for r in d.spec.unreachable.known_unreachable
            for word in (*r.sources, *r.prefixes)
        }
        for d in (old, new)
    ]
    return [
        f"{variant} with {word} no longer counts as unreachable."
        for variant, word in sorted(sets[0] - sets[1])
    ] + [f"{variant} with {word} now counts as unreachable." for variant, word in sorted(sets[1] - sets[0])]


def _remaining(old: Derived, new: Derived) -> list[Difference]:
    found: list[Difference] = []
    for module in MODULES:
        before = {entry.name: entry.value for entry in module.entries(old)}
        after = {entry.name: entry.value for entry in module.entries(new)}
        for name in after:
            if name not in TOLD and before.get(name) != after[name]:
                texts = _values(name, before.get(name), after[name])
                found.extend(Difference(module.name, text, name in WORDING) for text in texts)
    for status in old.spec.governance.run_statuses:
        for other in new.spec.governance.run_statuses:
            if status.status == other.status and status.meaning != other.meaning:
                text = f"Run status {status.status} is explained in other words."
                found.append(Difference("governance", text, True))
    return found


def _values(place: str, was: object, now: object) -> list[str]:
    """Sentences about two values of one table."""
    if isinstance(was, Mapping) and isinstance(now, Mapping):
        found: list[str] = []
        for key in dict.fromkeys([*was, *now]):
            deeper = f"{place} {key}"
            if key not in now:
                found.append(f"{deeper} is gone; it was {flat(was[key])}.")
            elif key not in was:
                found.append(f"{deeper} is new: {flat(now[key])}.")
            elif was[key] != now[key]:
                found.extend(_values(deeper, was[key], now[key]))
        return found or [f"{place} has another order."]
    if isinstance(was, tuple) and isinstance(now, tuple):
        gone = [part for part in was if part not in now]
        new = [part for part in now if part not in was]
        texts = [f"{place} loses {flat(part)}." for part in gone] + [
            f"{place} gains {flat(part)}." for part in new
        ]
        return texts or [f"{place} has another order: {flat(now)}."]
    return [f"{place} was {flat(was)}, is {flat(now)}."]
