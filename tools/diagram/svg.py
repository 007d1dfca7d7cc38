"""The item machine as one self-contained SVG: no script, no font, no link; for light and dark pages.

Sizes are in SVG user units. Equal tables give equal bytes.
"""

from __future__ import annotations

from xml.sax.saxutils import escape

from .graph import Arrow, Machine, Node, closed_state, machines

BOX_WIDTH, BOX_HEIGHT = 216, 50
COLUMN_STEP, ROW_STEP = 300, 92
MARGIN, TOP = 100, 64
LINE_HEIGHT = 12

INK, PAPER, SOFT, LINE, END, DOUBT = "#1d2733", "#ffffff", "#eef2f6", "#5b6b7b", "#1f7a4d", "#b4531a"

# Light colours are attributes, so that viewers without style sheets show them; classes are for dark pages.
STYLE = """
@media (prefers-color-scheme: dark) {
  .page { fill: #12181f; } text { fill: #e6edf3; } .work { fill: #94a3b3; } .ends { fill: #5fcf97; }
  .box { fill: #1e2833; stroke: #94a3b3; } .doubt { stroke: #f0a063; }
  .arrow { stroke: #94a3b3; } .tip { fill: #94a3b3; }
}
"""


def _corner(node: Node, left: int) -> tuple[int, int]:
    return left + MARGIN + node.column * COLUMN_STEP, TOP + node.row * ROW_STEP


def _box(node: Node, left: int) -> list[str]:
    x, y = _corner(node, left)
    doubt = node.name.endswith("-U")
    kind = (
        f'class="box doubt" stroke="{DOUBT}" stroke-dasharray="4 3"'
        if doubt
        else f'class="box" stroke="{LINE}"'
    )
    ends = (
        f'<tspan class="ends" fill="{END}" font-weight="600"> → {" ".join(node.closures)}</tspan>'
        if node.closures
        else ""
    )
    return [
        f'<g><title>{escape(node.name)}</title><rect {kind} fill="{SOFT}" x="{x}" y="{y}" '
        f'width="{BOX_WIDTH}" height="{BOX_HEIGHT}" rx="7"/>',
        f'<text font-weight="600" fill="{INK}" x="{x + 10}" y="{y + 20}">{escape(node.title)}</text>',
        f'<text class="work" fill="{LINE}" x="{x + 10}" y="{y + 38}">{escape(node.work)}{ends}</text></g>',
    ]


def _label(x: float, y: float, events: tuple[str, ...], anchor: str) -> str:
    first = y - (len(events) - 1) * LINE_HEIGHT / 2
    spans = "".join(
        f'<tspan x="{x:g}" y="{first + index * LINE_HEIGHT:g}">{escape(event)}</tspan>'
        for index, event in enumerate(events)
    )
    return f'<text class="event" fill="{INK}" text-anchor="{anchor}">{spans}</text>'


def _arrow(arrow: Arrow, source: Node, target: Node, left: int) -> list[str]:
    (sx, sy), (tx, ty) = _corner(source, left), _corner(target, left)
    middle_s, middle_t = sy + BOX_HEIGHT / 2, ty + BOX_HEIGHT / 2
    if source.row == target.row:
        path = f"M{sx + BOX_WIDTH} {middle_s:g} H{tx - 6}"
        label = _label(
            (sx + BOX_WIDTH + tx) / 2, middle_s - 5 - (len(arrow.events) - 1) * 6, arrow.events, "middle"
        )
    elif target.row < source.row:
        path = f"M{sx} {middle_s:g} C{sx - 46} {middle_s:g} {tx - 46} {middle_t:g} {tx - 6} {middle_t:g}"
        label = _label(sx - 40, (middle_s + middle_t) / 2 + 4, arrow.events, "end")
    elif source.column == target.column:
        x = sx + BOX_WIDTH / 2
        path = f"M{x:g} {sy + BOX_HEIGHT} V{ty - 6}"
        label = _label(x + 8, (sy + BOX_HEIGHT + ty) / 2 + 4, arrow.events, "start")
    else:
        start_x, end_x = sx + BOX_WIDTH / 2, tx + BOX_WIDTH / 2
        turn = (sy + BOX_HEIGHT + ty) / 2
        path = f"M{start_x:g} {sy + BOX_HEIGHT} V{turn:g} H{end_x:g} V{ty - 6}"
        label = _label((start_x + end_x) / 2, turn - 4, arrow.events, "middle")
    return [f'<path class="arrow" fill="none" stroke="{LINE}" marker-end="url(#tip)" d="{path}"/>', label]


def _lane(machine: Machine, left: int) -> list[str]:
    by_name = {node.name: node for node in machine.nodes}
    parts = [
        f'<text font-size="15" font-weight="600" fill="{INK}" x="{left + MARGIN}" y="36">'
        f"{escape(machine.lane)}</text>"
    ]
    for arrow in machine.arrows:
        parts.extend(_arrow(arrow, by_name[arrow.source], by_name[arrow.target], left))
    for node in machine.nodes:
        parts.extend(_box(node, left))
    return parts


def _width(machine: Machine) -> int:
    columns = 1 + max(node.column for node in machine.nodes)
    return 2 * MARGIN + (columns - 1) * COLUMN_STEP + BOX_WIDTH


def render_svg() -> str:
    """Both lanes side by side as an SVG document."""
    parts: list[str] = []
    left = height = 0
    for machine in machines():
        parts.extend(_lane(machine, left))
        left += _width(machine)
        height = max(height, TOP + ROW_STEP * (1 + max(node.row for node in machine.nodes)))
    note = f"→ Cnn: closures that take the item from here to {closed_state()}. Dashed: evidence in doubt."
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {left} {height + 30}" '
            f'font-family="sans-serif" font-size="11" role="img" aria-label="The item machine, both lanes">',
            f"<style>{STYLE}</style>",
            '<defs><marker id="tip" viewBox="0 0 8 8" refX="2" refY="4" markerWidth="7" markerHeight="7" '
            'orient="auto"><path class="tip" fill="' + LINE + '" d="M0 0 L8 4 L0 8 z"/></marker></defs>',
            f'<rect class="page" fill="{PAPER}" width="{left}" height="{height + 30}"/>',
            *parts,
            f'<text fill="{INK}" x="{MARGIN}" y="{height + 10}">{escape(note)}</text>',
            "</svg>",
            "",
        ]
    )
