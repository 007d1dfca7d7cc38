"""`python -m tools.bench [--all] [NAME …] [--json FILE] [--rounds N] [--time-scale X]`: the figures of
design 7.

Every row is a ratio measured side by side in one run, three runs each: median, smallest, largest. Without
`--all` the large sizes are reduced and the package runs on a fast clock, which counts the machine's own
time many times over; the figures of record are those of `--all`. Exit 0: every row measured reaches its
target. 1: one does not. 64: usage.
"""

from __future__ import annotations

import json
import os
import platform
import sys
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

import attrs

from tools.commandline import Parser

from . import books, contract, discovery, items, package, transfer
from .rows import Row, table


@attrs.frozen
class Scale:
    """How large and how often is measured."""

    everything: bool
    rounds: int
    time_scale: float


def _pages(scale: Scale) -> list[Row]:
    """The page decision, from the discovery benchmark."""
    rows = 10_000_000 if scale.everything else 200_000
    archive, snapshot, growth = [], [], []
    for _ in range(scale.rounds if not scale.everything else 1):
        with tempfile.TemporaryDirectory(prefix="hibor-bench-") as folder:
            figures = discovery.compare(Path(folder), rows, 10_000, 400)
        archive.append(figures["ratio_decision_to_archive"])
        snapshot.append(figures["ratio_first_page_to_snapshot"])
        growth.append(figures["local_memory_growth_from_10000_mb"])
    memory = tuple(one for one in growth if one is not None)
    what = f"page decision, {rows:,} seen"
    once = "middle round of three" if scale.everything else ""
    return [
        Row(name=what, against="gallery-dl's archive check", limit=1.0, values=tuple(archive), note=once),
        Row(name=what, against="tasklite's snapshot", limit=1.0, values=tuple(snapshot), note=once),
        Row(name=f"{what}: memory", against="10,000 seen", limit=16.0, values=memory, unit="MB"),
    ]


def _package(pace: str) -> Callable[[Scale], list[Row]]:
    """Rounds of the slow pace share the machine in real time: they wait for the phone nearly all the
    while."""

    def measured(scale: Scale) -> list[Row]:
        at_once = scale.rounds if pace == "slow" and scale.time_scale <= 1 else 1
        return package.rows(pace, scale.rounds, scale.time_scale, at_once)

    return measured


def _pull(scale: Scale) -> list[Row]:
    return [transfer.pull_row(40e6, 1.02, scale.rounds), transfer.pull_row(0, 1.3, scale.rounds)]


def _open(scale: Scale) -> list[Row]:
    return [books.open_row(scale.rounds, 1_000_000 if scale.everything else 100_000)]


BENCHES: Final[Mapping[str, Callable[[Scale], list[Row]]]] = {
    "default": _package("default"),
    "slow": _package("slow"),
    "pull": _pull,
    "append": lambda scale: [books.append_row(scale.rounds)],
    "open": _open,
    "pages": _pages,
    "audit": lambda scale: contract.audit_rows(scale.rounds),
    "transition": lambda scale: [contract.transition_row(scale.rounds)],
    "start": lambda scale: [contract.start_row(scale.rounds)],
    "shell": lambda scale: [transfer.shell_row(scale.rounds)],
    "items": lambda scale: items.memory_rows(1_000 if scale.everything else 40),
}


def main(arguments: list[str] | None = None) -> int:
    """Measure, print the table, write the document; returns the exit code."""
    parser = Parser(
        prog="python -m tools.bench", description="The figures of design 7, each beside its counterpart."
    )
    parser.add_argument(
        "names", nargs="*", metavar="NAME", help=f"some of: {', '.join(BENCHES)} (default: all)"
    )
    parser.add_argument(
        "--all", action="store_true", help="full sizes, and the package in real time (half an hour)"
    )
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the rows there")
    parser.add_argument("--rounds", type=int, default=3, metavar="N", help="runs of each row (default 3)")
    parser.add_argument(
        "--time-scale", type=float, metavar="X", help="of the package (default 4, with --all 1)"
    )
    options = parser.parse_args(arguments)
    unknown = [name for name in options.names if name not in BENCHES]
    if unknown or options.rounds < 1:
        parser.error(f"unknown: {', '.join(unknown)}" if unknown else "--rounds: at least 1")
    scale = Scale(options.all, options.rounds, options.time_scale or (1.0 if options.all else 4.0))
    rows: list[Row] = []
    for name in options.names or BENCHES:
        print(f"measuring {name} …", file=sys.stderr)
        rows.extend(BENCHES[name](scale))
    print(table(rows))
    if options.json is not None:
        options.json.write_text(json.dumps(_document(scale, rows), indent=2) + "\n", encoding="utf-8")
    return 1 if any(row.reached is False for row in rows) else 0


def _document(scale: Scale, rows: list[Row]) -> dict[str, object]:
    machine = {"python": platform.python_version(), "system": platform.system(), "cores": os.cpu_count()}
    return {"machine": machine, "scale": attrs.asdict(scale), "rows": [row.to_dict() for row in rows]}


if __name__ == "__main__":
    sys.exit(main())
