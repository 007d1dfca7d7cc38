"""The live view of a run on a terminal: what is drawn from the board, and when.

Rules of this file:

* Imported only where a view is shown: `rich` costs a tenth of a second that a run without one does not pay.
* One thread draws, a few times a second, from a copy of the facts. Nothing else of the run waits for the
  terminal; a drawing that fails is left out, the run goes on.
* Every line fits the terminal's width, Chinese counted double. Stages are coloured cells with plain ASCII
  marks, because the width of box and block characters differs between Chinese consoles.
* The region is wiped when the run ends; `last_frame` then prints the whole of it once, below whatever stdout
  has said, so that it is what a person finds.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, TextIO

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.table import Table
from rich.text import Text

from hibor.messages import text
from hibor.people.board import Board, Row

REFRESHES_PER_S: Final = 4
SHOWN_EVENTS: Final = 3
SHOWN_WARNINGS: Final = 3
LEAST_ROWS: Final = 3
GRID_FROM_COLUMNS: Final = 70
BAR_CELLS: Final = 20
DELIVERED: Final = ("SUCCESS", "DUPLICATE")
NEW: Final = "NEW_TRIGGER"

DONE, NOW, AHEAD, SKIPPED, BAD = "done", "now", "ahead", "skipped", "bad"
MARKS: Final = {DONE: "==", AHEAD: " .", SKIPPED: " -", BAD: "xx"}
STYLES: Final = {
    DONE: "black on green",
    NOW: "bold black on yellow",
    AHEAD: "bright_black",
    SKIPPED: "bright_black",
    BAD: "bold white on red",
}


class LiveView:
    """Draws a board on a terminal until it is closed."""

    def __init__(self, board: Board, lang: str, stream: TextIO) -> None:
        self.board, self.lang = board, lang
        self.console = self.make_console(stream)
        self._live = Live(
            console=self.console,
            get_renderable=self._drawn,
            refresh_per_second=REFRESHES_PER_S,
            transient=True,
            redirect_stdout=False,
            redirect_stderr=False,
            vertical_overflow="crop",
        )

    @staticmethod
    def make_console(stream: TextIO) -> Console:
        """The terminal that is drawn on."""
        return Console(file=stream, highlight=False, markup=False, emoji=False)

    def open(self) -> None:
        """Begin to draw."""
        self._live.start()

    def close(self) -> None:
        """Wipe the region and give the terminal back."""
        self.board.close()
        self._live.stop()

    def last_frame(self) -> None:
        """Print the final state of everything."""
        self.console.print(self.frame(self.console.width, None))

    def _drawn(self) -> RenderableType:
        try:
            return self.frame(self.console.width, self.console.height)
        except Exception:  # a view that cannot be drawn costs nothing but the view
            return Text("")

    def frame(self, width: int, height: int | None) -> RenderableType:
        """Everything there is to see in `width` columns; `height` lines at most, None for all of it."""
        board = self.board.seen()
        below = [*self._warnings(board, height), *self._events(board, height)]
        above: list[RenderableType] = [self._heading(board), self._window(board)]
        if board.action is not None and not board.ended:
            above.append(self._action(board))
        rows = _in_order(board.rows.values())
        hidden = 0
        if height is not None:
            room = max(LEAST_ROWS, height - len(above) - len(below) - 4)
            shown = _shown(rows, room)
            hidden, rows = len(rows) - len(shown), shown
        parts = [*above]
        if rows:
            parts.append(self._grid(rows, board, width))
        if hidden:
            parts.append(self._line("more", "bright_black", count=hidden))
        return Group(*parts, *below)

    # -- parts -----------------------------------------------------------------------------------------------

    def _say(self, key: str, **facts: object) -> str:
        return text(self.lang, f"live.{key}", **facts)

    def _line(self, key: str, style: str = "", **facts: object) -> Text:
        return Text(self._say(key, **facts), style=style, no_wrap=True, overflow="ellipsis")

    def _heading(self, board: Board) -> Text:
        line = Text(self._say("title"), style="bold", no_wrap=True, overflow="ellipsis")
        if board.simulated:
            line.append(f"  {self._say('simulated')}", style="bold magenta")
        if board.phone is not None:
            line.append("  " + self._say("phone", model=board.phone[0], version=board.phone[1]))
        return line

    def _window(self, board: Board) -> Text:
        whole_s = 0.0 if board.deadline is None else board.deadline.deadline_s
        used_s = board.elapsed_s()
        left_s = board.left_s()
        used = min(BAR_CELLS, round(BAR_CELLS * used_s / whole_s)) if whole_s else 0
        line = Text(no_wrap=True, overflow="ellipsis")
        line.append(self._say("window") + " ")
        line.append("#" * used, style="blue on blue")
        line.append("." * (BAR_CELLS - used), style="bright_black")
        style = "bold red" if whole_s and left_s < whole_s / 10 else "bold"
        line.append(" " + self._say("left", left=f"{left_s:.0f}", whole=f"{whole_s:.0f}"), style=style)
        if board.quota_left is not None:
            line.append("   " + self._say("quota", left=board.quota_left))
        done = sum(row.status in DELIVERED for row in board.rows.values())
        if board.rows:
            line.append("   " + self._say("delivered", done=done, whole=len(board.rows)), style="green")
        return line

    def _action(self, board: Board) -> Text:
        assert board.action is not None
        action, wait_s = board.action, board.turn_left_s()
        line = Text(self._say("now") + " ", style="cyan", no_wrap=True, overflow="ellipsis")
        if action.key in ("open_detail", "trigger") and wait_s >= 1:
            line.append(self._say("turn", left=f"{wait_s:.0f}"))
        else:
            line.append(self._say(f"doing.{action.key}"))
        line.append(f"  {max(0.0, board.elapsed_s() - action.since_s):.0f} s")
        if action.title:
            line.append(f"  {action.title}", style="default")
        return line

    def _grid(self, rows: list[Row], board: Board, width: int) -> Table:
        stages = board.last_stage + 1
        wide = width >= GRID_FROM_COLUMNS
        table = Table(
            box=None, padding=(0, 1, 0, 0), pad_edge=False, expand=True, header_style="bright_black"
        )
        table.add_column("#", justify="right", width=3)
        table.add_column(self._say("lane"), no_wrap=True, width=6)
        table.add_column(self._say("report"), no_wrap=True, overflow="ellipsis", ratio=1)
        if wide:
            head = "".join(f"{number:<2}" if number % 2 == 0 else "  " for number in range(stages))
            table.add_column(Text(head, no_wrap=True), no_wrap=True, width=2 * stages)
        ended = max(12, min(28, (width - 2 * stages) // 4))
        table.add_column(self._say("outcome"), no_wrap=True, overflow="ellipsis", width=ended)
        for row in rows:
            number = "-" if row.number is None else f"r{row.number}" if row.recovered else str(row.number)
            cells: list[RenderableType] = [number, self._say(f"sources.{row.source}"), row.title]
            cells += [self._stages(row, board.last_stage)] if wide else []
            table.add_row(*cells, self._outcome(row, board))
        return table

    @staticmethod
    def _stages(row: Row, last: int) -> Text:
        line = Text(no_wrap=True)
        for stage in range(last + 1):
            kind = stage_kind(row, stage)
            line.append(f"{stage:02}" if kind == NOW else MARKS[kind], style=STYLES[kind])
        return line

    def _outcome(self, row: Row, board: Board) -> Text:
        if row.status in DELIVERED:
            return Text(self._say("had" if row.status == DELIVERED[0] else "had_before"), style="green")
        if row.status is not None:
            return Text(row.code or row.status, style="bold red")
        if row.stage is None:
            return Text(self._say("not_begun" if board.ended else "waiting"), style="bright_black")
        seconds = max(0.0, board.elapsed_s() - row.since_s)
        return Text(f"{row.stage:02}  {seconds:.0f} s", style="yellow")

    def _warnings(self, board: Board, height: int | None) -> list[Text]:
        told = list(board.warnings)
        if board.interrupted:
            told.append(text(self.lang, "progress.interrupted"))
        shown = told if height is None else told[-SHOWN_WARNINGS:]
        whole = height is None
        return [
            Text(f"! {line}", style="yellow", no_wrap=not whole, overflow="fold" if whole else "ellipsis")
            for line in shown
        ]

    @staticmethod
    def _events(board: Board, height: int | None) -> list[Text]:
        lines = [] if height is None else list(board.events)[-SHOWN_EVENTS:]
        return [Text(line, style="bright_black", no_wrap=True, overflow="ellipsis") for line in lines]


def stage_kind(row: Row, stage: int) -> str:
    """How a stage of a report stands: done, now, ahead, never entered (a reuse skips), or where it ended."""
    if row.stage is None or stage > row.stage:
        return AHEAD
    if stage == row.stage:
        if row.status is None:
            return NOW
        return DONE if row.status in DELIVERED else BAD
    return DONE if stage in row.passed else SKIPPED


def _in_order(rows: Iterable[Row]) -> list[Row]:
    """What is recovered, then what was opened, then what is still to come: reuse before new downloads."""

    def place(row: Row) -> tuple[bool, int]:
        still_to_come = 10_000 if row.source != NEW else 20_000
        return not row.recovered, still_to_come if row.number is None else row.number

    return sorted(rows, key=place)


def _shown(rows: list[Row], room: int) -> list[Row]:
    """The rows that fit: those under way, what comes next, then what ended last; in the run's order."""
    if len(rows) <= room:
        return rows
    under_way = [row for row in rows if row.stage is not None and row.status is None]
    ahead = [row for row in rows if row.stage is None]
    over = [row for row in reversed(rows) if row.status is not None]
    kept = {row.report_id for row in [*under_way, *ahead[:2], *over, *ahead[2:]][:room]}
    return [row for row in rows if row.report_id in kept]
