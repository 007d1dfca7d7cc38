"""The content of generated/*.py: which names each module has, with type and value.

Every module lists the spec files it is made from; a module changes only when one of them does. State and
node names are written in full. Order is the authored order where the contract gives it a meaning and
sorted otherwise.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import attrs

from .derive import Derived
from .flow import recovery_table, windows
from .model import ClosureVariant

WORDS = "tuple[str, ...]"


@attrs.frozen
class Entry:
    """One generated name."""

    name: str
    kind: str
    value: object


@attrs.frozen
class Module:
    """One generated module: what it says of itself, its sources, its TypedDicts and its names."""

    name: str
    about: str
    sources: tuple[str, ...]
    entries: Callable[[Derived], list[Entry]]
    classes: tuple[tuple[str, tuple[tuple[str, str], ...]], ...] = ()


def _evidence(d: Derived) -> list[Entry]:
    evidence = d.spec.evidence
    return [
        Entry("LETTERS", WORDS, d.letters),
        Entry("LETTER_NAMES", "Mapping[str, str]", {row.letter: row.name for row in evidence.letters}),
        Entry("LETTER_MEANING", "Mapping[str, str]", {row.letter: row.meaning for row in evidence.letters}),
        Entry("OBJECTS", WORDS, d.objects),
        Entry("OBJECT_NAMES", "Mapping[str, str]", {row.object: row.name for row in evidence.objects}),
        Entry("PERSISTENCE_ORDER", "Mapping[str, tuple[tuple[str, ...], ...]]", evidence.persistence_order),
        Entry("PREFIX3", WORDS, evidence.prefix3),
        Entry("MOVES", "Mapping[str, tuple[str, ...]]", d.moves),
    ]


def _presence(d: Derived) -> list[Entry]:
    presence = d.spec.presence
    matrix = {
        lane: {d.state(short): tuple(map(d.ordered, d.rows[lane, short])) for short in d.open_shorts}
        for lane in d.lanes
    }
    nodes = {lane: tuple(d.node(node) for node in d.nodes[lane]) for lane in d.lanes}
    quota = {lane: {d.node(node): d.node_quota(lane, node) for node in d.nodes[lane]} for lane in d.lanes}
    kinds = {d.node(node): kind for node in d.all_nodes if (kind := d.node_artifact(node)) is not None}
    splits = {d.state(short): (d.split_object[short], letters) for short, letters in d.split_letters.items()}
    windows_ = tuple(
        {
            "closing": row.closing,
            "lane": row.lane,
            "state": d.state(row.state),
            "cells": tuple(d.ordered(frozenset(cell.split("|"))) for cell in row.cells),
            "artifact": row.artifact,
            "prefix3": row.prefix3,
        }
        for row in presence.closing_windows
    )
    return [
        Entry("LANES", WORDS, d.lanes),
        Entry("LANE_SHORT", "Mapping[str, str]", {row.lane: row.short for row in presence.lanes}),
        Entry(
            "LANE_SOURCES", "Mapping[str, tuple[str, ...]]", {row.lane: row.sources for row in presence.lanes}
        ),
        Entry("LANE_MEANING", "Mapping[str, str]", {row.lane: row.meaning for row in presence.lanes}),
        Entry("STATES", WORDS, tuple(row.state for row in presence.states)),
        Entry("STATE_SHORT", "Mapping[str, str]", {row.state: row.short for row in presence.states}),
        Entry("STATE_MEANING", "Mapping[str, str]", {row.state: row.meaning for row in presence.states}),
        Entry("MATRIX", "Mapping[str, Mapping[str, tuple[str, ...]]]", matrix),
        Entry("SUBSTATES", "Mapping[str, tuple[str, tuple[str, ...]]]", splits),
        Entry("NODES", "Mapping[str, tuple[str, ...]]", nodes),
        Entry("NODE_QUOTA", "Mapping[str, Mapping[str, tuple[str, ...]]]", quota),
        Entry("NODE_ARTIFACT", "Mapping[str, str]", kinds),
        Entry("CLOSING_WINDOWS", "tuple[ClosingWindow, ...]", windows_),
    ]


def _closure_row(d: Derived, row: ClosureVariant) -> dict[str, object]:
    sources = row.only_sources or tuple(
        source for lane in d.spec.presence.lanes if lane.lane in row.lanes for source in lane.sources
    )
    return {
        "lanes": row.lanes,
        "sources": tuple(map(d.state, row.sources)),
        "producer": tuple(map(d.state, row.producer)),
        "exempt": row.exempt,
        "cells": tuple(map(d.ordered, d.closure_cells(row))),
        "artifact": row.artifact,
        "prefix3": row.prefix3,
        "quota_ids": row.quota_ids,
        "statuses": row.statuses,
        "codes": row.codes,
        "only_sources": sources,
    }


def _closures(d: Derived) -> list[Entry]:
    table = {row.variant: _closure_row(d, row) for row in d.spec.closures.closures}
    return [Entry("CLOSURES", "Mapping[str, ClosureRow]", table)]


def _codes(d: Derived) -> list[Entry]:
    codes = d.spec.codes
    by_quota = {
        d.node(node): {
            quota: d.node_codes(node, quota) for lane in d.lanes[:1] for quota in d.node_quota(lane, node)
        }
        for node in d.quota_split_nodes
    }
    return [
        Entry("CODE_CLASS", "Mapping[str, str]", d.code_class),
        Entry("CODES", WORDS, tuple(d.code_class)),
        Entry("STATUS_OF_CLASS", "Mapping[str, str]", codes.status_of_class),
        Entry("COMMON", WORDS, codes.common),
        Entry(
            "STAGE_CODES",
            "Mapping[str, tuple[str, ...]]",
            {d.state(s): codes.stages[s] for s in d.open_shorts},
        ),
        Entry(
            "NODE_CODES", "Mapping[str, tuple[str, ...]]", {d.node(n): d.node_codes(n) for n in d.all_nodes}
        ),
        Entry("NODE_QUOTA_CODES", "Mapping[str, Mapping[str, tuple[str, ...]]]", by_quota),
        Entry("DOUBT_CODES", "Mapping[str, str]", {d.state(s): codes.doubt_codes[s] for s in d.open_shorts}),
        Entry("TIES", WORDS, codes.ties),
    ]


def _terminal(d: Derived) -> list[Entry]:
    terminal = d.spec.terminal
    reserved = {d.state(short): pair for short, pair in terminal.trigger_pairs_reserved.items()}
    return [
        Entry("SCHEMA_VERSION", "int", terminal.schema_version),
        Entry("KEYS", WORDS, terminal.keys),
        Entry("STATUSES", WORDS, terminal.statuses),
        Entry("ARTIFACT_KINDS", WORDS, terminal.artifact_kinds),
        Entry("QUOTA_IDS", "Mapping[str, Mapping[str, str]]", terminal.quota_ids),
        Entry("TRIGGER_PAIRS", "Mapping[str, tuple[bool, bool | None]]", terminal.trigger_pairs),
        Entry("TRIGGER_PAIRS_RESERVED", "Mapping[str, tuple[bool, bool | None]]", reserved),
        Entry("NOTES", "Notes", attrs.asdict(terminal.notes)),
    ]


def _edges(d: Derived) -> list[Entry]:
    work = {
        lane: {
            d.node(n): (w.live, w.recovery, w.events)
            for n in d.nodes[lane]
            for w in [d.spec.edges.work[lane][n]]
        }
        for lane in d.lanes
    }
    edges = tuple((e.lane, d.node(e.source), e.event, d.node(e.target), e.guard, e.steps) for e in d.edges)
    events: dict[tuple[str, str], dict[str, str]] = {}
    for lane in d.lanes:
        for node in d.nodes[lane]:
            closing = {
                e.variant: e.event
                for e in d.closing_edges
                if (e.lane, e.source) == (lane, node) and e.variant
            }
            if closing:
                events[lane, d.node(node)] = closing
    edge_kind = "tuple[tuple[str, str, str, str, str | None, tuple[str, ...]], ...]"
    return [
        Entry("WORK", "Mapping[str, Mapping[str, tuple[str, str, tuple[str, ...]]]]", work),
        Entry("EDGES", edge_kind, edges),
        Entry("CLOSE_EVENTS", "Mapping[tuple[str, str], Mapping[str, str]]", events),
        Entry("GUARDS", "Mapping[str, str]", d.spec.edges.guards),
    ]


def _steps(d: Derived) -> list[Entry]:
    steps = {row.step: (row.kind, row.of, d.step_moves[row.step], row.marks) for row in d.spec.steps.steps}
    kind = "Mapping[str, tuple[str, str, tuple[tuple[str, str], ...], str | None]]"
    return [Entry("STEPS", kind, steps), Entry("JOURNAL_EVENTS", WORDS, d.spec.steps.journal_events)]


def _failures(d: Derived) -> list[Entry]:
    meaning = {row.failure: row.meaning for row in d.spec.failures.failures}
    table = {
        failure: {node if node == "run" else d.node(node): code for node, code in row.items()}
        for failure, row in sorted(d.failure_codes.items())
    }
    return [
        Entry("FAILURE_CODES", "Mapping[str, Mapping[str, str]]", table),
        Entry("FAILURE_MEANING", "Mapping[str, str]", dict(sorted(meaning.items()))),
    ]


def _keep(d: Derived) -> list[Entry]:
    actions: dict[str, dict[str, dict[str, dict[str, str]]]] = {}
    reasons: dict[str, dict[str, dict[str, dict[str, str]]]] = {}
    for (lane, node, quota, code), (action, why) in d.keep.items():
        for table, word in ((actions, action), (reasons, why)):
            table.setdefault(lane, {}).setdefault(d.node(node), {}).setdefault(quota, {})[code] = word
    kind = "Mapping[str, Mapping[str, Mapping[str, Mapping[str, str]]]]"
    return [Entry("KEEP_OR_CLOSE", kind, actions), Entry("KEEP_WHY", kind, reasons)]


def _recovery(d: Derived) -> list[Entry]:
    found = tuple((w.lane, w.edge, w.steps_done, d.node(w.node), w.mark) for w in windows(d).found)
    table: dict[str, dict[str, dict[str, str]]] = {lane: {} for lane in d.lanes}
    for (lane, node, mark), action in recovery_table(d).items():
        table[lane].setdefault(d.node(node), {})[mark] = action
    return [
        Entry("MARKS", WORDS, d.spec.recovery.marks),
        Entry("ACTIONS", WORDS, d.spec.recovery.actions),
        Entry("WINDOWS", "tuple[tuple[str, int, int, str, str], ...]", found),
        Entry("RECOVERY", "Mapping[str, Mapping[str, Mapping[str, str]]]", table),
    ]


def _ledger(d: Derived) -> list[Entry]:
    ledger = d.spec.ledger
    types = ledger.event_types
    return [
        Entry("AUTOMATON", "Mapping[str, Mapping[str, str]]", ledger.automaton),
        Entry(
            "EVENT_QUOTA", "Mapping[str, str]", {k: t.quota_state for k, t in types.items() if t.quota_state}
        ),
        Entry("EVENT_OBJECT", "Mapping[str, str]", {k: t.object for k, t in types.items() if t.object}),
        Entry(
            "EVENT_ARTIFACT",
            "Mapping[str, tuple[str, ...]]",
            {k: t.artifact for k, t in types.items() if t.artifact},
        ),
        Entry("OUTSIDE_FAMILIES", WORDS, ledger.outside_families),
        Entry("COUNTED_AS_SPENT", WORDS, ledger.counted_as_spent),
    ]


def _governance(d: Derived) -> list[Entry]:
    table = d.spec.governance
    statuses = tuple((row.status, row.exit, row.when, row.meaning) for row in table.run_statuses)
    return [
        Entry("RUN_STATUSES", "tuple[tuple[str, int, str, str], ...]", statuses),
        Entry("STOP_WORDS", WORDS, table.stop_words),
        Entry("COMMAND_EXITS", "Mapping[str, int]", table.command_exits),
        Entry("ERROR_EXITS", "Mapping[str, int]", table.error_exits),
        Entry("BREAKER", "Mapping[str, int]", {row.code: row.at for row in table.breaker}),
        Entry("GUARD_RAILS", "Mapping[str, int]", table.guard_rails),
    ]


def _pdf(d: Derived) -> list[Entry]:
    findings = d.spec.pdf.findings
    return [
        Entry(
            "PDF_FINDINGS", "tuple[tuple[str, str], ...]", tuple((row.finding, row.code) for row in findings)
        ),
        Entry("PDF_FINDING_MEANING", "Mapping[str, str]", {row.finding: row.why for row in findings}),
    ]


def frozen(value: Any) -> Any:
    """Lists become tuples, all the way down."""
    if isinstance(value, list):
        return tuple(frozen(part) for part in value)
    if isinstance(value, dict):
        return {key: frozen(part) for key, part in value.items()}
    return value


def full_witness(d: Derived, witness: dict[str, Any]) -> dict[str, Any]:
    """A ruling's witness with full state and node names."""
    at = {"verdict": 1, "closure": 1, "codes": 0, "keep": 1}
    row = {kind: frozen(value) for kind, value in witness.items()}
    for kind, index in at.items():
        if kind in row and isinstance(row[kind], tuple) and len(row[kind]) > index:
            value = row[kind]
            row[kind] = (*value[:index], d.node(str(value[index])), *value[index + 1 :])
    return row


def _rulings(d: Derived) -> list[Entry]:
    rows = tuple(
        {
            "id": row.id,
            "clause": row.clause,
            "text": row.text,
            "witness": tuple(full_witness(d, witness) for witness in row.witness),
        }
        for row in d.spec.rulings.rulings
    )
    return [Entry("RULINGS", "tuple[Ruling, ...]", rows)]


def _unreachable(d: Derived) -> list[Entry]:
    rows = tuple(
        {
            "kind": row.kind,
            "variant": row.variant,
            "sources": tuple(map(d.state, row.sources)),
            "prefixes": row.prefixes,
            "nodes": tuple(map(d.node, row.nodes)),
            "reason": row.reason,
        }
        for row in d.spec.unreachable.known_unreachable
    )
    return [Entry("KNOWN_UNREACHABLE", "tuple[Unreachable, ...]", rows)]


_WINDOW_CLASS = (
    "ClosingWindow",
    (
        ("closing", "str"),
        ("lane", "str"),
        ("state", "str"),
        ("cells", WORDS),
        ("artifact", "str"),
        ("prefix3", WORDS),
    ),
)
_CLOSURE_CLASS = (
    "ClosureRow",
    (
        ("lanes", WORDS),
        ("sources", WORDS),
        ("producer", WORDS),
        ("exempt", WORDS),
        ("cells", WORDS),
        ("artifact", "str | None"),
        ("prefix3", WORDS),
        ("quota_ids", "str"),
        ("statuses", WORDS),
        ("codes", "Mapping[str, tuple[str, ...] | str]"),
        ("only_sources", WORDS),
    ),
)
_NOTES_CLASS = (
    "Notes",
    (
        ("SUCCESS", "Mapping[str, str]"),
        ("success_uncertain_trigger", "str"),
        ("DUPLICATE", "str"),
        ("STOPPED", "str"),
        ("FAILED", "str"),
    ),
)
_RULING_CLASS = (
    "Ruling",
    (("id", "str"), ("clause", "str"), ("text", "str"), ("witness", "tuple[Mapping[str, object], ...]")),
)
_UNREACHABLE_CLASS = (
    "Unreachable",
    (
        ("kind", "str"),
        ("variant", "str"),
        ("sources", WORDS),
        ("prefixes", WORDS),
        ("nodes", WORDS),
        ("reason", "str"),
    ),
)

_FLOW = ("closures", "edges", "evidence", "presence", "steps")

MODULES: tuple[Module, ...] = (
    Module(
        "closures",
        "The exact closure variants.",
        ("closures", "evidence", "presence"),
        _closures,
        (_CLOSURE_CLASS,),
    ),
    Module(
        "codes",
        "The codes, their classes, and where an item may stop with each.",
        ("codes", "evidence", "presence"),
        _codes,
    ),
    Module(
        "edges", "The item machine: work at each node, and every edge with its durable steps.", _FLOW, _edges
    ),
    Module("evidence", "Letters, objects and moves of an item's evidence.", ("evidence",), _evidence),
    Module("failures", "Stage × failure → code.", ("codes", "evidence", "failures", "presence"), _failures),
    Module(
        "governance", "Run status, exit codes, circuit breaker and guard rails.", ("governance",), _governance
    ),
    Module(
        "keep",
        "What becomes of a stopped item: kept, or closed at once.",
        ("closures", "codes", "evidence", "keep", "presence", "terminal"),
        _keep,
    ),
    Module("ledger", "The life of a quota family.", ("ledger",), _ledger),
    Module(
        "pdf",
        "What the PDF check can find, in order of judgement, and the code of each finding.",
        ("pdf",),
        _pdf,
    ),
    Module(
        "presence",
        "The two expected-presence matrices and the nodes.",
        ("evidence", "presence"),
        _presence,
        (_WINDOW_CLASS,),
    ),
    Module("recovery", "Crash windows and what recovery does in each.", (*_FLOW, "recovery"), _recovery),
    Module("rulings", "The rulings on the contract.", ("presence", "rulings"), _rulings, (_RULING_CLASS,)),
    Module("steps", "Every durable step.", ("evidence", "steps"), _steps),
    Module(
        "terminal",
        "The public item: keys, ids, trigger pairs and notes.",
        ("presence", "terminal"),
        _terminal,
        (_NOTES_CLASS,),
    ),
    Module(
        "unreachable",
        "What the contract accepts and no run reaches.",
        ("presence", "unreachable"),
        _unreachable,
        (_UNREACHABLE_CLASS,),
    ),
)
