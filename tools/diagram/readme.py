"""The README's picture of the contract: both matrices in one table, the machine as Mermaid, between markers.

What stands between the markers is made here and never edited by hand; `--check` says whether it is current.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

from generated.evidence import OBJECTS
from generated.presence import LANES, MATRIX, STATE_SHORT

from .graph import machines

BEGIN: Final = "<!-- tools.diagram begins: python -m tools.diagram --readme README.md -->"
END: Final = "<!-- tools.diagram ends -->"
_UNREACHABLE: Final = "X"


def render_readme() -> str:
    """The block with its markers."""
    folded = "<details><summary>The machine</summary>"
    picture = [folded, "", "```mermaid", *_mermaid(), "```", "", "</details>"]
    return "\n".join([BEGIN, "", *_table(), "", *picture, "", END])


def _table() -> list[str]:
    """One row a state: what each object may be, in the objects' order."""
    head = " ".join(OBJECTS)
    lines = [
        "| state | " + " | ".join(f"{lane}: {head}" for lane in LANES) + " |",
        "|---" * (len(LANES) + 1) + "|",
    ]
    for state in MATRIX[LANES[0]]:
        cells = " | ".join(_row(MATRIX[lane][state]) for lane in LANES)
        lines.append(f"| {STATE_SHORT[state]} {state.partition('_')[2]} | {cells} |")
    return lines


def _row(cells: tuple[str, ...]) -> str:
    if all(cell == _UNREACHABLE for cell in cells):
        return "not in this lane"
    return "`" + " ".join("/".join(cell) for cell in cells) + "`"


def _mermaid() -> list[str]:
    """Both lanes in one picture: an arrow only the second lane has names it; closures stand at their states.
    """
    arrows: dict[tuple[str, str], dict[str, list[str]]] = {}
    closures: dict[str, list[str]] = {}
    for machine in machines():
        for arrow in machine.arrows:
            ends = (_short(arrow.source), _short(arrow.target))
            if ends[0] != ends[1]:
                arrows.setdefault(ends, {}).setdefault(machine.lane, []).extend(arrow.events)
        for node in machine.nodes:
            closures.setdefault(_short(node.name), []).extend(node.closures)
    lines = ["stateDiagram-v2", "  direction LR"]
    for (source, target), by_lane in arrows.items():
        events = dict.fromkeys(event for its in by_lane.values() for event in its)
        alone = f" ({next(iter(by_lane))})" if next(iter(by_lane)) != LANES[0] else ""
        lines.append(f"  {source} --> {target}: {', '.join(events)}{alone}")
    closed = {short: " ".join(sorted(set(names))) for short, names in closures.items() if names}
    return [*lines, *(f"  {short} --> [*]: {names}" for short, names in closed.items())]


def _short(node: str) -> str:
    return node[:3]


def with_block(text: str) -> str:
    """A README with the block as it is now. Raises ValueError where the markers are missing."""
    before, begin, rest = text.partition(BEGIN)
    _old, end, after = rest.partition(END)
    if not begin or not end:
        raise ValueError("no markers for the generated block")
    return before + render_readme() + after


def is_current(path: Path) -> bool:
    """Whether a README shows the tables as they are. Raises OSError, ValueError."""
    text = path.read_text(encoding="utf-8")
    return with_block(text) == text
