"""Ctrl-C, SIGTERM and a closed console (ruling R26).

1. While a window runs, the first signal moves its deadline to now and nothing else: a tap in flight is
   settled, items stop, the run closes. A second one ends what is under way, as a crash would; the next run
   goes on from there.
2. Before there is a window there is nothing to settle: the signal ends the run at once.
3. While the run is told (its files, the document on stdout) signals are ignored: a document is whole or
   not there.
4. The handler takes no lock and writes to no buffered stream; it may have interrupted whoever holds them.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Final

from hibor.collect.deadline import Deadline
from hibor.people.progress import Progress

_NAMES: Final = ("SIGINT", "SIGTERM", "SIGBREAK", "SIGHUP")


class Interrupts:
    """What a signal does now. `installed` is the block in which signals come here."""

    def __init__(self) -> None:
        self._deadline: Deadline | None = None
        self._progress: Progress | None = None
        self._telling = False

    def guard(self, deadline: Deadline, progress: Progress) -> None:
        """From here on there is a window to close."""
        self._deadline, self._progress = deadline, progress

    def tell(self) -> None:
        """From here on the run is told."""
        self._telling = True

    @contextmanager
    def installed(self) -> Iterator[None]:
        """Handle signals in this block; outside the main thread, where none arrive, nothing is installed."""
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        numbers = [getattr(signal, name) for name in _NAMES if hasattr(signal, name)]
        before = {number: signal.signal(number, self._handle) for number in numbers}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    def _handle(self, _number: int, _frame: FrameType | None) -> None:
        if self._telling:
            return
        if self._deadline is None or self._deadline.interrupted:
            raise KeyboardInterrupt
        self._deadline.interrupt()
        if self._progress is not None:
            self._progress.warn_from_signal("interrupted")
