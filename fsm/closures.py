"""Matching a closed presence to its one closure variant (V006 §2.4; rulings R4-R9)."""

from __future__ import annotations

from typing import Any

from fsm.errors import ContractError
from fsm.presence import check_name, check_presence
from fsm.tables import Tables
from generated.terminal import ARTIFACT_KINDS, STATUSES


def match_closure(
    lane: str,
    source_state: str,
    presence: str,
    artifact: str | None,
    status: str,
    tables: Tables | None = None,
) -> str | None:
    """The variant that accepts this closing, or None.

    `presence` is the item as closed (Z is V); `artifact` is the kind of A when it is verified. Codes are not
    looked at here. Raises ContractError for unknown names, P10 as a source or a malformed presence.
    """
    tables = tables or Tables.default()
    check_name("lane", lane, tables.matrix)
    check_name("source state", source_state, tables.state_set)
    if source_state == tables.closed_state:
        raise ContractError("a closed item is not a source")
    check_presence(presence, tables)
    if artifact is not None:
        check_name("artifact kind", artifact, ARTIFACT_KINDS)
    check_name("status", status, STATUSES)
    for variant, closure in tables.closures.items():
        if _accepts(closure, lane, source_state, presence, artifact, status, tables):
            return variant
    return None


def _accepts(
    closure: Any, lane: str, source: str, presence: str, artifact: str | None, status: str, tables: Tables
) -> bool:
    if lane not in closure["lanes"] or source not in closure["sources"] or status not in closure["statuses"]:
        return False
    if artifact != closure["artifact"] or presence[-1] != "V":
        return False
    row = tables.matrix[lane][source]
    for name, letter, cell, source_cell in zip(tables.objects, presence, closure["cells"], row, strict=False):
        if letter not in cell or (letter not in source_cell and name not in closure["exempt"]):
            return False
    prefix = presence[4:7]
    return prefix in closure["prefix3"] and len(prefix.rstrip("N")) >= source_prefix_length(
        lane, source, tables
    )


def source_prefix_length(lane: str, source: str, tables: Tables) -> int:
    """How many of M, D, T the row of `source` has verified: a closing never shows fewer (ruling R5)."""
    return sum(cell == "V" for cell in tables.matrix[lane][source][4:7])


def source_presence(lane: str, source: str, presence: str, tables: Tables) -> str:
    """The presence the item had in `source` before it was closed as `presence`.

    Z and what only a closing adds is undone. F falls back to N where the row of the source has no other
    letter (C02 from P05).
    """
    row = tables.matrix[lane][source]
    letters = [
        letter if position < 4 and letter in cell else ("V" if cell == "V" else "N")
        for position, (letter, cell) in enumerate(zip(presence, row, strict=True))
    ]
    return "".join(letters)
