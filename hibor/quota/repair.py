"""Repair of a ledger: an unfinished last line is moved aside on confirmation, and that is recorded (design
4).

Rules of this file:
- Only an unfinished last line is ever cut. It was never acknowledged, so nobody relies on it.
- Nothing else is repaired: an altered, missing or reordered line needs a backup and a person.
- The cut and its REPAIRED event are two durable steps. A crash in between leaves a side file that no event
  names; the next repair records it.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from pathlib import Path

import attrs

from hibor.clock import Clock
from hibor.durable import Durable, MovedTail
from hibor.locks import Locks
from hibor.quota.day import QuotaCalendar
from hibor.quota.events import REPAIRED, Event, Head
from hibor.quota.family import Automaton
from hibor.quota.ledger import Ledger
from hibor.quota.tail import unfinished_tail
from hibor.reading import read_kept


@attrs.frozen
class Repair:
    """What a repair did: the line moved now (None: nothing was unfinished) and the events recorded."""

    moved: MovedTail | None
    recorded: tuple[Event, ...]


def repair_ledger(
    path: Path,
    account: str,
    *,
    durable: Durable,
    locks: Locks,
    clock: Clock,
    automaton: Automaton,
    confirm: Callable[[str], bool],
    calendar: QuotaCalendar | None = None,
    known_heads: Iterable[Head] = (),
) -> Repair | None:
    """Move an unfinished last line into a side file and record it; None when `confirm` says no.

    `confirm` gets a sentence that says what is going to be cut. Raises `LedgerInvalid` when anything else is
    wrong with the file, before anything is changed.
    """
    moved: MovedTail | None = None
    heads = tuple(known_heads)
    with locks.ledger(path):
        tail = unfinished_tail(path, account, automaton, heads)
        if tail is not None:
            offset, size_bytes = tail
            if not confirm(
                f"{path.name}: move the unfinished last line aside ({size_bytes} bytes from byte {offset})"
            ):
                return None
            moved = durable.move_unfinished_tail(path, step="ledger.repair")
    ledger = Ledger.open(
        path,
        account,
        durable=durable,
        locks=locks,
        clock=clock,
        automaton=automaton,
        calendar=calendar,
        known_heads=heads,
    )
    with ledger:
        recorded = [ledger.record_repair(_facts(durable, side)) for side in _unrecorded(path)]
    return Repair(moved, tuple(recorded))


def _unrecorded(path: Path) -> list[Path]:
    """Side files that no REPAIRED event names, oldest name first."""
    named: set[str] = set()
    if path.is_file():
        for line in read_kept(path).split(b"\n"):
            if f'"type":"{REPAIRED}"'.encode() in line:
                named.add(json.loads(line)["data"].get("side_file", ""))
    return [side for side in sorted(path.parent.glob(f"{path.name}.unfinished-*")) if side.name not in named]


def _facts(durable: Durable, side: Path) -> dict[str, object]:
    facts = durable.facts(side)
    return {"sha256": facts.sha256, "side_file": side.name, "size_bytes": facts.size_bytes}
