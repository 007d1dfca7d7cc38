"""What two looks at a list have in common: where its rows are, which of them stayed, which one can be tapped.

Rules of this file: pure functions of what was read; a row that is only partly known proves nothing.
"""

from __future__ import annotations

from typing import Final

from hibor.device.reading import ListRow, ListScreen

_SWIPE_OVERLAP_ROWS: Final = 1


def positions(screen: ListScreen) -> tuple[tuple[tuple[str, ...], int], ...]:
    """What is on the screen and where: two equal values mean that nothing moved."""
    return tuple((row.key, row.visible.top) for row in screen.rows)


def overlap(before: ListScreen, after: ListScreen) -> bool:
    """Whether at least one report is whole on both screens."""
    old = {row.key for row in before.rows if row.kind in ("report", "pinned") and row.report_id}
    new = {row.key for row in after.rows if row.kind in ("report", "pinned") and row.report_id}
    return len(old & new) >= _SWIPE_OVERLAP_ROWS


def row_of(screen: ListScreen, report_id: str) -> ListRow | None:
    """The report's row on this screen, the unpinned one first, if enough of it is visible to be tapped."""
    found = [r for r in screen.rows if r.report_id == report_id and r.visible.height >= 40]
    found.sort(key=lambda r: r.kind != "report")
    return found[0] if found else None
