"""What an item is at one instant, as plain values (V006 §3, design 3)."""

from __future__ import annotations

from typing import Any

import attrs


@attrs.frozen
class FinalFile:
    """The published PDF: path relative to the library with "/", size in bytes, lower-case sha256, pages."""

    path: str
    size_bytes: int
    sha256: str
    page_count: int


@attrs.frozen
class Closure:
    """An internal closure input: the variant and the state it was closed from."""

    variant: str
    source_state: str


@attrs.frozen
class ItemOutcome:
    """How an item ended or stopped: one of the 41 codes, and the closure if it was closed."""

    code: str
    closure: Closure | None = None


@attrs.frozen(kw_only=True)
class ItemPackageSnapshot:
    """One item's validated facts. `presence` is S F Q A M D T Z; absent facts are None, never made up."""

    run_id: str
    item_index: int
    item_id: str
    report_id: str
    source: str
    lane: str
    state: str
    presence: str
    artifact: str | None = None
    quota_state: str = "NONE"
    reservation_event_id: str | None = None
    quota_terminal_event_id: str | None = None
    artifact_event_id: str | None = None
    trigger_attempted: bool = False
    triggered: bool | None = False
    title: str | None = None
    institution: str | None = None
    date: str | None = None
    analysts: tuple[str, ...] | None = None
    final: FinalFile | None = None
    manifest_row_id: str | None = None
    cache_identity: str | None = None
    closing: str | None = None


@attrs.frozen
class TerminalItem:
    """The public item: exactly the 26 keys of the contract, in order."""

    values: tuple[tuple[str, Any], ...]

    def to_dict(self) -> dict[str, Any]:
        """The item as JSON-ready values; keys in the contract's order."""
        return dict(self.values)

    def __getitem__(self, key: str) -> Any:
        return self.to_dict()[key]
