"""What a check says: rows, and the report they make."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final, Literal

import attrs

from hibor.people.commandline import DONE, FOUND, WARNINGS

Status = Literal["ok", "warn", "fail", "skip"]
READY: Final = "READY"
READY_WITH_WARNINGS: Final = "READY_WITH_WARNINGS"
BLOCKED: Final = "BLOCKED"


@attrs.frozen
class Row:
    """One check: its stable name, the anchor or folder it is about, its state, and texts for people."""

    check: str
    status: Status
    detail: str
    fix: str = ""
    about: str = ""

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready values."""
        return attrs.asdict(self)


class Stop(Exception):
    """A check failed on which all later ones rest."""

    def __init__(self, row: Row) -> None:
        super().__init__(row.detail)
        self.row = row


def verdict(rows: Iterable[Row]) -> tuple[str, int]:
    """(status, exit code) of a set of rows: 0 ready, 1 blocked, 2 ready with warnings."""
    states = {row.status for row in rows}
    if "fail" in states:
        return BLOCKED, FOUND
    return (READY_WITH_WARNINGS, WARNINGS) if "warn" in states else (READY, DONE)
