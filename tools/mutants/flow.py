"""Mutants of codes, edges, works, steps, recovery, keep-or-close, the ledger and the public item."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise, product
from typing import Final

from fsm import Tables

from .mutant import Mutant, changed, flipped, with_key, without_key

CLASSES: Final = ("NONE", "DUPLICATE", "FAIL", "STOP")
ACTIONS: Final = ("close", "finish", "roll_forward", "ask_phone", "halt")
PATTERNS: Final = ("NNN", "RNN", "RRN", "RRR")


def stage_codes(tables: Tables) -> Iterator[Mutant]:
    """Every code of every node admitted or refused, and of every quota state where that narrows."""
    stops = [code for code, kind in tables.code_class.items() if kind in ("FAIL", "STOP")]
    for node, code in product(tables.node_codes, stops):
        listed = flipped(tables.node_codes[node], code)
        text = f"{code} at {node} {'admitted' if code in listed else 'refused'}"
        fields = {"node_codes": with_key(tables.node_codes, node, value=listed)}
        yield Mutant("stage codes", text, changed(tables, **fields))
    for node, quotas in tables.node_quota_codes.items():
        for quota, code in product(quotas, stops):
            listed = flipped(tuple(quotas[quota]), code)
            text = f"{code} at {node} {quota} {'admitted' if code in listed else 'refused'}"
            value = with_key(tables.node_quota_codes, node, quota, value=listed)
            yield Mutant("stage codes", text, changed(tables, node_quota_codes=value))


def code_classes(tables: Tables) -> Iterator[Mutant]:
    """Every code in every other class; every doubt code changed."""
    for code, kind in tables.code_class.items():
        for other in CLASSES:
            if other != kind:
                value = with_key(tables.code_class, code, value=other)
                yield Mutant("code classes", f"{code} in {other}", changed(tables, code_class=value))
    for state, code in tables.doubt_codes.items():
        for other in ("UNEXPECTED_EXCEPTION", "RECOVERY_UNKNOWN", "PROCESS_LIVENESS_UNKNOWN"):
            if other != code:
                value = with_key(tables.doubt_codes, state, value=other)
                yield Mutant(
                    "code classes", f"doubt at {state} says {other}", changed(tables, doubt_codes=value)
                )


def edges(tables: Tables) -> Iterator[Mutant]:
    """Every edge removed, redirected, renamed, guarded otherwise, its steps left out, swapped or doubled."""
    for at, edge in enumerate(tables.edges):
        lane, source, event, target, guard, steps = edge
        where = f"{lane} {source} {event}"

        def with_edge(*row: object, at: int = at) -> tuple[object, ...]:
            kept = (tuple(row),) if row else ()
            return (*tables.edges[:at], *kept, *tables.edges[at + 1 :])

        yield Mutant("edges", f"{where} removed", changed(tables, edges=with_edge()))
        for node in (*tables.nodes[lane], tables.closed_state):
            if node != target:
                row = (lane, source, event, node, guard, steps)
                yield Mutant("edges", f"{where} leads to {node}", changed(tables, edges=with_edge(*row)))
            if node not in (source, tables.closed_state):
                row = (lane, node, event, target, guard, steps)
                yield Mutant("edges", f"{where} leaves from {node}", changed(tables, edges=with_edge(*row)))
        other_lane = next(one for one in tables.lanes if one != lane)
        row = (other_lane, source, event, target, guard, steps)
        yield Mutant("edges", f"{where} in {other_lane}", changed(tables, edges=with_edge(*row)))
        row = (lane, source, event + "_", target, guard, steps)
        yield Mutant("edges", f"{where} fires on {event}_", changed(tables, edges=with_edge(*row)))
        other = None if guard else "may_seek"
        row = (lane, source, event, target, other, steps)
        yield Mutant("edges", f"{where} guarded by {other}", changed(tables, edges=with_edge(*row)))
        for text, changed_steps in _steps(steps):
            row = (lane, source, event, target, guard, changed_steps)
            yield Mutant("edges", f"{where} {text}", changed(tables, edges=with_edge(*row)))


def _steps(steps: tuple[str, ...]) -> Iterator[tuple[str, tuple[str, ...]]]:
    for at, step in enumerate(steps):
        yield f"without {step}", (*steps[:at], *steps[at + 1 :])
        yield f"{step} twice", (*steps[: at + 1], *steps[at:])
    for at, (one, other) in enumerate(pairwise(steps)):
        yield f"{other} before {one}", (*steps[:at], other, one, *steps[at + 2 :])


def close_events(tables: Tables) -> Iterator[Mutant]:
    """Every closing event forgotten or given to another variant."""
    for key, events in tables.close_events.items():
        for variant, event in events.items():
            value = with_key(tables.close_events, key, value=without_key(events, variant))
            yield Mutant(
                "edges", f"{' '.join(key)}: no event for {variant}", changed(tables, close_events=value)
            )
            other = next(name for name in tables.closures if name != variant and name not in events)
            renamed = {(other if name == variant else name): one for name, one in events.items()}
            value = with_key(tables.close_events, key, value=renamed)
            text = f"{' '.join(key)}: {event} is for {other}"
            yield Mutant("edges", text, changed(tables, close_events=value))


def works(tables: Tables) -> Iterator[Mutant]:
    """Every work of every node changed, and every event it may end with forgotten."""
    names = sorted({name for nodes in tables.work.values() for work in nodes.values() for name in work[:2]})
    for lane, nodes in tables.work.items():
        for node, (live, recovery, events) in nodes.items():
            rows = [((name, recovery, events), f"works as {name}") for name in names if name != live]
            rows += [((live, name, events), f"recovers by {name}") for name in names if name != recovery]
            rows += [((live, recovery, flipped(events, event)), f"never says {event}") for event in events]
            for row, text in rows:
                value = with_key(tables.work, lane, node, value=row)
                yield Mutant("work", f"{lane} {node} {text}", changed(tables, work=value))


def steps(tables: Tables) -> Iterator[Mutant]:
    """Every move of a step left out or to another letter."""
    for name, (kind, of, moved, marks) in tables.steps.items():
        for at, (thing, letter) in enumerate(moved):
            left = (*moved[:at], *moved[at + 1 :])
            others = [(*moved[:at], (thing, other), *moved[at + 1 :]) for other in "NVIU" if other != letter]
            for row in (left, *others):
                value = with_key(tables.steps, name, value=(kind, of, row, marks))
                shown = " ".join("=".join(pair) for pair in row) or "nothing"
                yield Mutant("steps", f"{name} moves {shown}", changed(tables, steps=value))


def recovery(tables: Tables) -> Iterator[Mutant]:
    """Every window's action changed or forgotten."""
    for lane, nodes in tables.recovery.items():
        for node, marks in nodes.items():
            for mark, action in marks.items():
                where = f"{lane} {node} after {mark}"
                value = without_key(tables.recovery, lane, node, mark)
                yield Mutant("recovery", f"{where} forgotten", changed(tables, recovery=value))
                for other in ACTIONS:
                    if other != action:
                        value = with_key(tables.recovery, lane, node, mark, value=other)
                        yield Mutant("recovery", f"{where}: {other}", changed(tables, recovery=value))


def keep_or_close(tables: Tables) -> Iterator[Mutant]:
    """Every decision turned round or forgotten."""
    for lane, nodes in tables.keep_or_close.items():
        for node, quotas in nodes.items():
            for quota, codes in quotas.items():
                for code, action in codes.items():
                    where, path = f"{lane} {node} {quota} {code}", (lane, node, quota, code)
                    other = "keep" if action == "close" else "close"
                    value = with_key(tables.keep_or_close, *path, value=other)
                    yield Mutant("keep or close", f"{where}: {other}", changed(tables, keep_or_close=value))
                    value = without_key(tables.keep_or_close, *path)
                    yield Mutant("keep or close", f"{where} forgotten", changed(tables, keep_or_close=value))


def automaton(tables: Tables) -> Iterator[Mutant]:
    """Every event of the ledger's automaton refused, taken where it is refused, or leading elsewhere."""
    events = sorted({event for outgoing in tables.automaton.values() for event in outgoing})
    for state, event in product(tables.automaton, events):
        where = f"{event} after {state or 'nothing'}"
        if event in tables.automaton[state]:
            value = without_key(tables.automaton, state, event)
            yield Mutant("ledger", f"{where} refused", changed(tables, automaton=value))
            for other in tables.automaton:
                if other != tables.automaton[state][event]:
                    value = with_key(tables.automaton, state, event, value=other)
                    text = f"{where} leads to {other or 'nothing'}"
                    yield Mutant("ledger", text, changed(tables, automaton=value))
        else:
            value = with_key(tables.automaton, state, value={**tables.automaton[state], event: event})
            yield Mutant("ledger", f"{where} taken", changed(tables, automaton=value))


def public_item(tables: Tables) -> Iterator[Mutant]:
    """Id patterns, trigger pairs, notes, keys and quota states of nodes."""
    for quota, letter in product(tables.quota_ids, tables.letters):
        shown = tables.quota_ids[quota].get(letter)
        for pattern in (*PATTERNS, None):
            if pattern != shown:
                row = {**tables.quota_ids[quota], letter: pattern}
                row = {key: value for key, value in row.items() if value is not None}
                value = with_key(tables.quota_ids, quota, value=row)
                yield Mutant(
                    "public item", f"{quota} A={letter}: {pattern}", changed(tables, quota_ids=value)
                )
    for name in ("trigger_pairs", "trigger_pairs_reserved"):
        pairs = getattr(tables, name)
        for key, pair in pairs.items():
            for other in product((True, False), (True, False, None)):
                if other != tuple(pair):
                    value = with_key(pairs, key, value=other)
                    yield Mutant(
                        "public item", f"trigger of {key}: {other}", changed(tables, **{name: value})
                    )
    for key in tables.notes:
        value = with_key(
            tables.notes, key, value="OTHER" if key != "SUCCESS" else dict.fromkeys(tables.lanes, "OTHER")
        )
        yield Mutant("public item", f"note of {key}: OTHER", changed(tables, notes=value))
    for at, key in enumerate(tables.keys):
        yield Mutant("public item", f"without {key}", changed(tables, keys=flipped(tables.keys, key)))
        if at:
            swapped = (*tables.keys[: at - 1], key, tables.keys[at - 1], *tables.keys[at + 1 :])
            yield Mutant("public item", f"{key} earlier", changed(tables, keys=swapped))
    yield from _node_quota(tables)


def _node_quota(tables: Tables) -> Iterator[Mutant]:
    for lane, nodes in tables.node_quota.items():
        for node, quota in product(nodes, tables.quota_ids):
            value = with_key(tables.node_quota, lane, node, value=flipped(nodes[node], quota))
            text = f"{quota} at {lane} {node} {'carried' if quota not in nodes[node] else 'refused'}"
            yield Mutant(
                "public item", text, changed(tables, node_quota=value), _quota_rule(tables, lane, node, quota)
            )


def _quota_rule(tables: Tables, lane: str, node: str, quota: str) -> str | None:
    """A quota state that has no id pattern beside the node's A is refused whatever the node lists (R22)."""
    if quota in tables.node_quota[lane][node]:
        return None
    split = tables.substates.get(node.split("-")[0])
    letter = node[-1] if split and split[0] == "A" else tables.matrix[lane][node.split("-")[0]][3]
    if letter not in tables.quota_ids[quota]:
        return "has no id pattern beside the A of the node, so it is refused all the same (ruling R22)"
    return None


def run_statuses(tables: Tables) -> Iterator[Mutant]:
    """Every status removed, with another exit code, or one place earlier."""
    rows = tables.run_statuses
    for at, row in enumerate(rows):
        status, exit_code, when, meaning = row
        gone = (*rows[:at], *rows[at + 1 :])
        yield Mutant("run statuses", f"without {status}", changed(tables, run_statuses=gone))
        other = (*rows[:at], (status, exit_code + 1, when, meaning), *rows[at + 1 :])
        yield Mutant("run statuses", f"{status} exits {exit_code + 1}", changed(tables, run_statuses=other))
        if at:
            earlier = (*rows[: at - 1], row, rows[at - 1], *rows[at + 1 :])
            yield Mutant("run statuses", f"{status} earlier", changed(tables, run_statuses=earlier))
