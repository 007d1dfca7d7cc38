"""Crash windows: where a run may end between two durable steps, and what recovery then sees (design 4).

Walks every edge from every (node, mark) with which its source can be entered. After `k` of `n` steps the
evidence shows the source node, the target node, or a closing window; the mark is the last journal record
that marks anything. A step that makes the splitting object verified may itself be in doubt: that window
shows the state's U node.
"""

from __future__ import annotations

import attrs

from .derive import Derived, FullEdge

NO_MARK = "NONE"


@attrs.frozen(order=True)
class Window:
    """A run ended after `steps_done` steps of EDGES[edge]; recovery sees the node (short) and the mark."""

    lane: str
    edge: int
    steps_done: int
    node: str
    mark: str


@attrs.frozen
class Flow:
    """All windows, the entered (lane, node) pairs, and instants that show no node: (edge, steps done)."""

    found: tuple[Window, ...]
    entered: frozenset[tuple[str, str]]
    blind: tuple[tuple[FullEdge, int], ...]


def _shown(d: Derived, edge: FullEdge, done: int) -> str | None:
    """The node that the evidence shows after `done` steps of the edge, or None."""
    presences = d.after(edge.lane, edge.source, edge.steps[:done])
    if not presences:
        return None
    if presences <= d.node_presences(edge.lane, edge.source):
        return edge.source
    if edge.target != d.closed and presences <= d.node_presences(edge.lane, edge.target):
        return edge.target
    for window in d.spec.presence.closing_windows:
        if (window.closing, window.lane) != (edge.variant, edge.lane):
            continue
        cells = [frozenset(cell.split("|")) for cell in window.cells]
        if all(
            all(letter in cell for letter, cell in zip(presence, cells, strict=False))
            and presence[4:7] in window.prefix3
            and presence[7] == "N"
            for presence in presences
        ):
            split = d.split_object.get(window.state)
            letters = {presence[d.objects.index(split)] for presence in presences} if split else set()
            return f"{window.state}-{letters.pop()}" if len(letters) == 1 else window.state
    return None


def _doubtful(d: Derived, edge: FullEdge, step: str) -> str | None:
    """The U node that a lost answer to this step shows, where the state has one."""
    state = edge.source.partition("-")[0]
    split = d.split_object.get(state)
    node = f"{state}-U"
    if split is None or node == edge.source or node not in d.nodes[edge.lane]:
        return None
    return node if (split, "V") in d.step_moves.get(step, ()) else None


def windows(d: Derived) -> Flow:
    """Every window reachable from the lanes' first nodes, in edge order."""
    found: set[Window] = set()
    blind: dict[tuple[int, int], tuple[FullEdge, int]] = {}
    todo = [(lane, d.nodes[lane][0], NO_MARK) for lane in d.lanes if d.nodes[lane]]
    entered = set(todo)
    outgoing: dict[tuple[str, str], list[tuple[int, FullEdge]]] = {}
    for index, edge in enumerate(d.edges):
        outgoing.setdefault((edge.lane, edge.source), []).append((index, edge))
    while todo:
        lane, node, entry_mark = todo.pop()
        for index, edge in outgoing.get((lane, node), ()):
            mark = entry_mark
            ends: list[tuple[str, str, str]] = []
            for done, step in enumerate(edge.steps):
                shown = _shown(d, edge, done)
                if shown is None:
                    blind[index, done] = (edge, done)
                else:
                    found.add(Window(lane, index, done, shown, mark))
                doubtful = _doubtful(d, edge, step)
                if doubtful is not None:
                    found.add(Window(lane, index, done, doubtful, mark))
                    ends.append((lane, doubtful, mark))
                mark = d.step_marks.get(step) or mark
            if edge.target != d.closed:
                ends.append((lane, edge.target, mark))
            for end in ends:
                if end not in entered:
                    entered.add(end)
                    todo.append(end)
    places = frozenset((lane, node) for lane, node, _ in entered)
    return Flow(tuple(sorted(found, key=attrs.astuple)), places, tuple(blind[key] for key in sorted(blind)))


def recovery_table(d: Derived) -> dict[tuple[str, str, str], str]:
    """(lane, node, mark) → action, in node and mark order; `check` refuses a second row for one key."""
    table: dict[tuple[str, str, str], str] = {}
    for lane in d.lanes:
        for node in d.nodes[lane]:
            for mark in d.spec.recovery.marks:
                for row in d.spec.recovery.recovery:
                    if row.lane == lane and node in row.nodes and mark in row.marks:
                        table[lane, node, mark] = row.action
                        break
    return table
