"""`python -m tools.mutants [--sample N/SEED] [--records DIR] [--list]`.

Changes the contract one row at a time, as a value, and asks who notices. `--sample 10/7` takes a tenth,
chosen by seed 7, and writes no record. Exit 0: every mutant was killed or its survival is justified in spec/.
1: a survivor. 64: usage.
"""

from __future__ import annotations

import os
import random
import sys
import time
from collections import Counter
from collections.abc import Iterable
from itertools import chain
from pathlib import Path
from typing import Any, Final

from fsm import Tables
from tools.audit.records import FOLDER, write_record
from tools.commandline import Parser

from . import flow, presence, small
from .kill import BESIDE, INVARIANTS, LITERALS, SIDE_EFFECTS, killer_of
from .mutant import Maker, Mutant

MAKERS: Final[tuple[Maker, ...]] = (
    presence.cells,
    presence.moves,
    presence.closures,
    presence.windows,
    flow.stage_codes,
    flow.code_classes,
    flow.edges,
    flow.close_events,
    flow.works,
    flow.steps,
    flow.recovery,
    flow.keep_or_close,
    flow.automaton,
    flow.public_item,
    flow.run_statuses,
    small.failures,
    small.names,
    small.small_tables,
    small.beside,
)


def all_mutants(tables: Tables | None = None) -> list[Mutant]:
    """Every mutant, in table order, with those left out as equivalent."""
    base = tables or Tables.default()
    return list(chain.from_iterable(make(base) for make in MAKERS))


def sample_of(mutants: list[Mutant], text: str) -> list[Mutant]:
    """`N/SEED`: one of N, chosen by the seed. Raises ValueError."""
    share, _, seed = text.partition("/")
    if not share.isdigit() or int(share) < 1 or not seed.isdigit():
        raise ValueError(f"a sample is written N/SEED, not {text!r}")
    chosen = random.Random(int(seed)).sample(range(len(mutants)), max(1, len(mutants) // int(share)))
    return [mutants[at] for at in sorted(chosen)]


def judge(mutants: Iterable[Mutant]) -> dict[str, Any]:
    """Who killed what: the record's values."""
    by_table: dict[str, Any] = {}
    survivors, left_out, killers = [], Counter[str](), Counter[str]()
    begun = time.perf_counter()
    for mutant in mutants:
        if mutant.left_out is not None:
            left_out[mutant.left_out] += 1
            continue
        row = by_table.setdefault(mutant.table, {"made": 0, "killed": 0, "by": Counter()})
        row["made"] += 1
        killer = killer_of(mutant.table, mutant.make())
        if killer is None:
            survivors.append({"table": mutant.table, "change": mutant.change, "reason": None})
            continue
        row["killed"] += 1
        row["by"][killer] += 1
        killers[killer] += 1
    order = [name for name in (*LITERALS, BESIDE, *INVARIANTS, SIDE_EFFECTS) if killers[name]]
    return {
        "made": sum(row["made"] for row in by_table.values()),
        "killed": sum(row["killed"] for row in by_table.values()),
        "left_out": sum(left_out.values()),
        "left_out_by": dict(left_out),
        "seconds": round(time.perf_counter() - begun, 1),
        "killers": order,
        "by_table": {name: {**row, "by": dict(row["by"])} for name, row in by_table.items()},
        "survivors": survivors,
    }


def main(arguments: list[str] | None = None) -> int:
    parser = Parser(
        prog="python -m tools.mutants", description="Change the contract row by row and see who notices."
    )
    parser.add_argument("--sample", metavar="N/SEED", help="judge one of N mutants, chosen by the seed")
    parser.add_argument("--list", action="store_true", help="print the mutants and judge none")
    default = Path(os.environ.get("HIBOR_AUDIT_RECORDS", FOLDER))
    parser.add_argument("--records", type=Path, default=default, metavar="DIR", help="folder of the records")
    options = parser.parse_args(arguments)
    mutants = all_mutants()
    if options.sample:
        try:
            mutants = sample_of(mutants, options.sample)
        except ValueError as error:
            parser.error(str(error))
    if options.list:
        for mutant in mutants:
            print(
                f"{mutant.table}: {mutant.change}"
                + (f" (left out: {mutant.left_out})" if mutant.left_out else "")
            )
        return 0
    found = judge(mutants)
    if not options.sample:
        write_record("mutants", {**found, "sample": None}, options.records)
    _tell(found, options.sample)
    return 1 if any(row["reason"] is None for row in found["survivors"]) else 0


def _tell(found: dict[str, Any], sample: str | None) -> None:
    for name, row in found["by_table"].items():
        by = ", ".join(f"{killer} {count}" for killer, count in row["by"].items())
        print(f"{name}: {row['made']} made, {row['killed']} killed ({by})")
    for rule, count in found["left_out_by"].items():
        print(f"left out {count}: {rule}")
    for row in found["survivors"]:
        print(f"survivor: {row['table']}: {row['change']}: {row['reason'] or 'no reason given'}")
    words = f", sample {sample}" if sample else ""
    print(
        f"{found['made']} mutants, {found['killed']} killed, {len(found['survivors'])} survive, "
        f"{found['left_out']} left out, {found['seconds']} s{words}"
    )


if __name__ == "__main__":
    sys.exit(main())
