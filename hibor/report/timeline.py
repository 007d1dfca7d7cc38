"""Where a run's time went, as a drawing: both lanes, then a row for each item.

Rules of this file: the drawing is text built from numbers; whatever is not a number is escaped. The phone's
lane and this computer's lane differ in shape as well as in colour, so that a black-and-white print can be
read.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final

from markupsafe import Markup, escape

from hibor.people.commandline import Words
from hibor.people.run_view import ItemView, StageView

WIDTH: Final = 1000
LABEL: Final = 150
ROW: Final = 22
_TOP: Final = 30
_TICKS: Final = (1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 1800, 3600)
_MOST_TICKS: Final = 12


def timeline_svg(items: Sequence[ItemView], words: Words) -> Markup | None:
    """The drawing of these items, None when none of them has a timing."""
    timed = [one for one in items if one.stages]
    if not timed:
        return None
    end_s = max(stage.to_s for one in timed for stage in one.stages) or 1.0
    scale = (WIDTH - LABEL - 10) / end_s
    height = _TOP + ROW * (len(timed) + 2) + 34
    parts = [
        f'<svg class="timeline" viewBox="0 0 {WIDTH} {height}" role="img" '
        f'aria-label="{escape(words("page.timeline"))}">',
        *_axis(end_s, scale, height, words),
        *_lane(words("page.lane.phone"), "phone", timed, 0, scale, words),
        *_lane(words("page.lane.host"), "host", timed, 1, scale, words),
    ]
    for row, one in enumerate(timed, start=2):
        title = str(one.item.get("title") or one.item.get("report_id"))
        label = f"{one.item.get('item_index')} {title}"
        parts.append(_label(label if len(label) <= 11 else label[:10] + "…", title, row))
        parts += [_bar(stage, row, scale, one, words) for stage in one.stages]
    parts += [*_legend(height, words), "</svg>"]
    return Markup("\n".join(parts))


def _lane(name: str, lane: str, items: Sequence[ItemView], row: int, scale: float, words: Words) -> list[str]:
    bars = [
        _bar(stage, row, scale, one, words) for one in items for stage in one.stages if stage.lane == lane
    ]
    return [_label(name, name, row), *bars]


def _bar(stage: StageView, row: int, scale: float, one: ItemView, words: Words) -> str:
    lane = "phone" if stage.lane == "phone" else "host"
    inset = 4 if lane == "phone" else 8
    left = LABEL + stage.from_s * scale
    width = max(1.0, (stage.to_s - stage.from_s) * scale)
    seconds = words(
        "page.timeline_bar", state=stage.state, from_s=f"{stage.from_s:.1f}", to_s=f"{stage.to_s:.1f}"
    )
    title = escape(f"{one.item.get('item_index')} · {seconds}")
    return (
        f'<rect class="{lane}" x="{left:.1f}" y="{_TOP + row * ROW + inset}" '
        f'width="{width:.1f}" height="{ROW - 2 * inset}"><title>{title}</title></rect>'
    )


def _label(shown: str, whole: str, row: int) -> str:
    return f'<text x="0" y="{_TOP + row * ROW + 15}">{escape(shown)}<title>{escape(whole)}</title></text>'


def _axis(end_s: float, scale: float, height: int, words: Words) -> list[str]:
    step = next((tick for tick in _TICKS if end_s / tick <= _MOST_TICKS), math.ceil(end_s / _MOST_TICKS))
    lines = []
    for number in range(int(end_s // step) + 1):
        at = LABEL + number * step * scale
        told = escape(words("page.seconds", seconds=number * step))
        lines.append(f'<line x1="{at:.1f}" x2="{at:.1f}" y1="{_TOP - 6}" y2="{height - 30}"></line>')
        lines.append(f'<text class="tick" x="{at:.1f}" y="16">{told}</text>')
    return lines


def _legend(height: int, words: Words) -> list[str]:
    y = height - 20
    return [
        f'<rect class="phone" x="{LABEL}" y="{y}" width="16" height="14"></rect>',
        f'<text x="{LABEL + 22}" y="{y + 12}">{escape(words("page.lane.phone"))}</text>',
        f'<rect class="host" x="{LABEL + 200}" y="{y + 4}" width="16" height="6"></rect>',
        f'<text x="{LABEL + 222}" y="{y + 12}">{escape(words("page.lane.host"))}</text>',
    ]
