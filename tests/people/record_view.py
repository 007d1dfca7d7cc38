"""The main job with its live view recorded: `python -m tests.people.record_view OUT.svg [run options]`.

Rules of this file: the run is a real one of the simulated phone; only the terminal is a recording one. The
frame that is kept is the last one with at most `SHARE` of the reports delivered, as SVG without a web font.
"""

from __future__ import annotations

import html
import io
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TextIO

from rich.cells import cell_len
from rich.console import Console, RenderableType

from hibor import run
from hibor.people import live_view, progress

COLUMNS, LINES, SHARE = 100, 26, 0.6
SPAN = re.compile(
    r'(?P<before><text [^>]*)textLength="(?P<width>[\d.]+)"(?P<after>[^>]*>)(?P<text>[^<]*)</text>'
)
WEB_FONT = re.compile(r"@font-face \{.*?\}\s*", re.DOTALL)


class RecordedView(live_view.LiveView):
    """Draws on a terminal that nobody sees, and keeps what a picture is made of."""

    frames: list[tuple[float, RenderableType]]

    @staticmethod
    def make_console(stream: TextIO) -> Console:
        """A terminal of a fixed size."""
        del stream
        return Console(file=io.StringIO(), width=COLUMNS, height=LINES, force_terminal=True, highlight=False)

    def _drawn(self) -> RenderableType:
        drawn = super()._drawn()
        rows = self.board.seen().rows.values()
        done = sum(row.status in live_view.DELIVERED for row in rows)
        FRAMES.append((done / len(rows) if rows else 0.0, drawn))
        return drawn


FRAMES: list[tuple[float, RenderableType]] = []


def as_svg(frame: RenderableType) -> str:
    """A frame as a picture that loads nothing from anywhere."""
    console = Console(
        record=True, file=io.StringIO(), width=COLUMNS, force_terminal=True, color_system="truecolor"
    )
    console.print(frame)
    return SPAN.sub(_as_wide_as_its_cells, WEB_FONT.sub("", console.export_svg(title="hibor run")))


def _as_wide_as_its_cells(found: re.Match[str]) -> str:
    """A piece of text with the length it has on a terminal; the exporter counts every character once."""
    text = html.unescape(found["text"])
    width = float(found["width"]) / max(1, len(text)) * cell_len(text)
    return f'{found["before"]}textLength="{width:g}"{found["after"]}{found["text"]}</text>'


def wanted(frames: list[tuple[float, RenderableType]]) -> Iterator[RenderableType]:
    """Frames from the middle of the run, the latest first."""
    return (frame for share, frame in reversed(frames) if 0 < share <= SHARE)


def main(target: Path, options: list[str]) -> int:
    """Run, and write the picture."""
    live_view.LiveView = RecordedView  # type: ignore[misc]
    progress.can_show_a_view = lambda stream, environment=None: True  # type: ignore[assignment]
    code = run.main(options)
    target.write_text(as_svg(next(wanted(FRAMES))), "utf-8")
    return code


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), sys.argv[2:]))
