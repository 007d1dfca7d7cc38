"""What edges, steps and the matrices say together: evidence moves as R3 allows and in persistence order from
row to row, events and edges match both ways, every node is reached and left, every crash window has one
answer.
"""

from __future__ import annotations

from .context import Context
from .derive import Derived, FullEdge
from .flow import recovery_table
from .flow import windows as derive_windows


def _rank(d: Derived, lane: str) -> dict[str, int]:
    order = d.spec.evidence.persistence_order[lane]
    return {name: rank for rank, names in enumerate(order) for name in names}


def _step_faults(d: Derived, lane: str, presences: frozenset[str], step: str) -> list[str]:
    """What is wrong with one step on these presences."""
    rank = _rank(d, lane)
    faults: list[str] = []
    for name, letter in d.step_moves[step]:
        at = d.objects.index(name)
        if name not in rank:
            faults.append(f"{step} writes {name}, which has no place in the persistence order of {lane}")
            continue
        before = {presence[at] for presence in presences}
        if before == {letter}:
            faults.append(f"{step} moves nothing: {name} is {letter} already")
        for old in sorted(before - {letter}):
            if old + letter not in d.moves[name]:
                faults.append(f"{step} moves {name} from {old} to {letter}, which R3 does not allow")
        later = [other for other, place in rank.items() if place > rank[name]]
        standing = [
            other for other in later if any(presence[d.objects.index(other)] == "V" for presence in presences)
        ]
        if letter == "V" and standing:
            faults.append(f"{step} makes {name} durable after {', '.join(standing)}")
    return faults


def _walk(c: Context, edge: FullEdge, file: str, path: tuple[str | int, ...]) -> frozenset[str]:
    """Applies the steps and reports what is wrong with each; returns the presences at the end."""
    d = c.derived
    presences = d.node_presences(edge.lane, edge.source)
    for step in edge.steps:
        for text in _step_faults(d, edge.lane, presences, step):
            c.fault(file, path, text)
        presences = frozenset(moved for old in presences if (moved := d.moved(old, step)) is not None)
    return presences


def evidence_moves(c: Context) -> None:
    """The steps of an edge take every presence of its source's row to one of its target's row."""
    d = c.derived
    for index, row in enumerate(c.spec.edges.edges):
        path = ("edges", index)
        edge = FullEdge(row.lane, row.source, row.event, row.target, row.guard, row.steps)
        end = _walk(c, edge, "edges", path)
        outside = sorted(end - d.node_presences(row.lane, row.target))
        if outside:
            c.fault("edges", path, f"leaves {outside[0]}, which the row of {row.target} does not list")
        if not end:
            c.fault("edges", path, f"no presence of {row.source} survives the steps")


def closing_moves(c: Context) -> None:
    """Closing edges obey the same rules and end with the terminal alone."""
    d = c.derived
    last = d.objects[-1]
    closing = c.spec.edges.closing
    lists: list[tuple[tuple[str, ...], tuple[str, ...]]] = [(("closing", "steps"), closing.steps)]
    lists += [(("closing", "exceptions", name), row.steps) for name, row in closing.exceptions.items()]
    for path, steps in lists:
        if not steps or d.step_moves[steps[-1]] != ((last, "V"),):
            c.fault("edges", path, f"the last step must make {last} durable and nothing else")
    for edge in d.closing_edges:
        special = edge.variant is not None and edge.variant in closing.exceptions
        path_: tuple[str | int, ...] = (
            ("closing", "exceptions", edge.variant or "") if special else ("closing", "steps")
        )
        _walk(c, edge, "edges", path_)
    for name in closing.exceptions:
        if not any(edge.variant == name for edge in d.closing_edges):
            c.fault("edges", ("closing", "exceptions", name), "no node can be closed so")


def events(c: Context) -> None:
    """Work events and edges match both ways, and no two edges answer one event."""
    d, table = c.derived, c.spec.edges
    answered: dict[tuple[str, str], set[str]] = {}
    for index, row in enumerate(table.edges):
        answered.setdefault((row.lane, row.source), set()).add(row.event)
        work = table.work[row.lane].get(row.source)
        if work is not None and row.event not in work.events:
            text = f"the work of {row.source} never ends with {row.event}"
            c.fault("edges", ("edges", index), text)
    for edge in d.closing_edges:
        word = edge.event.partition(":")[0]
        if edge.variant not in table.closing.exceptions:
            continue
        taken = answered.setdefault((edge.lane, edge.source), set())
        if word not in table.work[edge.lane][edge.source].events:
            text = f"the work of {edge.source} never ends with {word}"
            c.fault("edges", ("closing", "exceptions", edge.variant), text)
        if edge.event in taken:
            text = f"{edge.lane} {edge.source} {edge.event} has another edge already"
            c.fault("edges", ("closing", "exceptions", edge.variant), text)
        taken |= {edge.event, word}
    for lane, nodes in table.work.items():
        for node, work in nodes.items():
            for event in work.events:
                if event not in answered.get((lane, node), set()):
                    c.fault("edges", ("work", lane, node), f"no edge answers the event {event}")


def reachable(c: Context) -> None:
    """Every node is entered, and every node whose evidence is certain leads to a closure."""
    d = c.derived
    flow = derive_windows(d)
    leads = {(edge.lane, edge.source) for edge in d.closing_edges}
    grown = True
    while grown:
        more = {(e.lane, e.source) for e in d.edges if (e.lane, e.target) in leads} - leads
        grown = bool(more)
        leads |= more
    for lane in d.lanes:
        for node in d.nodes[lane]:
            place = ("work", lane, node)
            if (lane, node) not in flow.entered:
                c.fault("edges", place, "no edge leads here and no step can leave its evidence in doubt")
            doubtful = any("U" in cell for cell in d.node_row(lane, node))
            if (lane, node) not in leads and not doubtful:
                c.fault("edges", place, "no edge leads from here to a closure")


def windows(c: Context) -> None:
    """Every instant of every edge shows a node, every mark is known, and every window has exactly one row."""
    d, rows = c.derived, c.spec.recovery.recovery
    flow = derive_windows(d)
    for edge, done in flow.blind:
        path: tuple[str | int, ...] = ("closing",)
        if edge.authored_index is not None:
            path = ("edges", edge.authored_index)
        elif edge.variant in c.spec.edges.closing.exceptions:
            path = ("closing", "exceptions", edge.variant or "")
        c.fault(
            "edges",
            path,
            f"after {done} steps the evidence shows neither source, target nor a closing window",
        )
    seen: dict[tuple[str, str, str], int] = {}
    for index, row in enumerate(rows):
        for node in row.nodes:
            for mark in row.marks:
                key = (row.lane, node, mark)
                if key in seen:
                    line = c.documents["recovery"].line("recovery", seen[key])
                    c.fault(
                        "recovery", ("recovery", index), f"{' '.join(key)} is answered on line {line} already"
                    )
                seen.setdefault(key, index)
    table = recovery_table(d)
    missing = sorted({(w.lane, w.node, w.mark) for w in flow.found} - set(table))
    for lane, node, mark in missing:
        c.fault(
            "recovery",
            ("recovery",),
            f"a run may end at {lane} {node} with mark {mark}, and no row answers that",
        )
