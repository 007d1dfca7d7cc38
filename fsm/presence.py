"""Presence arithmetic: eight letters against a matrix row (V006 §1, §2.1, §2.2; ruling R1).

1. A presence is packed one-hot, `len(letters)` bits for each object, so that a row test is one AND.
2. A row is the set of letters each of its cells lists. Against it a presence is
   LEGAL (every cell listed, no U), HALT (every cell listed, some U), UNCERTAIN (a U where none is listed,
   everything else listed) or CONTRACT_ERROR (the rest).
3. A row with X in it can never be met: whatever is shown there is a contract error.
4. The four verdicts are ordered by their byte, and a presence's byte is the greatest of its letters' bytes;
   that is why a whole table can be put together object by object.
"""

from __future__ import annotations

from enum import StrEnum
from functools import lru_cache
from typing import Final
from weakref import WeakKeyDictionary

import attrs

from fsm.errors import ContractError, StateUncertain
from fsm.tables import Tables

UNCERTAIN_LETTER: Final = "U"
UNREACHABLE_LETTER: Final = "X"


class Verdict(StrEnum):
    """What a presence is in a state of a lane."""

    LEGAL = "LEGAL"
    HALT = "HALT"
    UNCERTAIN = "UNCERTAIN"
    CONTRACT_ERROR = "CONTRACT_ERROR"


VERDICT_BYTES: Final = (Verdict.LEGAL, Verdict.HALT, Verdict.UNCERTAIN, Verdict.CONTRACT_ERROR)


@attrs.frozen
class Row:
    """One matrix row as masks over packed presences."""

    outside: int  # bits of letters the row does not list
    outside_but_u: int  # the same without the bits of U


class _Packed:
    """Masks of one `Tables` value, made once."""

    def __init__(self, tables: Tables) -> None:
        width = len(tables.letters)
        self.bits = tuple(
            {letter: 1 << (position * width + rank) for rank, letter in enumerate(tables.letters)}
            for position in range(len(tables.objects))
        )
        every = (1 << (width * len(tables.objects))) - 1
        self.uncertain = sum(bits[UNCERTAIN_LETTER] for bits in self.bits)
        self.rows: dict[tuple[str, str], Row] = {}
        for lane, states in tables.matrix.items():
            for state, cells in states.items():
                listed = 0
                if not any(UNREACHABLE_LETTER in cell for cell in cells):
                    for bits, cell in zip(self.bits, cells, strict=True):
                        listed |= sum(bits[letter] for letter in cell)
                outside = every & ~listed
                # A row that lists nothing cannot be met even by a presence of eight U.
                but_u = outside & ~self.uncertain if listed else every
                self.rows[lane, state] = Row(outside, but_u)


_PACKED: WeakKeyDictionary[Tables, _Packed] = WeakKeyDictionary()


def _packed(tables: Tables) -> _Packed:
    found = _PACKED.get(tables)
    if found is None:
        found = _PACKED[tables] = _Packed(tables)
    return found


def check_presence(presence: str, tables: Tables) -> None:
    """Refuse anything that is not one known letter per object. Raises ContractError."""
    if not isinstance(presence, str) or len(presence) != len(tables.objects):
        raise ContractError(f"presence {presence!r} is not {len(tables.objects)} letters")
    for letter in presence:
        if letter not in tables.letters:
            raise ContractError(f"presence {presence!r} has the unknown letter {letter!r}")


def check_name(kind: str, name: object, known: object) -> None:
    """Refuse a name the contract does not have. Raises ContractError."""
    if not isinstance(name, str) or name not in known:  # type: ignore[operator]
        raise ContractError(f"unknown {kind} {name!r}")


def _row(lane: str, state: str, tables: Tables) -> Row:
    check_name("lane", lane, tables.matrix)
    check_name("state", state, tables.state_set)
    if state == tables.closed_state:
        raise ContractError(f"{state} has no row; a closed item is matched by its closure")
    return _packed(tables).rows[lane, state]


def verdict(lane: str, state: str, presence: str, tables: Tables | None = None) -> Verdict:
    """Judge `presence` (eight letters S F Q A M D T Z) in `state` (P00-P09, full name) of `lane`.

    Raises ContractError for unknown names, P10 or a malformed presence. V006 §2.1, §2.2; ruling R1.
    """
    tables = tables or Tables.default()
    row = _row(lane, state, tables)
    check_presence(presence, tables)
    masks = _packed(tables)
    packed = 0
    for bits, letter in zip(masks.bits, presence, strict=True):
        packed |= bits[letter]
    if not packed & row.outside:
        return Verdict.HALT if packed & masks.uncertain else Verdict.LEGAL
    return Verdict.CONTRACT_ERROR if packed & row.outside_but_u else Verdict.UNCERTAIN


def verdict_table(lane: str, state: str, tables: Tables | None = None) -> bytes:
    """The verdict bytes of all 5⁸ presences; index in base 5 with N V I U X = 0 1 2 3 4, S most significant.

    Bytes: LEGAL 0, HALT 1, UNCERTAIN 2, CONTRACT_ERROR 3. Raises ContractError like `verdict`.
    """
    tables = tables or Tables.default()
    _row(lane, state, tables)
    cells = tables.matrix[lane][state]
    dead = any(UNREACHABLE_LETTER in cell for cell in cells)
    suffix = [bytes([worst]) for worst in range(len(VERDICT_BYTES))]
    for cell in reversed(cells):
        ranks = [_letter_byte(letter, "" if dead else cell, dead) for letter in tables.letters]
        suffix = [b"".join(suffix[max(worst, rank)] for rank in ranks) for worst in range(len(VERDICT_BYTES))]
    return suffix[0]


@lru_cache(maxsize=1024)
def _letter_byte(letter: str, cell: str, dead: bool) -> int:
    if dead:
        return 3
    if letter in cell:
        return 1 if letter == UNCERTAIN_LETTER else 0
    return 2 if letter == UNCERTAIN_LETTER else 3


def require_defined(lane: str, state: str, presence: str, tables: Tables) -> Verdict:
    """The verdict if it is LEGAL or HALT. Raises StateUncertain or ContractError for the other two."""
    found = verdict(lane, state, presence, tables)
    if found is Verdict.UNCERTAIN:
        raise StateUncertain(f"{lane} {state}: {presence} has a U that no sub-state provides for")
    if found is Verdict.CONTRACT_ERROR:
        raise ContractError(f"{lane} {state}: {presence} is not a presence of this state")
    return found


def move_allowed(before: str, after: str, tables: Tables | None = None) -> bool:
    """True when every object either stays or makes a move of ruling R3."""
    tables = tables or Tables.default()
    check_presence(before, tables)
    check_presence(after, tables)
    return all(
        old == new or old + new in tables.moves[name]
        for name, old, new in zip(tables.objects, before, after, strict=True)
    )
