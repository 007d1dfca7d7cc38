"""One quota day of one account as a statement: opening, each download, closing, what is unexplained.

Rules of this file: it reads and changes nothing. What the books say comes from the verified ledger, what the
app showed from the documents of the day's runs, the time of a tap from its item's journal; a value that none
of them has is None and never guessed. Everything but a released reservation takes one of the day's downloads.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import attrs

from hibor.package.layout import Library
from hibor.reading import read_kept

if TYPE_CHECKING:
    from hibor.quota_cli import Use

OPENING: Final = "opening"
DOWNLOAD: Final = "download"
CLOSING: Final = "closing"
UNEXPLAINED: Final = "unexplained"
_RELEASED: Final = "RELEASED"
_CONFIRMED: Final = "CONFIRMED"


@attrs.frozen(kw_only=True)
class Entry:
    """One line. `units`: downloads it takes; `balance`: what the books have left of the day's limit after it;
    `label`: what the app showed as left; `tapped_at`: when the taps of the download began.
    """

    entry: str
    at: str | None = None
    tapped_at: str | None = None
    units: int | None = None
    balance: int | None = None
    label: int | None = None
    use: Use | None = None


def statement(uses: Sequence[Use], library: Library, account: str, day: str) -> list[Entry]:
    """The lines of a day, in the order of time; `uses` are the day's reservations of this account."""
    runs = sorted(_runs(library, account, day), key=lambda run: str(run["run_id"]))
    first, last = (runs[0], runs[-1]) if runs else ({}, {})
    limits = [use.limit for use in uses if use.limit is not None]
    limit = limits[0] if limits else _quota(first).get("limit")
    entries = [
        Entry(
            entry=OPENING,
            at=_timing(first).get("started_at"),
            balance=limit,
            label=_quota(first).get("label_before"),
        )
    ]
    left = limit
    for use in uses:
        units = 0 if use.state == _RELEASED else 1
        left = None if left is None else left - units
        tapped_at = _tapped_at(library, use)
        entries.append(
            Entry(entry=DOWNLOAD, at=use.at, tapped_at=tapped_at, units=units, balance=left, use=use)
        )
    label = _quota(last).get("label_after")
    entries.append(Entry(entry=CLOSING, at=_timing(last).get("ended_at"), balance=left, label=label))
    entries.append(Entry(entry=UNEXPLAINED, units=unexplained(entries)))
    return entries


def unexplained(entries: Sequence[Entry]) -> int | None:
    """By how many the app's count fell beyond what the ledger confirmed; None where the app's count is not
    known at both ends of the day.
    """
    opened, closed = (
        next((one.label for one in entries if one.entry == name), None) for name in (OPENING, CLOSING)
    )
    if opened is None or closed is None:
        return None
    confirmed = sum(one.use is not None and one.use.state == _CONFIRMED for one in entries)
    return opened - closed - confirmed


def _quota(run: Mapping[str, Any]) -> Mapping[str, Any]:
    return run.get("quota") or {}


def _timing(run: Mapping[str, Any]) -> Mapping[str, Any]:
    return run.get("timing") or {}


def _runs(library: Library, account: str, day: str) -> Iterator[dict[str, Any]]:
    """The documents of the runs that worked for this account on this day; one that cannot be read says
    nothing.
    """
    for folder in library.run_folders():
        try:
            document = json.loads(read_kept(folder.run_json))
        except (OSError, ValueError):
            continue
        if (_quota(document).get("account"), _quota(document).get("day")) == (account, day):
            yield document


def _tapped_at(library: Library, use: Use) -> str | None:
    """When the item's trigger began, as its journal says."""
    try:
        folders = list(library.run(use.run_id).item_folders())
    except (OSError, ValueError):
        return None
    found = next((folder for folder in folders if folder.item_id == use.item_id), None)
    return None if found is None else _intent_at(found.journal)


def _intent_at(journal: Path) -> str | None:
    try:
        for line in read_kept(journal).splitlines():
            record = json.loads(line)
            if record["event"] == "TRIGGER_INTENT":
                return str(record["at"])
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return None
