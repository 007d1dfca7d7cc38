"""Replays recorded items against a changed contract: which of them would now close differently.

Reads `runs/*/items/*/terminal.json` of a library (design 9) and nothing else; writes nothing. An item is
judged by what its terminal says: source state, closed presence, status, code, quota state and source.
"""

from __future__ import annotations

import json
from collections import deque
from pathlib import Path
from typing import Any

import attrs

from tools.compile.derive import Derived

from .compare import accepted


@attrs.frozen
class Recorded:
    """One terminal.json, as far as closing needs it."""

    path: str
    item_id: str
    source: str
    source_state: str
    presence: str
    status: str
    code: str
    quota_state: str
    variant: str


@attrs.frozen
class Changed:
    """A recorded item, what becomes of it now, and the shortest trace that closed it so before."""

    path: str
    item_id: str
    was: str
    now: str
    trace: tuple[str, ...]


def _item(path: Path, library: Path) -> Recorded:
    data: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    item = data["item"]
    success = "NONE" if item["status"] == "SUCCESS" else str(item["stop_code"])
    return Recorded(
        path.relative_to(library).as_posix(),
        item["item_id"],
        item["source"],
        data["source_state"],
        data["presence"],
        item["status"],
        success,
        item["quota_state"],
        data["closure_variant"],
    )


def read_library(library: Path) -> tuple[list[Recorded], list[str]]:
    """All recorded terminals, by path, and a sentence for each that could not be read."""
    items: list[Recorded] = []
    unread: list[str] = []
    for path in sorted(library.glob("runs/*/items/*/terminal.json")):
        try:
            items.append(_item(path, library))
        except (OSError, ValueError, KeyError, TypeError) as error:
            unread.append(f"{path.relative_to(library).as_posix()}: {type(error).__name__}: {error}")
    return items, unread


def lane_of(d: Derived, source: str) -> str | None:
    """The lane that a source word belongs to."""
    return next((row.lane for row in d.spec.presence.lanes if source in row.sources), None)


def fate(d: Derived, item: Recorded) -> str:
    """What the contract makes of the item: a variant, or a sentence for why none takes it."""
    lane = lane_of(d, item.source)
    if lane is None:
        return f"no lane has the source {item.source}"
    short = next((short for short, full in d.full.items() if full == item.source_state), None)
    if short is None:
        return f"there is no state {item.source_state}"
    a_letter = item.presence[3:4]
    pattern = d.spec.terminal.quota_ids.get(item.quota_state, {}).get(a_letter)
    for variant in d.spec.closures.closures:
        artifact = variant.artifact if a_letter == "V" else None
        given = (lane, item.source_state, item.presence, artifact or "-", item.status)
        sources = variant.only_sources or (item.source,)
        if given not in accepted(d, variant) or pattern != variant.quota_ids or item.source not in sources:
            continue
        if item.status not in variant.codes or not _code_fits(d, variant.codes[item.status], short, item):
            continue
        action = next(
            (
                action
                for (of_lane, node, quota, code), (action, _) in d.keep.items()
                if (of_lane, node.partition("-")[0], quota, code)
                == (lane, short, item.quota_state, item.code)
                and node.partition("-")[2]
                in ("", item.presence[d.objects.index(d.split_object.get(short, "S"))])
            ),
            "close",
        )
        return (
            variant.variant
            if action == "close"
            else f"kept ({variant.variant} when closed by a person or by age)"
        )
    return "no closure accepts it"


def _code_fits(d: Derived, codes: tuple[str, ...] | str, short: str, item: Recorded) -> bool:
    if codes != "stage":
        return item.code in codes
    split = d.split_object.get(short)
    node = f"{short}-{item.presence[d.objects.index(split)]}" if split else short
    return item.code in d.node_codes(node, item.quota_state)


def shortest_trace(d: Derived, lane: str, state: str, variant: str) -> tuple[str, ...]:
    """The fewest events that lead from the lane's first node to the closure; empty when no path does."""
    start = d.nodes[lane][0]
    queue: deque[tuple[str, tuple[str, ...]]] = deque([(start, ())])
    seen = {start}
    while queue:
        node, trace = queue.popleft()
        for edge in d.edges:
            if (edge.lane, edge.source) != (lane, node):
                continue
            if edge.variant == variant and d.state(node.partition("-")[0]) == state:
                return (*trace, edge.event)
            if edge.variant is None and edge.target not in seen:
                seen.add(edge.target)
                queue.append((edge.target, (*trace, edge.event)))
    return ()


def replay(old: Derived, new: Derived, items: list[Recorded]) -> list[Changed]:
    """Items whose fate differs between the two contracts."""
    found: list[Changed] = []
    for item in items:
        was, now = fate(old, item), fate(new, item)
        lane = lane_of(old, item.source)
        if was != now:
            trace = shortest_trace(old, lane, item.source_state, item.variant) if lane else ()
            found.append(Changed(item.path, item.item_id, was, now, trace))
    return found
