"""Whose downloads a library keeps: the practice phone's or a real phone's (design 1 "The main job", design 4
"Quota ledger").

Rules of this file:

1. A library belongs to one kind of phone for good. Its ledger is kept by that phone's clock, and an event
   that another clock wrote locks the account out; made-up reports among real ones deceive their readers.
2. What says it, the strongest first: the record of the first use in `consent/`, the runs' own documents, and
   for a library whose runs were all killed the ledger's account, the practice phone's folder or a consent
   beside them.
3. A library that says nothing belongs to nobody yet. One that holds both, from before this rule, is a real
   phone's: its books must stay usable.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Final, Literal

from hibor.collect.stops import RunStop
from hibor.package.layout import Library
from hibor.quota.events import parse_event
from hibor.reading import open_kept, read_kept
from hibor.task import EMBEDDED_ACCOUNT

Owner = Literal["practice", "real"]

_TAIL_BYTES: Final = 1 << 16
"""More than a ledger's longest line."""


def practice_record(library: Library) -> Path:
    """Where a library notes that the practice phone was used with it."""
    return library.root / "consent" / "practice.json"


def owner_of(library: Library) -> Owner | None:
    """The kind of phone a library belongs to, None for one that belongs to nobody yet."""
    if practice_record(library).is_file():
        return "practice"
    if not library.run_folders():
        return None
    practised = os.path.lexists(library.phone_state)
    confirmed = any(practice_record(library).parent.glob("*.json"))
    if confirmed and not practised:
        return "real"
    told = set(_told_by_runs(library))
    if told:
        return "practice" if told == {True} else "real"
    if library.ledger(EMBEDDED_ACCOUNT).is_file():
        return "practice"
    return "practice" if practised and not confirmed else None


def _told_by_runs(library: Library) -> Iterator[bool]:
    """What each ended run that met a phone says of it: whether it was simulated."""
    for run in library.run_folders():
        try:
            device = json.loads(read_kept(run.run_json))["device"]
            if device["model"] is not None:
                yield bool(device["simulated"])
        except (OSError, ValueError, TypeError, KeyError):
            continue


def require_owner(library: Library, *, simulated: bool) -> None:
    """Refuse a phone of the other kind before anything is written. Raises RunStop (TASK_INVALID)."""
    owner = owner_of(library)
    if owner == "practice" and not simulated:
        raise RunStop(
            "task_invalid",
            f"the library {library.root} belongs to the practice phone; name another folder for a real one, "
            "or delete this one: its reports are made up",
        )
    if owner == "real" and simulated:
        raise RunStop(
            "task_invalid", f"the library {library.root} belongs to a real phone; practise in another folder"
        )


def last_event_at(ledger: Path) -> datetime | None:
    """When the ledger's last event was written, None where nothing readable says so.

    The practice phone's clock begins there at the earliest, so that a library whose `sim-phone/` was deleted
    is not locked out. Whether the ledger is in doubt is not decided here.
    """
    try:
        with open_kept(ledger) as stream:
            size_bytes = stream.seek(0, os.SEEK_END)
            stream.seek(max(0, size_bytes - _TAIL_BYTES))
            lines = stream.read().rstrip(b"\n").split(b"\n")
        return datetime.fromisoformat(parse_event(lines[-1]).at)
    except (OSError, ValueError):
        return None
