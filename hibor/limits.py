"""The largest numbers a task file or a command line may hold: more than any use has, and less than what a
date, a database or a clock cannot hold.
"""

from __future__ import annotations

from typing import Final

MOST_SECONDS: Final = 604_800
"""A week: of a window, a pause, a wait for a phone."""
MOST_DAYS: Final = 36_500
MOST_REPORTS: Final = 10_000
"""Of a list, a run, a day's quota; also pages."""
