"""The shape of the spec files as attrs classes, filled by cattrs strictly.

A field without default is a key that must be there; a key that is no field is refused. The schema is these
classes and nothing else. Words keep the short names of the files (`P02`, `P03-V`); `derive` turns them
into full names.
"""

from __future__ import annotations

from typing import Any

import attrs
import cattrs
from cattrs.errors import (
    AttributeValidationNote,
    BaseValidationError,
    ForbiddenExtraKeysError,
    IterableValidationNote,
)

from .read import Document, Fault, KeyPath

Words = tuple[str, ...]
CodeSet = Words | str  # a tuple of codes, or the word "stage"


@attrs.frozen
class Letter:
    letter: str
    name: str
    meaning: str


@attrs.frozen
class EvidenceObject:
    object: str
    name: str


@attrs.frozen
class Evidence:
    letters: tuple[Letter, ...]
    objects: tuple[EvidenceObject, ...]
    persistence_order: dict[str, tuple[Words, ...]]
    prefix3: Words
    moves: dict[str, Words]


@attrs.frozen
class Lane:
    lane: str
    short: str
    sources: Words
    meaning: str


@attrs.frozen
class State:
    short: str
    state: str
    meaning: str


@attrs.frozen
class Substate:
    state: str
    object: str
    letter: str
    quota: Words
    clause: str
    artifact: str | None = None


@attrs.frozen
class ClosingWindow:
    closing: str
    lane: str
    state: str
    cells: Words
    artifact: str
    prefix3: Words


@attrs.frozen
class Presence:
    lanes: tuple[Lane, ...]
    states: tuple[State, ...]
    matrix: dict[str, dict[str, Words]]
    substates: tuple[Substate, ...]
    quota_of_state: dict[str, Words]
    artifact_of_state: dict[str, str]
    closing_windows: tuple[ClosingWindow, ...]


@attrs.frozen
class ClosureVariant:
    variant: str
    lanes: Words
    sources: Words
    producer: Words
    cells: dict[str, str]
    prefix3: Words
    quota_ids: str
    statuses: Words
    codes: dict[str, CodeSet]
    exempt: Words = ()
    artifact: str | None = None
    only_sources: Words = ()


@attrs.frozen
class Closures:
    closures: tuple[ClosureVariant, ...]


@attrs.frozen
class NodeCodes:
    node: str
    only: Words | None = None
    within_stage: bool = False
    of_class: str | None = None
    by_quota: dict[str, Words] = attrs.field(factory=dict)


@attrs.frozen
class Codes:
    classes: dict[str, Words]
    status_of_class: dict[str, str]
    common: Words
    stages: dict[str, Words]
    substates: tuple[NodeCodes, ...]
    doubt_codes: dict[str, str]
    ties: Words


@attrs.frozen
class Notes:
    SUCCESS: dict[str, str]
    success_uncertain_trigger: str
    DUPLICATE: str
    STOPPED: str
    FAILED: str


Pair = tuple[bool, bool | None]


@attrs.frozen
class Terminal:
    schema_version: int
    keys: Words
    statuses: Words
    artifact_kinds: Words
    quota_ids: dict[str, dict[str, str]]
    trigger_pairs: dict[str, Pair]
    trigger_pairs_reserved: dict[str, Pair]
    notes: Notes


@attrs.frozen
class Work:
    live: str
    recovery: str
    events: Words


@attrs.frozen
class Edge:
    lane: str
    source: str
    event: str
    target: str
    steps: Words
    guard: str | None = None


@attrs.frozen
class ClosingException:
    event: str
    steps: Words


@attrs.frozen
class Closing:
    steps: Words
    exceptions: dict[str, ClosingException]


@attrs.frozen
class Edges:
    work: dict[str, dict[str, Work]]
    edges: tuple[Edge, ...]
    closing: Closing
    guards: dict[str, str]


@attrs.frozen
class Step:
    step: str
    kind: str
    of: str
    moves: dict[str, str] = attrs.field(factory=dict)
    marks: str | None = None


@attrs.frozen
class Steps:
    steps: tuple[Step, ...]
    journal_events: Words


@attrs.frozen
class Failure:
    failure: str
    at: dict[str, str]
    meaning: str


@attrs.frozen
class Failures:
    groups: dict[str, Words]
    failures: tuple[Failure, ...]


@attrs.frozen
class KeepRow:
    lane: str
    nodes: Words
    codes: CodeSet
    action: str
    why: str
    quota: Words = ()


@attrs.frozen
class Keep:
    keep_or_close: tuple[KeepRow, ...]


@attrs.frozen
class RecoveryRow:
    lane: str
    nodes: Words
    marks: Words
    action: str


@attrs.frozen
class Recovery:
    marks: Words
    actions: Words
    recovery: tuple[RecoveryRow, ...]


@attrs.frozen
class EventType:
    quota_state: str | None = None
    object: str | None = None
    artifact: Words = ()


@attrs.frozen
class Ledger:
    automaton: dict[str, dict[str, str]]
    event_types: dict[str, EventType]
    outside_families: Words
    counted_as_spent: Words


@attrs.frozen
class RunStatus:
    status: str
    exit: int
    when: str
    meaning: str


@attrs.frozen
class BreakerRow:
    code: str
    at: int


@attrs.frozen
class Governance:
    run_statuses: tuple[RunStatus, ...]
    stop_words: Words
    command_exits: dict[str, int]
    error_exits: dict[str, int]
    breaker: tuple[BreakerRow, ...]
    guard_rails: dict[str, int]


@attrs.frozen
class Finding:
    finding: str
    code: str
    why: str


@attrs.frozen
class Pdf:
    schema_version: int
    findings: tuple[Finding, ...]


@attrs.frozen
class Ruling:
    id: str
    clause: str
    text: str
    witness: tuple[dict[str, Any], ...]


@attrs.frozen
class Rulings:
    rulings: tuple[Ruling, ...]


@attrs.frozen
class Unreachable:
    kind: str
    variant: str
    reason: str
    sources: Words = ()
    prefixes: Words = ()
    nodes: Words = ()


@attrs.frozen
class UnreachableList:
    known_unreachable: tuple[Unreachable, ...]


@attrs.frozen
class Spec:
    """All spec files, one field a file. A file whose structure is broken is None; its checks are skipped."""

    closures: Closures
    codes: Codes
    edges: Edges
    evidence: Evidence
    failures: Failures
    governance: Governance
    keep: Keep
    ledger: Ledger
    pdf: Pdf
    presence: Presence
    recovery: Recovery
    rulings: Rulings
    steps: Steps
    terminal: Terminal
    unreachable: UnreachableList


_CLASS_OF: dict[str, Any] = {field.name: field.type for field in attrs.fields(attrs.resolve_types(Spec))}
FILES: tuple[str, ...] = tuple(_CLASS_OF)


def _exactly(kind: type) -> Any:
    def structure(value: Any, _: Any) -> Any:
        if type(value) is not kind:
            raise ValueError(f"expected {_WORD[kind]}, found {value!r}")
        return value

    return structure


_WORD = {str: "a word", int: "a whole number", bool: "true or false"}


def _list(value: Any) -> Any:
    if not isinstance(value, list):
        raise ValueError(f"expected a list, found {value!r}")
    return value


def _converter() -> cattrs.Converter:
    converter = cattrs.Converter(forbid_extra_keys=True, detailed_validation=True)
    for kind in (str, int, bool):
        converter.register_structure_hook(kind, _exactly(kind))
    words_hook = converter.get_structure_hook(Words)
    converter.register_structure_hook_func(
        lambda kind: kind == Words, lambda value, kind: words_hook(_list(value), kind)
    )

    def code_set(value: Any, _: Any) -> Any:
        return value if value == "stage" or value == "all" else words_hook(_list(value), Words)

    converter.register_structure_hook_func(lambda kind: kind == CodeSet, code_set)
    return converter


_CONVERTER = _converter()


def label(document: Document, path: KeyPath) -> str:
    """What people call the place: list items by the word that names them, closures by their number."""
    parts: list[str] = []
    data = document.data
    for key in path:
        try:
            data = data[key]
        except (KeyError, IndexError, TypeError):
            data = None
        if isinstance(key, str):
            parts.append(key)
        elif name := _row_name(data):
            parts[-1:] = [name]
        else:
            parts.append(str(key + 1))
    return ".".join(parts)


def _row_name(row: object) -> str:
    """What tells a list item from its neighbours: its first value, or up to three after a lane or state."""
    if not isinstance(row, dict):
        return ""
    words: list[str] = []
    for value in row.values():
        if not isinstance(value, str):
            break
        words.append(value)
    first_key = next(iter(row), "")
    return " ".join(words[:3]) if first_key in ("lane", "state") else _short(words[0]) if words else ""


def _short(word: str) -> str:
    head = word.split("_", 1)[0]
    return head if len(head) == 3 and head[0] in "CP" and head[1:].isdigit() else word


def _explain(error: BaseException, document: Document, path: KeyPath) -> list[Fault]:
    if isinstance(error, BaseValidationError):
        faults: list[Fault] = []
        for inner in error.exceptions:
            deeper = path
            for note in getattr(inner, "__notes__", ()):
                if isinstance(note, IterableValidationNote):
                    deeper = (*path, note.index)
                elif isinstance(note, AttributeValidationNote):
                    deeper = (*path, note.name)
            faults.extend(_explain(inner, document, deeper))
        return faults
    if isinstance(error, ForbiddenExtraKeysError):
        return [
            Fault(document.file, document.line(*path, key), label(document, (*path, key)), "unknown key")
            for key in sorted(error.extra_fields)
        ]
    where, line = label(document, path), document.line(*path)
    if isinstance(error, KeyError):
        return [Fault(document.file, line, where, "this key is missing")]
    text = str(error) if isinstance(error, ValueError) else "this has another form than the table asks for"
    return [Fault(document.file, line, where, text)]


def structure(documents: dict[str, Document]) -> tuple[Spec, set[str], list[Fault]]:
    """Fills the classes; returns the spec, the files that could not be filled, and all faults."""
    faults: list[Fault] = []
    broken: set[str] = set()
    parts: dict[str, Any] = {}
    for field in attrs.fields(Spec):
        document = documents.get(field.name)
        parts[field.name] = None
        if document is None or document.data is None:
            broken.add(field.name)
            continue
        try:
            parts[field.name] = _CONVERTER.structure(document.data, _CLASS_OF[field.name])
        except Exception as error:  # cattrs wraps whatever a field raises; every leaf is explained below
            broken.add(field.name)
            faults.extend(_explain(error, document, ()))
    return Spec(**parts), broken, faults
