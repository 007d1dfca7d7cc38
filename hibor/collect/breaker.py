"""What stops the NEW lane for the rest of a run (design 1 "Circuit breaker", "Canary").

Reuse goes on in any case. The counts per code are the contract's (`spec/governance.yaml` `breaker`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from fsm import Tables


class CircuitBreaker:
    """Counts what NEW items stopped with and opens once a code was seen too often."""

    def __init__(self, limits: Mapping[str, int] | None = None) -> None:
        self._limits = Tables.default().breaker if limits is None else limits
        self._seen: Counter[str] = Counter()
        self.reason: str | None = None

    @property
    def open(self) -> bool:
        """True when no further NEW item may be opened."""
        return self.reason is not None

    def note(self, code: str | None) -> None:
        """Count what a NEW item stopped with; None for a delivered one."""
        if code is None:
            return
        self._seen[code] += 1
        limit = self._limits.get(code)
        if self.reason is None and limit is not None and self._seen[code] >= limit:
            self.reason = code

    def trip(self, code: str) -> None:
        """Open it at once: the run itself met `code`, or quota is exhausted."""
        if self.reason is None:
            self.reason = code


class Canary:
    """One report is triggered and verified before a second is reserved, for a phone and app not yet proven.

    `proven` says that this (phone model, app version, profile) has delivered a NEW report before.
    """

    def __init__(self, proven: bool) -> None:
        self._proven = proven
        self._sent = False

    @property
    def must_wait(self) -> bool:
        """True while the first NEW item's outcome is still needed before a second may be opened."""
        return self._sent and not self._proven

    def sent(self) -> None:
        """A NEW item was opened."""
        self._sent = True

    def delivered(self) -> None:
        """A NEW item was verified."""
        self._proven = True
