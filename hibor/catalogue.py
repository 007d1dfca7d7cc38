"""What the collector knows of a report before it has the file."""

from __future__ import annotations

from typing import Any

import attrs


@attrs.frozen(kw_only=True)
class CatalogueEntry:
    """One report as the app's list shows it. `date` is ISO `YYYY-MM-DD`; what the app does not show is None."""

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
