"""The plan of a run: what would be reused, downloaded or left out, with cost and time (design 1 `--dry-run`,
`--plan`).

A plan file is JSON a person may edit: rows may be removed, reordered, or their `source` changed to what they
can be
had from. `run --plan` collects exactly its rows, in its order; a row that cannot be had that way any more is
refused.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, Final

from hibor.collect.selection import Choice, Holdings, LikelyDuplicate
from hibor.collect.stops import RunStop
from hibor.items.catalogue import CatalogueEntry
from hibor.reading import read_named

SCHEMA_VERSION: Final = 1
_NO_PLAN: Final = "not a plan: take a file that --dry-run --plan has saved; rows may be deleted and reordered"
SECONDS_OF_SOURCE: Final = {"PROJECT_REUSE": 0.5, "CACHE_REUSE": 1.5, "NEW_TRIGGER": 20.0}
"""Estimates a plan shows, in seconds of the phone."""


def plan_rows(selected: Iterable[Choice], duplicates: Iterable[LikelyDuplicate]) -> list[dict[str, Any]]:
    """The rows of a plan, in the order of work: reuse first."""
    ordered = sorted(selected, key=lambda choice: choice.lane == "NEW_TRIGGER")
    rows = [
        {
            "rank": rank,
            "source": choice.source,
            "cost": int(choice.lane == "NEW_TRIGGER"),
            "seconds": SECONDS_OF_SOURCE[choice.source],
            "report_id": choice.entry.report_id,
            "date": choice.entry.date,
            "institution": choice.entry.institution,
            "title": choice.entry.title,
        }
        for rank, choice in enumerate(ordered, start=1)
    ]
    for duplicate in duplicates:
        entry = duplicate.entry
        rows.append(
            {
                "rank": None,
                "source": "LIKELY_DUPLICATE",
                "cost": 0,
                "seconds": 0.0,
                "report_id": entry.report_id,
                "date": entry.date,
                "institution": entry.institution,
                "title": entry.title,
            }
        )
    return rows


def plan_bytes(rows: Sequence[dict[str, Any]]) -> bytes:
    """The plan file's bytes."""
    value = {"schema_version": SCHEMA_VERSION, "rows": list(rows)}
    return (json.dumps(value, ensure_ascii=False, indent=2) + "\n").encode()


def read_plan(path: Path) -> list[tuple[str, str]]:
    """(report id, source) of the rows to collect. Raises RunStop for a file that is no plan."""
    try:
        value = json.loads(read_named(path).decode("utf-8-sig"))
    except OSError as error:
        raise RunStop("task_invalid", f"{path}: cannot be read: {error.strerror}") from error
    except ValueError as error:
        raise RunStop("task_invalid", f"{path}: {_NO_PLAN}") from error
    if (
        not isinstance(value, dict)
        or set(value) != {"schema_version", "rows"}
        or value["schema_version"] != 1
        or not isinstance(value["rows"], list)
    ):
        raise RunStop("task_invalid", f"{path}: {_NO_PLAN}")
    wanted: list[tuple[str, str]] = []
    for number, row in enumerate(value["rows"], start=1):
        if not isinstance(row, dict) or not isinstance(row.get("report_id"), str):
            raise RunStop("task_invalid", f"{path}: row {number}: report_id is missing")
        source = row.get("source")
        if source == "LIKELY_DUPLICATE":
            continue
        if source not in SECONDS_OF_SOURCE:
            raise RunStop(
                "task_invalid", f"{path}: row {number}: source must be one of {', '.join(SECONDS_OF_SOURCE)}"
            )
        wanted.append((row["report_id"], source))
    return wanted


def planned(
    wanted: Sequence[tuple[str, str]], entries: Iterable[CatalogueEntry], holdings: Holdings
) -> list[Choice]:
    """The choices a plan asks for. Raises RunStop for a row that cannot be had as planned."""
    known = {entry.report_id: entry for entry in entries}
    choices = []
    for report_id, source in wanted:
        entry = known.get(report_id)
        if entry is None:
            raise RunStop("task_invalid", f"plan: report {report_id} is not in the app's list")
        copy = holdings.copies.get(report_id) if source == "PROJECT_REUSE" else None
        cached = holdings.cached.get(report_id) if source == "CACHE_REUSE" else None
        if source != "NEW_TRIGGER" and copy is None and cached is None:
            raise RunStop("task_invalid", f"plan: report {report_id} cannot be had as {source} any more")
        choices.append(Choice(entry, copy=copy, cached=cached))
    return choices
