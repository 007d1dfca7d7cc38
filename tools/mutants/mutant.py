"""One changed contract: which table, what was changed, and the changed tables as a value."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import attrs

from fsm import Tables
from tools.audit.small import Beside


@attrs.frozen
class Mutant:
    """`change` says in words what differs; `left_out` is the rule by which it is equivalent, else None."""

    table: str
    change: str
    make: Callable[[], Tables | Beside]
    left_out: str | None = None


def toggled(cell: str, letter: str, order: str) -> str:
    """A cell with a letter taken away or added, letters in their order."""
    letters = set(cell) ^ {letter}
    return "".join(one for one in order if one in letters)


def flipped(values: tuple[Any, ...], value: Any) -> tuple[Any, ...]:
    """A list without `value`, or with it at its end."""
    return tuple(one for one in values if one != value) if value in values else (*values, value)


def with_key(mapping: Mapping[Any, Any], *path: Any, value: Any) -> dict[Any, Any]:
    """A copy of nested mappings with one value replaced."""
    first, *rest = path
    return {**mapping, first: with_key(mapping[first], *rest, value=value) if rest else value}


def without_key(mapping: Mapping[Any, Any], *path: Any) -> dict[Any, Any]:
    """A copy of nested mappings without one key."""
    first, *rest = path
    if rest:
        return {**mapping, first: without_key(mapping[first], *rest)}
    return {key: value for key, value in mapping.items() if key != first}


def changed(tables: Tables, **fields: Any) -> Callable[[], Tables]:
    """The tables with whole fields replaced, made when asked for."""
    return lambda: attrs.evolve(tables, **fields)


Maker = Callable[[Tables], Iterator[Mutant]]
