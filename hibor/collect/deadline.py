"""The run's window (rulings R26, R27).

1. The window is measured on the clock's monotonic time line from the moment the run starts.
2. Soft deadline = deadline - closing reserve: no phone work begins after it.
3. Hard deadline: a step into P06-P09 that becomes durable after it is late; one not begun is expired.
4. An interrupt moves both to now. A tap in flight is settled all the same.
"""

from __future__ import annotations

import threading
from copy import copy

from hibor.clock import Clock
from hibor.items.failures import EffectFailure
from hibor.messages import RUN_INTERRUPTED


class Deadline:
    """The window of one run, in seconds of the clock's time line."""

    def __init__(self, clock: Clock, deadline_s: float, closing_reserve_s: float) -> None:
        """`closing_reserve_s` is kept free for the host lane; at most a tenth of the window is reserved."""
        self._clock = clock
        self.started_s = clock.monotonic_s()
        self.deadline_s = deadline_s
        self._hard_s = self.started_s + deadline_s
        self._soft_s = self._hard_s - min(closing_reserve_s, deadline_s / 10)
        self._interrupted = threading.Event()

    def within(self, budget_s: float) -> Deadline:
        """This window with at most `budget_s` seconds of phone work from now on (recovery in a run's
        preflight).
        """
        part = copy(self)
        part._soft_s = min(self._soft_s, self._clock.monotonic_s() + budget_s)
        return part

    @property
    def interrupted(self) -> bool:
        """True once the run was interrupted."""
        return self._interrupted.is_set()

    def interrupt(self) -> None:
        """Move the deadline to now (ruling R26). Safe to call from a signal handler."""
        self._interrupted.set()

    def elapsed_s(self) -> float:
        """Seconds since the run started."""
        return self._clock.monotonic_s() - self.started_s

    def remaining_s(self) -> float:
        """Seconds of phone work left before the soft deadline, 0 when it has passed."""
        if self.interrupted:
            return 0.0
        return max(0.0, self._soft_s - self._clock.monotonic_s())

    @property
    def soft_passed(self) -> bool:
        """True when no phone work may begin."""
        return self.remaining_s() <= 0

    @property
    def hard_passed(self) -> bool:
        """True when nothing may become durable in time any more."""
        return self.interrupted or self._clock.monotonic_s() > self._hard_s

    @property
    def over(self) -> str:
        """What ended the window, for details: the same code stands for both (ruling R26)."""
        return RUN_INTERRUPTED if self.interrupted else "the window closed"

    def require_phone_time(self, need_s: float = 0.0) -> None:
        """Raise the failure `deadline` when fewer than `need_s` seconds of phone work are left."""
        if self.remaining_s() <= need_s:
            raise EffectFailure("deadline", f"{self.over} before this step began")

    def require_host_time(self) -> None:
        """Raise the failure `deadline` when the hard deadline has passed."""
        if self.hard_passed:
            raise EffectFailure("deadline", f"{self.over} before this step began")
