"""Time as one object.

Everything that waits, measures or stamps asks a `Clock`, never the `time` module. On a real phone the
`SystemClock` is used. With the simulated phone the composition root hands the same scaled time line to the
phone and to the collector, so that latencies, waits, the deadline and the phone's `date` shrink together.
"""

from __future__ import annotations

import time
from datetime import UTC, datetime, timedelta
from typing import Protocol

import attrs


class Clock(Protocol):
    """What the collector may know about time."""

    def now(self) -> datetime:
        """The host's wall clock, aware (UTC)."""

    def monotonic_s(self) -> float:
        """Seconds that only go forward; differences are durations on this clock's time line."""

    def sleep(self, wait_s: float) -> None:
        """Wait for `wait_s` seconds of this clock's time line; nothing for zero or less."""


class SystemClock:
    """The machine's own clocks, unscaled."""

    def now(self) -> datetime:
        """Wall clock, aware (UTC)."""
        return datetime.now(UTC)

    def monotonic_s(self) -> float:
        """Seconds of the machine's monotonic clock."""
        return time.monotonic()

    def sleep(self, wait_s: float) -> None:
        """Sleep for real."""
        if wait_s > 0:
            time.sleep(wait_s)


@attrs.frozen
class ScaledClock:
    """A time line on which `scale` seconds pass during one real second.

    `anchor_wall` (aware) is what `now()` said when the real clock `time.time()` read `anchor_real_s`. Two
    processes that hold the same three values read the same time.
    """

    scale: float
    anchor_wall: datetime
    anchor_real_s: float

    def now(self) -> datetime:
        """Wall clock of the scaled time line, aware (UTC)."""
        passed_s = (time.time() - self.anchor_real_s) * self.scale
        return (self.anchor_wall + timedelta(seconds=passed_s)).astimezone(UTC)

    def monotonic_s(self) -> float:
        """Scaled seconds of the machine's monotonic clock."""
        return time.monotonic() * self.scale

    def sleep(self, wait_s: float) -> None:
        """Wait `wait_s` scaled seconds, `wait_s / scale` real ones."""
        if wait_s > 0:
            time.sleep(wait_s / self.scale)
