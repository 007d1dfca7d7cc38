"""The item machine as Mermaid and the two matrices as Markdown tables."""

from __future__ import annotations

from generated.evidence import OBJECT_NAMES, OBJECTS
from generated.presence import LANES, MATRIX, STATE_SHORT

from .graph import closed_state, machines


def _mermaid_id(lane: str, node: str) -> str:
    return f"{lane}_{node}".replace("-", "_")


def render_mermaid() -> str:
    """A `stateDiagram-v2` with one composite state a lane; closing edges carry short names."""
    lines = ["stateDiagram-v2"]
    for machine in machines():
        lines.append(f"  state {machine.lane} {{")
        for node in machine.nodes:
            lines.append(f'    state "{node.title}" as {_mermaid_id(machine.lane, node.name)}')
        lines.append(f"    [*] --> {_mermaid_id(machine.lane, machine.nodes[0].name)}")
        for arrow in machine.arrows:
            source, target = (_mermaid_id(machine.lane, name) for name in (arrow.source, arrow.target))
            lines.append(f"    {source} --> {target}: {', '.join(arrow.events)}")
        for node in machine.nodes:
            if node.closures:
                lines.append(f"    {_mermaid_id(machine.lane, node.name)} --> [*]: {' '.join(node.closures)}")
        lines.append("  }")
    return "\n".join(lines) + "\n"


def render_markdown() -> str:
    """Both matrices; a cell shows the letters that the object may have in the state."""
    parts: list[str] = []
    for lane in LANES:
        head = " | ".join(f"{name} {OBJECT_NAMES[name]}" for name in OBJECTS)
        parts += [f"## {lane}", "", f"| state | {head} |", "|---" * (len(OBJECTS) + 1) + "|"]
        for state, cells in MATRIX[lane].items():
            shown = " | ".join("/".join(cell) for cell in cells)
            parts.append(f"| {STATE_SHORT[state]} {state.partition('_')[2]} | {shown} |")
        closed = closed_state()
        parts += [
            "",
            f"{STATE_SHORT[closed]} {closed.partition('_')[2]} has no row: its closure describes it.",
            "",
        ]
    return "\n".join(parts)
