"""What closures, codes and keep-or-close say together: no input with two closures, no closure out of reach,
no stop without a fate, no failure with a code that its place does not have.
"""

from __future__ import annotations

from itertools import combinations

from .context import Context
from .derive import Derived
from .model import ClosureVariant


def _pairs(d: Derived, one: ClosureVariant, other: ClosureVariant) -> str | None:
    """An input that both variants accept, in words, or None."""
    statuses = [status for status in one.statuses if status in other.statuses]
    prefixes = [prefix for prefix in one.prefix3 if prefix in other.prefix3]
    cells = [a & b for a, b in zip(d.closure_cells(one), d.closure_cells(other), strict=True)]
    if one.artifact != other.artifact:
        cells[d.objects.index("A")] -= {"V"}  # a verified A has one kind, and they want two
    if not statuses or not prefixes or not all(cells):
        return None
    for lane in one.lanes:
        for source in one.sources:
            if lane not in other.lanes or source not in other.sources:
                continue
            row = d.rows[lane, source]
            fit = [
                cell if name in one.exempt and name in other.exempt else cell & row[at]
                for at, (name, cell) in enumerate(zip(d.objects[:4], cells, strict=True))
            ]
            if all(fit):
                letters = "".join(d.ordered(cell)[0] for cell in fit)
                return f"{lane} {source} {letters}{prefixes[0]}V {statuses[0]}"
    return None


def overlap(c: Context) -> None:
    """No pair of variants can both accept one input."""
    rows = list(enumerate(c.spec.closures.closures))
    for (_, one), (index, other) in combinations(rows, 2):
        witness = _pairs(c.derived, one, other)
        if witness is not None:
            c.fault("closures", ("closures", index), f"accepts what {one.variant} accepts: {witness}")


def reach(c: Context) -> None:
    """Each source and prefix of a variant is produced by an edge or known to be unreachable, not both."""
    d = c.derived
    excused: dict[tuple[str, str], int] = {}
    for at, row in enumerate(c.spec.unreachable.known_unreachable):
        for word in (*row.sources, *row.prefixes):
            excused[row.variant, word] = at
    for index, variant in enumerate(c.spec.closures.closures):
        produced: dict[str, set[str]] = {source: set() for source in variant.sources}
        for edge in d.closing_edges:
            if edge.variant == variant.variant:
                found = d.closed_presences(variant, edge.lane, edge.source)
                produced[edge.source.partition("-")[0]] |= {presence[4:7] for presence in found}
        reached = {source for source, prefixes in produced.items() if prefixes}
        prefixes = {prefix for found_prefixes in produced.values() for prefix in found_prefixes}
        for key, words, there in (
            ("sources", variant.sources, reached),
            ("prefix3", variant.prefix3, prefixes),
        ):
            for word in words:
                at_ = excused.get((variant.variant, word))
                if word not in there and at_ is None:
                    text = f"no run closes with {word} and known_unreachable does not list it"
                    c.fault("closures", ("closures", index, key), text)
                if word in there and at_ is not None:
                    c.fault(
                        "unreachable", ("known_unreachable", at_), f"{variant.variant} is reached with {word}"
                    )
        for source in variant.producer:
            if source not in reached:
                text = f"the producer cannot close from {source}: no node of it fits the cells and prefix"
                c.fault("closures", ("closures", index, "producer"), text)


def quota_patterns(c: Context) -> None:
    """At every node that a variant accepts, some quota state gives the variant's id pattern."""
    d = c.derived
    patterns = c.spec.terminal.quota_ids
    for lane in d.lanes:
        for node in d.nodes[lane]:
            for letter in sorted(d.node_row(lane, node)[d.objects.index("A")]):
                for quota in d.node_quota(lane, node):
                    if letter not in patterns.get(quota, {}):
                        text = f"{lane} {node} may carry {quota} with A={letter}, which has no id pattern"
                        c.fault("terminal", ("quota_ids", quota), text)
    for index, variant in enumerate(c.spec.closures.closures):
        for lane in variant.lanes:
            for source in variant.sources:
                _pattern(c, index, lane, source)


def _pattern(c: Context, index: int, lane: str, source: str) -> None:
    d, variant = c.derived, c.spec.closures.closures[index]
    fitting = [node for node in d.nodes_of(lane, source) if d.closure_fits(variant, lane, node) is not None]
    a_letters = {letter for node in fitting for letter in d.node_row(lane, node)[d.objects.index("A")]}
    a_letters &= d.closure_cells(variant)[d.objects.index("A")]
    given = {
        c.spec.terminal.quota_ids.get(quota, {}).get(letter)
        for node in fitting
        for quota in d.node_quota(lane, node)
        for letter in a_letters
    }
    if fitting and variant.quota_ids not in given:
        text = f"no quota state of {lane} {source} gives the id pattern {variant.quota_ids}"
        c.fault("closures", ("closures", index, "quota_ids"), text)


def keep_or_close(c: Context) -> None:
    """For every stop that a closure accepts exactly one row decides, and every row decides something.

    Keeping is not written where it follows by itself.
    """
    d = c.derived
    rows = c.spec.keep.keep_or_close
    used: set[int] = set()
    open_stops: dict[tuple[str, str, str], list[str]] = {}
    for lane, node, quota, code in d.stops:
        accepting = d.closures_of_stop(lane, node, quota, code)
        hits = [index for index, row in enumerate(rows) if d.keep_row_covers(row, lane, node, quota, code)]
        if not accepting:
            for index in hits:
                if rows[index].codes != "all":
                    text = f"no closure accepts {code} at {node} {quota}; it is kept without a row"
                    c.fault("keep", ("keep_or_close", index), text)
            continue
        used |= set(hits)
        if len(accepting) > 1:
            c.fault(
                "keep", ("keep_or_close",), f"{' and '.join(accepting)} both accept {code} at {node} {quota}"
            )
        if not hits:
            open_stops.setdefault((lane, node, quota), []).append(code)
        for index in hits[1:]:
            line = c.documents["keep"].line("keep_or_close", hits[0])
            text = f"{lane} {node} {quota} {code} is decided on line {line} already"
            c.fault("keep", ("keep_or_close", index), text)
    for (lane, node, quota), codes in open_stops.items():
        c.fault("keep", ("keep_or_close",), f"no row decides {lane} {node} {quota}: {', '.join(codes)}")
    for index in range(len(rows)):
        if index not in used:
            c.fault(
                "keep",
                ("keep_or_close", index),
                "this row decides nothing: no closure accepts any of its stops",
            )


def failure_domains(c: Context) -> None:
    """A failure's code is one that an item may stop with at that place."""
    d = c.derived
    for index, row in enumerate(c.spec.failures.failures):
        path = ("failures", index)
        for place, code in row.at.items():
            if place in c.spec.failures.groups:
                places = [state for state in c.spec.failures.groups[place] if state not in row.at]
            else:
                places = [place]
            for name in places:
                nodes = [node for node in d.all_nodes if name in (node, node.partition("-")[0])]
                if nodes and not any(code in d.node_codes(node) for node in nodes):
                    c.fault("failures", path, f"an item cannot stop with {code} at {name}")
