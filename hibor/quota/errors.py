"""What can be wrong with a ledger or a reservation, in words a person can act on.

Each class has `failure`, a word of the stage table. `LedgerInvalid` and `ReplayConflict` say what, where and
what to do now; the others say what was decided and on which figures.
"""

from __future__ import annotations

from pathlib import Path
from typing import ClassVar

REPAIR_ADVICE = "run `python -m hibor.ledger repair`, which moves only that unfinished line aside"
COPY_ADVICE = (
    "nothing was written and no new report will be opened; compare with a backup of the folder, "
    "put the whole file back, then run `python -m hibor.ledger verify`"
)


class QuotaError(Exception):
    """Base of everything the ledger raises on purpose."""

    failure: ClassVar[str] = "unexpected"


class LedgerInvalid(QuotaError):
    """The ledger is torn, altered, reordered, shortened, or its last append is in doubt (ruling R28).

    `line` counts from 1; 0 when the fault is not in a line. `torn` when only an unfinished last line is
    wrong.
    """

    failure = "ledger_invalid"

    def __init__(
        self, path: Path, line: int, what: str, *, now: str = COPY_ADVICE, torn: bool = False
    ) -> None:
        where = f"{path.name} line {line}" if line else path.name
        super().__init__(f"{where}: {what}. What now: {now}")
        self.path = path
        self.line = line
        self.where = where
        self.what = what
        self.what_now = now
        self.torn = torn


class ReplayConflict(QuotaError):
    """The same event with another payload, or an event its family no longer takes."""

    failure = "replay_conflict"


class QuotaExhausted(QuotaError):
    """Nothing may be reserved; `safe_available` is what is left (zero or less)."""

    failure = "quota_exhausted"

    def __init__(self, day: str, safe_available: int, limit: int, label: int | None) -> None:
        shown = "" if label is None else f", the app shows {label}"
        super().__init__(f"no quota left on {day}: {safe_available} available (limit {limit}{shown})")
        self.day = day
        self.safe_available = safe_available
        self.limit = limit
        self.label = label


class AlreadyPaid(QuotaError):
    """The report has a paid or attempted family; only a confirmed retrigger may open another one.

    `evidence` are the ids of the earlier reservations, `retry_after_s` the seconds until a retrigger is
    allowed (0 when one is allowed now).
    """

    failure = "already_paid"

    def __init__(self, report_id: str, evidence: tuple[str, ...], retry_after_s: float, why: str) -> None:
        super().__init__(f"report {report_id}: {why}")
        self.report_id = report_id
        self.evidence = evidence
        self.retry_after_s = retry_after_s


class ClockInvalid(QuotaError):
    """The host's clock cannot be trusted for a reservation."""

    failure = "clock_invalid"


class QuotaDateUncertain(QuotaError):
    """Too close to the quota day's boundary, or the day changed since it was decided."""

    failure = "day_boundary"
