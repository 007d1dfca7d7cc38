"""What notices a mutant: expectations and invariants that were not made from the mutated tables.

Tier 1, literals: V006 and design 4 as copied by hand. Tier 2, invariants: what holds of any contract. Tier 3,
side effects: the real item machine over real files with the mutated tables, which costs most and therefore
comes last. The checks most likely to notice a table's mutants are asked first; a check that breaks down
notices too.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from fsm import Tables
from tools.audit import closing, domains, items, machine, small, verdicts
from tools.audit.findings import Check

Killer = Callable[[Tables], bool]


def _notices(check: Callable[[Tables], Check]) -> Killer:
    def killer(tables: Tables) -> bool:
        return bool(check(tables).violations)

    return killer


LITERALS: Final[Mapping[str, Killer]] = {
    "presence literals": _notices(verdicts.check_verdicts),
    "move literals": _notices(verdicts.check_moves),
    "closing literals": _notices(closing.check_closings),
    "variant literals": _notices(closing.check_variants),
    "class literals": _notices(domains.check_classes),
    "domain literals": _notices(domains.check_domains),
    "id literals": _notices(domains.check_ids),
    "quota literals": _notices(domains.check_node_quota),
    "no-closure literals": _notices(domains.check_without_closure),
    "keep literals": _notices(domains.check_keep),
    "edge literals": _notices(machine.check_edges),
    "recovery literals": _notices(machine.check_recovery),
    "ledger literals": _notices(machine.check_ledger),
    "failure literals": _notices(domains.check_failures),
    "small literals": _notices(small.check_small),
    "status literals": _notices(machine.check_run_statuses),
    "ruling witnesses": _notices(machine.check_rulings),
}
INVARIANTS: Final[Mapping[str, Killer]] = {
    "edge walks": _notices(machine.check_moves_of_edges),
    "naive twin of the item": _notices(items.check_items),
    "one variant for an input": _notices(closing.check_closures),
    "verdict, one by one": _notices(verdicts.check_one_by_one),
}
FIRST: Final[Mapping[str, tuple[str, ...]]] = {
    "cells": ("presence literals",),
    "moves": ("move literals",),
    "closures": ("closing literals", "variant literals", "no-closure literals"),
    "windows": ("naive twin of the item",),
    "stage codes": ("domain literals",),
    "code classes": ("class literals", "failure literals"),
    "edges": ("edge literals",),
    "work": ("edge literals",),
    "steps": ("edge walks",),
    "recovery": ("recovery literals",),
    "keep or close": ("keep literals",),
    "ledger": ("ledger literals",),
    "public item": ("id literals", "quota literals", "naive twin of the item"),
    "run statuses": ("status literals",),
    "failures": ("failure literals",),
    "names": ("small literals", "presence literals"),
    "small tables": ("small literals", "naive twin of the item"),
}
SIDE_EFFECTS: Final = "side effects"
BESIDE: Final = "literals beside the contract"


def killer_of(table: str, tables: Tables | small.Beside, *, side_effects: bool = True) -> str | None:
    """The name of the first killer that notices, None when all are content."""
    if isinstance(tables, small.Beside):
        return BESIDE if small.check_beside(tables).violations else None
    every = {**LITERALS, **INVARIANTS}
    order = [*FIRST[table], *(name for name in every if name not in FIRST[table])]
    for name in order:
        if _noticed(every[name], tables):
            return name
    return SIDE_EFFECTS if side_effects and _noticed(_reach, tables) else None


def _noticed(killer: Killer, tables: Tables) -> bool:
    try:
        return killer(tables)
    except Exception:  # a mutated contract may break anything; what breaks down was noticed
        return True


def _reach(tables: Tables) -> bool:
    """True when the scenarios that need no phone end otherwise over the mutated tables."""
    from tests.props.scenes import ends_as_expected

    with TemporaryDirectory(prefix="hibor-mutant-") as folder:
        return not ends_as_expected(Path(folder), tables)
