"""Looking a report up in the app's own download history, over as many screens as it needs.

Rules of this file: only swipes, no tap beyond the way into the history and back; the newest entries come
first, so the search ends with the report, with a screen that two swipes did not change, or with its bound.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Final

from hibor.device.navigate import App
from hibor.device.reading import HistoryRow, read_history
from hibor.device.screens import require_accepted

MOST_SCREENS: Final = 12
STILL_SWIPES: Final = 2


def in_history(app: App, report_id: str, *, may_go_on: Callable[[], bool] = lambda: True) -> bool:
    """Whether the app's download history has the report; ends on the list again.

    `may_go_on` is asked before each further screen. False where the profile knows no history. Raises
    `DeviceError`.
    """
    rows = app.open_history()
    try:
        return _search(app, rows, report_id, may_go_on)
    finally:
        app.close_history()


def _search(app: App, rows: tuple[HistoryRow, ...], report_id: str, may_go_on: Callable[[], bool]) -> bool:
    still = 0
    for _ in range(MOST_SCREENS):
        if any(row.report_id == report_id for row in rows):
            return True
        if len(rows) < 3 or still >= STILL_SWIPES or not may_go_on():
            return False
        before = [(row.report_id, row.node.bounds) for row in rows]
        rows = _next_screen(app, rows)
        still = still + 1 if [(row.report_id, row.node.bounds) for row in rows] == before else 0
    return False


def _next_screen(app: App, rows: tuple[HistoryRow, ...]) -> tuple[HistoryRow, ...]:
    """The last row but one goes to where the first one was: the last may be cut off, and the finger stays
    away from the screen's edge, where a swipe means something else."""
    looker, (x, top), (_x, bottom) = app.looker, rows[0].node.bounds.center, rows[-2].node.bounds.center
    duration_ms = math.ceil((bottom - top) / app.profile.pace.swipe_px_per_s * 1000)
    require_accepted(app.device.swipe(x, bottom, x, top, duration_ms))
    app.clock.sleep(app.profile.pace.swipe_settle_s)
    looker.changed()
    return read_history(looker.look("history"), app.profile, looker.phone_now())
