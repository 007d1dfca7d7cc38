"""The machine: edges and what they move, closing edges, crash windows, the ledger's automaton, the rulings'
witnesses.

Compared with design 4 as copied by hand, and with what must hold of any machine: steps move evidence by
ruling R3 and in persistence order, every edge ends in its target's row, every node is reached, every window
has one action.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

from fsm import ContractError, Tables, Verdict, allowed_codes, match_closure, move_allowed, quota_ids, verdict
from generated.evidence import PERSISTENCE_ORDER
from generated.recovery import WINDOWS
from generated.rulings import RULINGS
from tests.fsm import v006

from . import expected
from .findings import Check, Violation

SPEC = "edges.yaml"


def variants_of(tables: Tables) -> dict[tuple[str, str, str], str]:
    """(lane, node, event) → the closure an event ends the item with."""
    return {
        (lane, node, event): variant
        for (lane, node), events in tables.close_events.items()
        for variant, event in events.items()
    }


def check_edges(tables: Tables) -> Check:
    """The edges, closing edges and works are the contract's and no others; one edge for an event."""
    violations: list[Violation] = []
    keys = Counter((lane, source, event) for lane, source, event, *_rest in tables.edges)
    for key, times in keys.items():
        if times > 1:
            violations.append(Violation("overlap", SPEC, f"{times} edges for one event", " ".join(key)))
    variant_of = variants_of(tables)
    found, closing = set(), set()
    for lane, source, event, target, guard, steps in tables.edges:
        if target == tables.closed_state:
            closing.add((lane, source, variant_of.get((lane, source, event), "none"), steps))
            if guard is not None:
                text = "a closing edge has no guard; keep or close has decided"
                violations.append(Violation("conflicting", SPEC, text, f"{lane} {source} {event} [{guard}]"))
        else:
            found.add((lane, source, event, target, guard, steps))
    violations += _sets(found, expected.EDGES, "edge")
    violations += _sets(closing, expected.CLOSING_EDGES, "closing edge")
    violations += _works(tables)
    return Check("edges", {"edges": len(found), "closing edges": len(closing)}, tuple(violations))


def _sets(found: set[Any], due: set[Any], what: str) -> list[Violation]:
    missing = [Violation("gap", SPEC, f"{what} missing", _say(row)) for row in sorted(due - found, key=str)]
    extra = [
        Violation("conflicting", SPEC, f"{what} not in the contract", _say(row))
        for row in sorted(found - due, key=str)
    ]
    return missing + extra


def _say(row: tuple[Any, ...]) -> str:
    return " ".join("+".join(part) if isinstance(part, tuple) else str(part) for part in row)


def _works(tables: Tables) -> list[Violation]:
    violations = []
    for (lane, short), names in expected.WORK.items():
        node = expected.full(short)
        live, recovery, events = tables.work[lane][node]
        if (live, recovery) != names:
            violations.append(Violation("conflicting", SPEC, f"work of {lane} {node}", f"{live}, {recovery}"))
        onward = {
            event.partition(":")[0]
            for of, source, event, *_rest in tables.edges
            if (of, source) == (lane, node)
        }
        for event in events:
            if event not in onward:
                violations.append(
                    Violation("gap", SPEC, f"{lane} {node}: no edge for an event of its work", event)
                )
        for event in expected.WORK_EVENTS[lane, node] - set(events):
            violations.append(Violation("gap", SPEC, f"{lane} {node}: its work never says", event))
    return violations


def check_moves_of_edges(tables: Tables) -> Check:
    """From every presence of an edge's source: each step's moves by R3, in order, into the target's row."""
    violations: list[Violation] = []
    counts: Counter[str] = Counter()
    variant_of = variants_of(tables)
    for lane, source, event, target, _guard, steps in tables.edges:
        variant = variant_of.get((lane, source, event))
        for before in expected.NODE_PRESENCES.get((lane, source), ()):
            counts["walks"] += 1
            where = f"{lane} {source} {event}"
            fault, after = _walk(tables, lane, before, steps, counts)
            if fault:
                violations.append(Violation("conflicting", "steps.yaml", f"{where}: {fault}", before))
            elif variant is None and not _in_row(tables, lane, target, after):
                violations.append(Violation("conflicting", SPEC, f"{where} ends outside {target}", after))
            elif variant is not None and not _closed(tables, lane, source, after, variant):
                violations.append(
                    Violation("conflicting", SPEC, f"{where} is not closed as {variant}", after)
                )
    violations += _reached(tables)
    return Check("evidence moved by edges", counts, tuple(violations))


def _walk(
    tables: Tables, lane: str, before: str, steps: tuple[str, ...], counts: Counter[str]
) -> tuple[str, str]:
    rank = {name: place for place, names in enumerate(PERSISTENCE_ORDER[lane]) for name in names}
    shown, last = before, -1
    for step in steps:
        if step not in tables.steps:
            return f"{step} is no step", shown
        for name, letter in tables.steps[step][2]:
            counts["moves"] += 1
            place = expected.OBJECTS.index(name)
            after = shown[:place] + letter + shown[place + 1 :]
            if not move_allowed(shown, after, tables):
                return f"{step} moves {name} from {shown[place]} to {letter}", shown
            if letter != "N" and shown[place] != letter:
                if rank.get(name, -1) < last:
                    return f"{step} makes {name} durable after a later object", shown
                last = rank.get(name, -1)
            shown = after
    return "", shown


def _in_row(tables: Tables, lane: str, target: str, after: str) -> bool:
    state = target.split("-")[0]
    return verdict(lane, state, after, tables) is Verdict.LEGAL and tables.node_of(state, after) == target


def _closed(tables: Tables, lane: str, source: str, after: str, variant: str) -> bool:
    closure = tables.closures.get(variant)
    if closure is None:
        return False
    state = source.split("-")[0]
    return any(
        match_closure(lane, state, after, closure["artifact"], status, tables) == variant
        for status in closure["statuses"]
    )


def _reached(tables: Tables) -> list[Violation]:
    """Every node without U is reached from its lane's first; U comes from a failed write."""
    violations = []
    for lane in v006.LANES:
        reached = {tables.nodes[lane][0]}
        for _ in tables.edges:
            reached |= {
                target
                for of, source, _event, target, *_rest in tables.edges
                if of == lane and source in reached
            }
        for node in (*tables.nodes[lane], tables.closed_state):
            if node not in reached and not node.endswith("-U"):
                violations.append(Violation("unreachable", SPEC, f"no edge of {lane} leads to a node", node))
    return violations


def check_recovery(tables: Tables) -> Check:
    """Every crash window has exactly the action of design 4."""
    violations: list[Violation] = []
    found = {
        (lane, node): dict(marks) for lane, nodes in tables.recovery.items() for node, marks in nodes.items()
    }
    for key in sorted(found.keys() | expected.RECOVERY.keys()):
        shown, due = found.get(key, {}), expected.RECOVERY.get(key, {})
        for mark in sorted(shown.keys() | due.keys()):
            if shown.get(mark) != due.get(mark):
                word = "gap" if mark not in shown else "conflicting"
                text = f"{' '.join(key)} after {mark}: {shown.get(mark)}, not {due.get(mark)}"
                violations.append(Violation(word, "recovery.yaml", text, mark))
    for lane, edge, step, node, mark in WINDOWS:
        if mark not in found.get((lane, node), {}):
            text = f"{lane} edge {edge} before step {step} has no action"
            violations.append(Violation("gap", "recovery.yaml", text, f"{node} {mark}"))
    actions = Counter(action for marks in found.values() for action in marks.values())
    counts = {"windows": len(WINDOWS), "rows": sum(actions.values()), **actions}
    return Check("recovery", counts, tuple(violations))


def check_ledger(tables: Tables) -> Check:
    """The family automaton accepts the contract's words and no others, to any length."""
    violations: list[Violation] = []
    found = {(state, event) for state, events in tables.automaton.items() for event in events}
    for pair in sorted(expected.LEDGER - found):
        violations.append(Violation("gap", "ledger.yaml", "an event is refused", " then ".join(pair)))
    for pair in sorted(found - expected.LEDGER):
        violations.append(Violation("conflicting", "ledger.yaml", "an event is taken", " then ".join(pair)))
    for state, events in tables.automaton.items():
        for event, target in events.items():
            if target != event:
                text = f"{event} after {state or 'nothing'} leads to {target}"
                violations.append(Violation("conflicting", "ledger.yaml", text, event))
    return Check("ledger automaton", {"events": len(found), "words": _words(tables)}, tuple(violations))


def _words(tables: Tables) -> int:
    """How many event sequences a family may have."""

    def count(state: str, depth: int) -> int:
        onward = tables.automaton.get(state, {})
        return 1 + (sum(count(target, depth + 1) for target in onward.values()) if depth < 9 else 0)

    return count("", 0) - 1


def check_run_statuses(tables: Tables) -> Check:
    """Statuses and exit codes in the order of design 3."""
    found = tuple((status, code) for status, code, _when, _meaning in tables.run_statuses)
    violations = []
    if found != expected.RUN_STATUSES:
        example = next(
            (row for row in expected.RUN_STATUSES if row not in found), found[0] if found else ("none", 0)
        )
        violations.append(Violation("conflicting", "governance.yaml", "run statuses in order", _say(example)))
    return Check("run statuses", {"statuses": len(found)}, tuple(violations))


# -- rulings ---------------------------------------------------------------------------------------


def check_rulings(tables: Tables) -> Check:
    """Every executable witness of a ruling comes out as the ruling says."""
    counts: Counter[str] = Counter({"rulings": len(RULINGS)})
    violations: list[Violation] = []
    results: list[dict[str, Any]] = []
    for ruling in RULINGS:
        said = []
        for witness in ruling["witness"]:
            for kind, values in witness.items():
                counts[kind] += 1
                holds = None if kind == "test" else _witness(kind, values, tables)
                said.append({"kind": kind, "values": _text(values), "holds": holds})
                if holds is False:
                    text = f"{ruling['id']}: its witness does not hold"
                    violations.append(
                        Violation("conflicting", "rulings.yaml", text, f"{kind} {_text(values)}")
                    )
        results.append(
            {"id": ruling["id"], "clause": ruling["clause"], "text": ruling["text"], "witness": said}
        )
    return Check("rulings", counts, tuple(violations), details={"rulings": results})


def _text(values: Any) -> str:
    if isinstance(values, str):
        return values
    return ", ".join("+".join(value) if isinstance(value, tuple) else str(value) for value in values)


def _witness(kind: str, values: Any, tables: Tables) -> bool:
    try:
        return bool(_HOLDS[kind](values, tables))
    except (ContractError, KeyError):
        return False


def _ids(values: Any, tables: Tables) -> bool:
    try:
        return bool(quota_ids(values[0], values[1], tables) == values[2])
    except ContractError:
        return values[2] is None


def _move(values: Any, tables: Tables) -> bool:
    place = expected.OBJECTS.index(values[0])
    before, after = ("N" * place + letter + "N" * (7 - place) for letter in values[1])
    return move_allowed(before, after, tables) is values[2]


def _codes(values: Any, tables: Tables) -> bool:
    found = allowed_codes(values[0], values[1], values[2], tables)
    return set(values[3]) <= found and not set(values[4]) & found


_HOLDS: Mapping[str, Any] = {
    "verdict": lambda v, tables: verdict(v[0], v[1], v[2], tables) == v[3],
    "closure": lambda v, tables: match_closure(v[0], v[1], v[2], v[3], v[4], tables) == v[5],
    "keep": lambda v, tables: tables.keep_or_close[v[0]][v[1]][v[2]][v[3]] == v[4],
    "codes": _codes,
    "ids": _ids,
    "move": _move,
}
