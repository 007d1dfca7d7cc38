"""What a check of the audit says: counts of what it enumerated, and what is wrong, in five words.

gap: the contract defines a case and the tables do not decide it as defined. overlap: two rows accept one
input. shadowed: a row that an earlier one always takes the place of. conflicting: the tables say something
else than the contract, or two tables disagree. unreachable: nothing leads there.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import attrs

WORDS: Final = ("gap", "overlap", "shadowed", "conflicting", "unreachable")


@attrs.frozen
class Violation:
    """One fault with its smallest counterexample; `table` is the file of spec/ it is about."""

    word: str
    table: str
    text: str
    example: str = ""

    def __attrs_post_init__(self) -> None:
        if self.word not in WORDS:
            raise ValueError(f"{self.word} is not one of {WORDS}")

    def to_dict(self) -> dict[str, str]:
        """JSON-ready."""
        return attrs.asdict(self)

    def __str__(self) -> str:
        return f"{self.word} [{self.table}] {self.text}" + (f": {self.example}" if self.example else "")


@attrs.frozen
class Check:
    """What one check enumerated and found. `notes` are worth reading and no faults; `says` is what it
    compared.
    """

    name: str
    counts: Mapping[str, int]
    violations: tuple[Violation, ...] = ()
    notes: tuple[str, ...] = ()
    details: Mapping[str, Any] = attrs.field(factory=dict)
    says: str = ""

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready."""
        return {
            "name": self.name,
            "says": self.says,
            "counts": dict(self.counts),
            "violations": [violation.to_dict() for violation in self.violations],
            "notes": list(self.notes),
        }
