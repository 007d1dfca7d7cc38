"""Numbers and durations of a command line, each with the range that makes sense.

Rules of this file: a value that cannot be used is refused with the form that is wanted; the sentence is the
same for every command, so that the catalogue tells it in the reader's language (`sentences`).
"""

from __future__ import annotations

import math
import re
from typing import Final

import click

from hibor.limits import MOST_DAYS, MOST_REPORTS, MOST_SECONDS

__all__ = ("FASTEST", "LONGEST_S", "MOST_DAYS", "MOST_REPORTS", "Number", "duration_s")

LONGEST_S: Final = float(MOST_SECONDS)
"""The longest window, and the longest wait for a phone."""
FASTEST: Final = 1_000.0
"""The fastest clock of the practice phone under a run."""
_DURATION: Final = re.compile(r"(\d{1,9}(?:\.\d{1,9})?)\s*([smh])?", re.ASCII)
_SECONDS: Final = {"s": 1.0, "m": 60.0, "h": 3600.0, None: 1.0}


class Number(click.ParamType[float]):
    """A number from `least` to `most`; whole where both are whole numbers."""

    name = "number"

    def __init__(self, least: float, most: float) -> None:
        self.least, self.most = least, most
        self.whole = isinstance(least, int) and isinstance(most, int)

    def convert(
        self, value: object, param: click.Parameter | None, ctx: click.Context | None
    ) -> int | float:
        """The number. Fails with the range that is wanted."""
        try:
            found = int(str(value)) if self.whole else float(str(value))
        except ValueError:
            found = math.nan
        if not self.least <= found <= self.most:  # neither is nan
            kind = "a whole number" if self.whole else "a number"
            shown = str(value) if len(str(value)) <= 40 else f"{str(value)[:37]}…"
            wanted = f"{kind} from {_shown(self.least)} to {_shown(self.most)}"
            self.fail(f"{shown!r} is not {wanted}.", param, ctx)
        return found


def _shown(limit: float) -> str:
    return str(int(limit)) if limit == int(limit) else str(limit)


def duration_s(text: str) -> float:
    """`90s`, `30m`, `1h` or plain seconds, a week at most. Raises ValueError."""
    found = _DURATION.fullmatch(text.strip())
    wait_s = math.inf if found is None else float(found[1]) * _SECONDS[found[2]]
    if wait_s > LONGEST_S:
        raise ValueError(f"{text[:40]!r} is not a duration such as 90s, 30m or 1h, and a week at most")
    return wait_s
