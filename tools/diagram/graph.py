"""The item machine as something to draw: nodes on a grid, edges grouped by where they go.

A state is a row of the grid and a sub-state letter a column. Closing edges would all end in one box and
hide the rest, so a node carries the short names of the closures that can end it instead.
"""

from __future__ import annotations

import attrs

from generated.edges import CLOSE_EVENTS, EDGES, WORK
from generated.presence import LANES, NODES, STATE_SHORT, STATES, SUBSTATES


@attrs.frozen
class Node:
    """One box: `name` in full, `row` and `column` on the grid, closures by short name."""

    name: str
    title: str
    work: str
    row: int
    column: int
    closures: tuple[str, ...]


@attrs.frozen
class Arrow:
    """All edges between two nodes, with their events."""

    source: str
    target: str
    events: tuple[str, ...]


@attrs.frozen
class Machine:
    """One lane's machine without its closing edges."""

    lane: str
    nodes: tuple[Node, ...]
    arrows: tuple[Arrow, ...]


def closed_state() -> str:
    """The state that every closure leads to."""
    return STATES[-1]


def short_node(name: str) -> str:
    """`P02_TRIGGER_UNKNOWN-N` → `P02-N`."""
    state, dash, letter = name.partition("-")
    return STATE_SHORT[state] + dash + letter


def machine(lane: str) -> Machine:
    """The machine of one lane."""
    rows: dict[str, int] = {}
    nodes: list[Node] = []
    for name in NODES[lane]:
        state, _, letter = name.partition("-")
        row = rows.setdefault(state, len(rows))
        column = SUBSTATES[state][1].index(letter) if letter else 0
        closures = tuple(variant.partition("_")[0] for variant in CLOSE_EVENTS.get((lane, name), {}))
        split = f" · {SUBSTATES[state][0]}={letter}" if letter else ""
        title = f"{state.replace('_', ' ')}{split}"
        nodes.append(Node(name, title, WORK[lane][name][0], row, column, closures))
    grouped: dict[tuple[str, str], list[str]] = {}
    for of_lane, source, event, target, guard, _ in EDGES:
        if of_lane == lane and target != closed_state():
            grouped.setdefault((source, target), []).append(f"{event} [{guard}]" if guard else event)
    arrows = tuple(Arrow(source, target, tuple(events)) for (source, target), events in grouped.items())
    return Machine(lane, tuple(nodes), arrows)


def machines() -> tuple[Machine, ...]:
    """Both lanes."""
    return tuple(machine(lane) for lane in LANES)
