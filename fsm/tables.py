"""The contract as one value.

Every function of this package takes a `Tables` and defaults to the generated one, so that a changed contract
can be tried, mutated or compared without writing a file. Nothing here decides anything.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property, lru_cache
from typing import Any

import attrs

from generated import (
    closures,
    codes,
    edges,
    evidence,
    failures,
    governance,
    keep,
    ledger,
    presence,
    recovery,
    steps,
    terminal,
)


@attrs.frozen(eq=False, slots=False, kw_only=True)
class Tables:
    """All tables the running program reads; see `spec/` for what each one says."""

    letters: tuple[str, ...]
    objects: tuple[str, ...]
    prefix3: tuple[str, ...]
    moves: Mapping[str, tuple[str, ...]]
    lanes: tuple[str, ...]
    lane_sources: Mapping[str, tuple[str, ...]]
    states: tuple[str, ...]
    matrix: Mapping[str, Mapping[str, tuple[str, ...]]]
    substates: Mapping[str, tuple[str, tuple[str, ...]]]
    nodes: Mapping[str, tuple[str, ...]]
    node_quota: Mapping[str, Mapping[str, tuple[str, ...]]]
    node_artifact: Mapping[str, str]
    closing_windows: tuple[Mapping[str, Any], ...]
    closures: Mapping[str, Mapping[str, Any]]
    code_class: Mapping[str, str]
    status_of_class: Mapping[str, str]
    node_codes: Mapping[str, tuple[str, ...]]
    node_quota_codes: Mapping[str, Mapping[str, tuple[str, ...]]]
    doubt_codes: Mapping[str, str]
    ties: tuple[str, ...]
    schema_version: int
    keys: tuple[str, ...]
    quota_ids: Mapping[str, Mapping[str, str]]
    trigger_pairs: Mapping[str, tuple[bool, bool | None]]
    trigger_pairs_reserved: Mapping[str, tuple[bool, bool | None]]
    notes: Mapping[str, Any]
    work: Mapping[str, Mapping[str, tuple[str, str, tuple[str, ...]]]]
    edges: tuple[tuple[str, str, str, str, str | None, tuple[str, ...]], ...]
    close_events: Mapping[tuple[str, str], Mapping[str, str]]
    steps: Mapping[str, tuple[str, str, tuple[tuple[str, str], ...], str | None]]
    failure_codes: Mapping[str, Mapping[str, str]]
    keep_or_close: Mapping[str, Mapping[str, Mapping[str, Mapping[str, str]]]]
    recovery: Mapping[str, Mapping[str, Mapping[str, str]]]
    automaton: Mapping[str, Mapping[str, str]]
    run_statuses: tuple[tuple[str, int, str, str], ...]
    breaker: Mapping[str, int]
    guard_rails: Mapping[str, int]

    @staticmethod
    def default() -> Tables:
        """The tables compiled from `spec/`."""
        return _default()

    @cached_property
    def state_set(self) -> frozenset[str]:
        """All state names, P10 included."""
        return frozenset(self.states)

    @cached_property
    def closed_state(self) -> str:
        """The only state that has no row: P10."""
        return self.states[-1]

    def node_of(self, state: str, presence: str) -> str:
        """The node of a presence: its state, with the letter of the object that splits it, if one does."""
        split = self.substates.get(state)
        if split is None:
            return state
        letter = presence[self.objects.index(split[0])]
        return f"{state}-{letter}"

    @staticmethod
    def state_of(node: str) -> str:
        """The state of a node."""
        return node.split("-", 1)[0]


@lru_cache(maxsize=1)
def _default() -> Tables:
    return Tables(
        letters=evidence.LETTERS,
        objects=evidence.OBJECTS,
        prefix3=evidence.PREFIX3,
        moves=evidence.MOVES,
        lanes=presence.LANES,
        lane_sources=presence.LANE_SOURCES,
        states=presence.STATES,
        matrix=presence.MATRIX,
        substates=presence.SUBSTATES,
        nodes=presence.NODES,
        node_quota=presence.NODE_QUOTA,
        node_artifact=presence.NODE_ARTIFACT,
        closing_windows=presence.CLOSING_WINDOWS,
        closures=closures.CLOSURES,
        code_class=codes.CODE_CLASS,
        status_of_class=codes.STATUS_OF_CLASS,
        node_codes=codes.NODE_CODES,
        node_quota_codes=codes.NODE_QUOTA_CODES,
        doubt_codes=codes.DOUBT_CODES,
        ties=codes.TIES,
        schema_version=terminal.SCHEMA_VERSION,
        keys=terminal.KEYS,
        quota_ids=terminal.QUOTA_IDS,
        trigger_pairs=terminal.TRIGGER_PAIRS,
        trigger_pairs_reserved=terminal.TRIGGER_PAIRS_RESERVED,
        notes=terminal.NOTES,
        work=edges.WORK,
        edges=edges.EDGES,
        close_events=edges.CLOSE_EVENTS,
        steps=steps.STEPS,
        failure_codes=failures.FAILURE_CODES,
        keep_or_close=keep.KEEP_OR_CLOSE,
        recovery=recovery.RECOVERY,
        automaton=ledger.AUTOMATON,
        run_statuses=governance.RUN_STATUSES,
        breaker=governance.BREAKER,
        guard_rails=governance.GUARD_RAILS,
    )
