"""A measured row of the table: what, against what, the figure to reach, one value a run.

Rules of this file: a row's figure is the median of its runs, its spread is their smallest and largest
value; a row that could not be measured on this machine says why instead of showing a number.
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from typing import Any

import attrs


@attrs.frozen(kw_only=True)
class Row:
    """`limit` is the largest value that reaches the target, None for a row without one; `note` is for
    people."""

    name: str
    against: str
    limit: float | None
    values: tuple[float, ...]
    unit: str = ""
    note: str = ""

    @property
    def median(self) -> float | None:
        """The middle of the runs, None when there are none."""
        return statistics.median(self.values) if self.values else None

    @property
    def reached(self) -> bool | None:
        """Whether the median is at the target or beyond; None when there is no target or no value."""
        return None if self.median is None or self.limit is None else self.median <= self.limit

    def to_dict(self) -> dict[str, Any]:
        """The row for the JSON document."""
        values = list(self.values)
        return {
            "name": self.name,
            "against": self.against,
            "limit": self.limit,
            "unit": self.unit,
            "median": self.median,
            "spread": [min(values), max(values)] if values else None,
            "values": values,
            "reached": self.reached,
            "note": self.note,
        }


def table(rows: Sequence[Row]) -> str:
    """The rows as text in columns."""
    head = ("what", "against", "to reach", "median", "spread", "")
    lines = [head, *(_cells(row) for row in rows)]
    widths = [max(len(line[place]) for line in lines) for place in range(len(head))]
    shown = []
    for line, row in zip(lines, [None, *rows], strict=True):
        shown.append("  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip())
        if row is not None and row.note:
            shown.append(f"    {row.note}")
    return "\n".join(shown)


def _cells(row: Row) -> tuple[str, ...]:
    unit = f" {row.unit}" if row.unit else ""
    limit = "-" if row.limit is None else f"<= {row.limit:g}{unit}"
    if row.median is None:
        return row.name, row.against, limit, "not measured", "", ""
    spread = f"{min(row.values):.3g} to {max(row.values):.3g}"
    verdict = {True: "reached", False: "MISSED", None: ""}[row.reached]
    return row.name, row.against, limit, f"{row.median:.3g}{unit}", spread, verdict
