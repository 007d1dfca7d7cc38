"""The small tables: what lanes, nodes and classes carry, ties, breaker and guard rails, how steps are
written, and the tables that the programs read beside the contract's value (PDF findings, exit codes, ledger).

Compared with what people copied by hand. Prose in `spec/` (meanings, reasons, texts) decides nothing and is
not compared.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import attrs

from fsm import Tables
from generated import evidence, governance, ledger, pdf, terminal
from tests.fsm import v006

from . import expected
from .findings import Check, Violation


@attrs.frozen
class Beside:
    """The generated tables that are not part of `fsm.Tables`, by name."""

    values: Mapping[str, Any]

    @staticmethod
    def default() -> Beside:
        """As compiled from `spec/`."""
        return Beside(
            {
                "pdf_findings": pdf.PDF_FINDINGS,
                "stop_words": governance.STOP_WORDS,
                "command_exits": governance.COMMAND_EXITS,
                "error_exits": governance.ERROR_EXITS,
                "event_quota": ledger.EVENT_QUOTA,
                "event_object": ledger.EVENT_OBJECT,
                "event_artifact": ledger.EVENT_ARTIFACT,
                "outside_families": ledger.OUTSIDE_FAMILIES,
                "counted_as_spent": ledger.COUNTED_AS_SPENT,
                "persistence_order": evidence.PERSISTENCE_ORDER,
                "statuses": terminal.STATUSES,
                "artifact_kinds": terminal.ARTIFACT_KINDS,
            }
        )


def check_small(tables: Tables) -> Check:
    """Names, kinds, ties, breaker, guard rails and steps are those of V006 and of the design."""
    pairs: tuple[tuple[str, str, Any, Any], ...] = (
        ("evidence.yaml", "letters", "".join(tables.letters), v006.LETTERS),
        ("evidence.yaml", "objects", "".join(tables.objects), expected.OBJECTS),
        ("presence.yaml", "lanes", tables.lanes, v006.LANES),
        ("presence.yaml", "states", tables.states, (*v006.OPEN_STATES, v006.CLOSED)),
        ("presence.yaml", "nodes", dict(tables.nodes), expected.NODES),
        ("evidence.yaml", "Prefix3", tables.prefix3, v006.PREFIXES),
        ("presence.yaml", "sources of lanes", _sets(tables.lane_sources), expected.LANE_SOURCES),
        ("presence.yaml", "kind of A", dict(tables.node_artifact), expected.NODE_ARTIFACT),
        ("presence.yaml", "sub-states", _split(tables), expected.SUBSTATES),
        ("codes.yaml", "status of a class", dict(tables.status_of_class), expected.STATUS_OF_CLASS),
        ("codes.yaml", "ties", tables.ties, expected.TIES),
        ("terminal.yaml", "schema version", tables.schema_version, expected.SCHEMA_VERSION),
        ("governance.yaml", "circuit breaker", dict(tables.breaker), expected.BREAKER),
        ("governance.yaml", "guard rails", dict(tables.guard_rails), expected.GUARD_RAILS),
        ("steps.yaml", "steps of an item", _steps(tables), expected.STEPS),
    )
    found = [_differ(*pair) for pair in pairs]
    return Check("small tables", {"tables": len(pairs)}, tuple(one for one in found if one is not None))


def check_beside(beside: Beside) -> Check:
    """The tables beside the contract's value."""
    found = [
        _differ("pdf.yaml" if name == "pdf_findings" else "spec", name.replace("_", " "), shown, due)
        for name, due in expected.BESIDE.items()
        if (shown := _plain(beside.values.get(name))) != _plain(due)
    ]
    counts = {"tables": len(expected.BESIDE)}
    return Check("tables beside the contract", counts, tuple(one for one in found if one is not None))


def check_beside_default(_tables: Tables) -> Check:
    """PDF findings, exit codes, stop words, ledger words and persistence order are those of the design."""
    return check_beside(Beside.default())


def _plain(value: Any) -> Any:
    return dict(value) if isinstance(value, Mapping) else value


def _sets(mapping: Mapping[str, tuple[str, ...]]) -> dict[str, set[str]]:
    return {key: set(values) for key, values in mapping.items()}


def _split(tables: Tables) -> dict[str, tuple[str, str]]:
    return {state: (name, "".join(sorted(letters))) for state, (name, letters) in tables.substates.items()}


def _steps(tables: Tables) -> dict[str, tuple[str, str, str | None]]:
    """Kind, place and record of every step that some edge does."""
    used = {step for *_rest, steps in tables.edges for step in steps}
    return {step: (row[0], row[1], row[3]) for step, row in tables.steps.items() if step in used}


def _differ(table: str, what: str, shown: Any, due: Any) -> Violation | None:
    if shown == due:
        return None
    if isinstance(shown, Mapping) and isinstance(due, Mapping):
        key = min((key for key in {*shown, *due} if shown.get(key) != due.get(key)), key=str)
        return Violation("conflicting", table, what, f"{key}: {shown.get(key)}, not {due.get(key)}")
    return Violation("conflicting", table, what, f"{shown}, not {due}")
