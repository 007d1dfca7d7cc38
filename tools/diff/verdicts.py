"""Counts, without walking 5⁸ presences, how many change their verdict when a row changes (ruling R1).

Letters of an object that behave alike before and after form one class; the product runs over classes and
multiplies their sizes. The first presence of a class product is the smallest one, letters in the
contract's order.
"""

from __future__ import annotations

from itertools import product
from math import prod

from tools.compile.derive import Row

LEGAL, HALT, UNCERTAIN, CONTRACT_ERROR = "LEGAL", "HALT", "UNCERTAIN", "CONTRACT_ERROR"


def verdict(row: Row, presence: str) -> str:
    """V006 §1 as ruling R1 reads it, for a row of eight cells and eight letters."""
    listed = [letter in cell for letter, cell in zip(presence, row, strict=True)]
    if "X" in presence or any("X" in cell for cell in row):
        return CONTRACT_ERROR
    if all(listed):
        return HALT if "U" in presence else LEGAL
    known_fit = all(fits or letter == "U" for letter, fits in zip(presence, listed, strict=True))
    return UNCERTAIN if known_fit else CONTRACT_ERROR


def changes(letters: tuple[str, ...], old: Row, new: Row) -> dict[tuple[str, str], tuple[int, str]]:
    """(verdict before, verdict after) → (how many presences, the smallest of them), for those that differ."""
    classes: list[list[str]] = []
    for before, after in zip(old, new, strict=True):
        groups: dict[tuple[bool, bool, str], str] = {}
        for letter in letters:
            key = (letter in before, letter in after, letter if letter in "UX" else "")
            groups[key] = groups.get(key, "") + letter
        classes.append(list(groups.values()))
    order = {letter: index for index, letter in enumerate(letters)}
    found: dict[tuple[str, str], tuple[int, str]] = {}
    for groups_ in product(*classes):
        presence = "".join(group[0] for group in groups_)
        pair = (verdict(old, presence), verdict(new, presence))
        if pair[0] == pair[1]:
            continue
        count, least = found.get(pair, (0, presence))
        smaller = min(least, presence, key=lambda word: [order[letter] for letter in word])
        found[pair] = (count + prod(len(group) for group in groups_), smaller)
    return found
