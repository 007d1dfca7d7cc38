"""Refuses a spec that is not total, deterministic and closed over its own words (design 3, design 7 gate 1).

Names are checked first, file by file. What follows from several tables together is checked when every
table it needs is free of faults, so that one slip gives one message and not ten. All faults of a run are
reported, sorted by file and line.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import attrs

from . import check_closures, check_edges, check_names, check_tables
from .context import Context
from .derive import Derived
from .model import FILES, structure
from .read import Document, Fault, read_folder

Check = tuple[Callable[[Context], None], tuple[str, ...]]

_MACHINE = ("closures", "edges", "evidence", "presence", "steps", "terminal")

NAMES: tuple[Check, ...] = (
    (check_names.evidence, ("evidence", "presence")),
    (check_names.lanes_and_states, ("presence",)),
    (check_names.matrix, ("evidence", "presence")),
    (check_names.substates, ("evidence", "presence", "terminal")),
    (check_names.closing_windows, ("closures", "evidence", "presence")),
    (check_names.closures, ("closures", "codes", "evidence", "presence", "terminal")),
    (check_names.code_classes, ("codes", "terminal")),
    (check_names.code_domains, ("codes", "presence")),
    (check_tables.terminal, ("evidence", "presence", "terminal")),
    (check_tables.steps, ("evidence", "steps")),
    (check_tables.edges, ("closures", "edges", "evidence", "presence", "steps")),
    (check_tables.failures, ("codes", "evidence", "failures", "presence")),
    (check_tables.keep, ("codes", "evidence", "keep", "presence", "terminal")),
    (check_tables.recovery, ("evidence", "presence", "recovery", "steps")),
    (check_tables.ledger, ("evidence", "ledger", "terminal")),
    (check_tables.governance, ("codes", "governance")),
    (check_tables.pdf, ("codes", "pdf")),
    (check_tables.rulings, ("closures", "codes", "evidence", "presence", "rulings")),
    (check_tables.unreachable, ("unreachable", "closures", "presence", "evidence")),
)

MEANING: tuple[Check, ...] = (
    (check_closures.overlap, ("closures", "evidence", "presence")),
    (check_closures.reach, (*_MACHINE, "unreachable")),
    (check_closures.quota_patterns, ("closures", "evidence", "presence", "terminal")),
    (check_closures.keep_or_close, ("closures", "codes", "evidence", "keep", "presence", "terminal")),
    (check_closures.failure_domains, ("codes", "evidence", "failures", "presence")),
    (check_edges.evidence_moves, ("edges", "evidence", "presence", "steps")),
    (check_edges.closing_moves, _MACHINE),
    (check_edges.events, _MACHINE),
    (check_edges.reachable, _MACHINE),
    (check_edges.windows, (*_MACHINE, "recovery")),
)


@attrs.frozen
class Result:
    """What compiling a folder gave. `derived` may be run only when there is no fault; when it is `named`,
    every file was read and every name is known, so that it may at least be compared.
    """

    documents: dict[str, Document]
    derived: Derived
    faults: tuple[Fault, ...]
    named: bool = True


def _names(context: Context, check: Callable[[Context], None], needs: tuple[str, ...]) -> None:
    """Runs a name check over tables that may have been found faulty already.

    Where such a table makes the check stumble, the fault that made it stumble is in the list; over clean
    tables stumbling is a defect of the compiler and is shown as one.
    """
    clean = context.clean(needs)
    try:
        check(context)
    except (IndexError, KeyError, ValueError):
        if clean and context.clean(needs):
            raise


def compile_folder(folder: Path) -> Result:
    """Reads, structures and checks a spec folder."""
    documents, read_faults = read_folder(folder, FILES)
    spec, broken, shape_faults = structure(documents)
    context = Context(documents, spec, Derived(spec), [*read_faults, *shape_faults])
    for check, needs in NAMES:
        if broken.isdisjoint(needs):
            _names(context, check, needs)
    context = attrs.evolve(context, derived=Derived(spec))
    named = not context.faults
    for check, needs in MEANING:
        if broken.isdisjoint(needs) and context.clean(needs):
            check(context)
    return Result(documents, context.derived, tuple(sorted(set(context.faults))), named)
