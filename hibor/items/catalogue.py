"""What the collector knows of a report before it has the file, and the order it keeps reports in.

The app's list is newest first, and a catalogue is filled by many scans that each read a part of it.
`ListOrder` gives every new report a sort key that puts it where the list had it: by day, and within a day
where it stood among reports that were known already.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any, Final

import attrs

_END: Final = "~"
_BELOW: Final = "}"  # sorts before _END and after everything else that is in a key
_MOST_PLACES: Final = 999_999


@attrs.frozen(kw_only=True)
class CatalogueEntry:
    """One report as the app's list shows it. `date` is ISO `YYYY-MM-DD`; what the app does not show is
    None.
    """

    report_id: str
    title: str
    institution: str | None = None
    date: str | None = None
    analysts: tuple[str, ...] | None = None
    stock_code: str | None = None
    stock_name: str | None = None
    industry: str | None = None
    report_type: str | None = None
    rating: str | None = None
    page_count_hint: int | None = None

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready values; analysts as a list."""
        values = attrs.asdict(self)
        values["analysts"] = None if self.analysts is None else list(self.analysts)
        return values

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> CatalogueEntry:
        """The entry `to_dict` was called on."""
        analysts = values.get("analysts")
        return cls(**{**values, "analysts": None if analysts is None else tuple(analysts)})

    def filled_from(self, other: CatalogueEntry) -> CatalogueEntry:
        """This entry with what only `other` knows: a row that was partly out of sight shows less than it
        has.
        """
        mine, theirs = attrs.asdict(self, recurse=False), attrs.asdict(other, recurse=False)
        return CatalogueEntry(**{key: theirs[key] if value is None else value for key, value in mine.items()})


class ListOrder:
    """Sort keys for one scan, which reads downwards. The greatest key is the newest report.

    A key begins with the report's day (ISO). A report below a known one of the same day sorts right behind
    that one, before what earlier scans put there; any other sorts before all that earlier scans found of
    its day.
    """

    def __init__(self, begun_at: datetime, day: str) -> None:
        """`begun_at` (aware) is when the scan began, `day` the phone's day then, for reports without a
        date.
        """
        self._begun = begun_at.astimezone(UTC).isoformat(timespec="milliseconds")
        self._day = day
        self._above: str | None = None
        self._place = _MOST_PLACES

    def passed(self, key: str) -> None:
        """A report that the catalogue knows already was read: what follows stands below it."""
        self._above = key
        self._day = key[:10]

    def next_key(self, day: str | None) -> str:
        """The key of a new report of `day` (ISO; None: the day of the report above it)."""
        self._day = day or self._day
        self._place -= 1
        place = f"{self._begun}|{self._place:06}{_END}"
        if self._above is None or self._above[:10] != self._day:
            return f"{self._day}|{place}"
        return f"{self._above.removesuffix(_END)}{_BELOW}{place}"
