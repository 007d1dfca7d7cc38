"""What people see while a run works, on stderr: a live view on a terminal, else one line for each thing that
happened.

Rules of this file:

* stdout belongs to the one JSON document.
* The words are in `messages/<lang>.toml`; a key that is missing there is a test failure, not a silent English
  line. A console that cannot show a character shows `?` in its place.
* A view only where it can be seen and is wanted: a terminal that understands cursor movements, no `--quiet`,
  no NO_COLOR. Everything else gets lines.
* While a view is shown, lines become facts on its board; both lanes go on even when the terminal stands
  still.
"""

from __future__ import annotations

import logging
import os
import sys
import threading
import tomllib
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import lru_cache
from importlib import resources
from typing import TYPE_CHECKING, Any, Final, TextIO

from hibor.collect.deadline import Deadline
from hibor.messages import failure_text, reason_text, told
from hibor.people.board import Board, plain

if TYPE_CHECKING:
    from hibor.people.live_view import LiveView

TITLE_LETTERS: Final = 80
DUMB_TERMINALS: Final = ("dumb", "unknown", "")


@lru_cache(maxsize=2)
def messages(lang: str) -> dict[str, str]:
    """The message texts of a language (`zh` or `en`), by key."""
    data = resources.files("hibor").joinpath("messages", f"{lang}.toml").read_bytes()
    return dict(tomllib.loads(data.decode())["progress"])


def _shown(name: str, value: Any) -> Any:
    """A fact as a console may show it: on one line, a title not over many, and nothing in it that moves the
    cursor or turns the line round. An app's titles hold whatever somebody typed."""
    if not isinstance(value, str):
        return value
    text = plain(value)
    return f"{text[:TITLE_LETTERS]}…" if name == "title" and len(text) > TITLE_LETTERS else text


def _silence(stream: TextIO) -> None:
    """Nobody reads the stream any more (its pipe or terminal is gone). A run goes on without a reader, and
    what is left in the stream's buffer must not fail once more when the program ends."""
    with suppress(OSError, ValueError):
        nowhere = os.open(os.devnull, os.O_WRONLY)
        try:
            os.dup2(nowhere, stream.fileno())
        finally:
            os.close(nowhere)


def can_show_a_view(stream: TextIO, environment: Mapping[str, str] | None = None) -> bool:
    """Whether a stream is a terminal on which a region can be drawn again and again."""
    known = os.environ if environment is None else environment
    dumb = known.get("TERM", "" if os.name == "posix" else "windows") in DUMB_TERMINALS
    return stream.isatty() and not dumb and not known.get("NO_COLOR")


class Progress:
    """Tells progress. Safe for both lanes."""

    def __init__(self, lang: str, *, quiet: bool = False, stream: TextIO | None = None) -> None:
        self.lang = lang
        self._texts = messages(lang)
        self._quiet = quiet
        self._stream = stream
        self._lock = threading.Lock()
        self._view: LiveView | None = None
        self._shown = False
        self._held: list[str] = []
        self.deadline: Deadline | None = None
        self.board: Board | None = None

    # -- lines -----------------------------------------------------------------------------------------------

    def say(self, key: str, **facts: Any) -> None:
        """One line, with the time left in front while a window runs."""
        if not self._quiet:
            self._tell(self._line(key, facts), warning=False)

    def warn(self, key: str, **facts: Any) -> None:
        """One line that is shown also in a quiet run."""
        self._tell(self._line(key, facts), warning=True)

    def note(self, line: str) -> None:
        """A line of the run's log; under a view it waits until the view is closed."""
        if self._shown:
            self._held.append(line)
            self._tell(line.splitlines()[0], warning=True)
        else:
            self._write(line)

    def _line(self, key: str, facts: dict[str, Any]) -> str:
        """The text with its facts. A detail is told in the reader's language: by its failure word where
        one is given, else by its code.
        """
        if self.lang != "en" and facts.get("detail"):
            failure = facts.get("failure")
            detail = (
                failure_text(self.lang, failure).rstrip("。")
                if failure
                else reason_text(self.lang, str(facts.get("code", key)), str(facts["detail"]))
            )
            facts = {**facts, "detail": detail}
        if self.lang != "en" and facts.get("owner"):
            facts = {**facts, "owner": told(self.lang, str(facts["owner"]), str(facts["owner"]))}
        return self._texts[key].format(**{name: _shown(name, value) for name, value in facts.items()})

    def warn_from_signal(self, key: str) -> None:
        """One line from a signal handler: past lock and buffer, which the interrupted code may hold."""
        if self._shown and self.board is not None:
            self.board.interrupted = True
            return
        stream = self._stream or sys.stderr
        raw = getattr(getattr(stream, "buffer", None), "raw", None)
        if raw is not None:
            raw.write(f"{self._texts[key]}\n".encode(stream.encoding or "utf-8", "replace"))

    def _tell(self, line: str, *, warning: bool) -> None:
        left = self._left()
        if self._shown and self.board is not None:
            self.board.event(f"{left}{line.strip()}", warning=warning)
        else:
            self._write(f"{left}{line}")

    def _left(self) -> str:
        """What stands before a line: the time that is left, while a window runs."""
        if self.deadline is None:
            return ""
        if self.deadline.interrupted:
            return self._texts["left_interrupted"]
        return self._texts["left"].format(left=self.deadline.remaining_s())

    def _write(self, text: str) -> None:
        stream = self._stream or sys.stderr
        encoding = stream.encoding or "utf-8"
        line = text.encode(encoding, "replace").decode(encoding)
        with self._lock:
            try:
                print(line, file=stream, flush=True)
            except (OSError, ValueError):
                _silence(stream)

    # -- the view --------------------------------------------------------------------------------------------

    @contextmanager
    def shown(self, *, wanted: bool, last_stage: int, simulated: bool) -> Iterator[None]:
        """The block in which a view is drawn, where one can be and is `wanted`. `last_stage`: the index of
        the contract's last state.
        """
        stream = self._stream or sys.stderr
        if not wanted or self._quiet or not can_show_a_view(stream):
            yield
            return
        from hibor.people.live_view import LiveView

        self.board = Board(last_stage=last_stage, deadline=self.deadline, simulated=simulated)
        view = LiveView(self.board, self.lang, stream)
        view.open()
        self._view, self._shown = view, True
        try:
            yield
        finally:
            self._shown = False
            view.close()

    def last_frame(self) -> None:
        """Print the closed view's last state, and what had to wait for it."""
        view, self._view = self._view, None
        if view is not None:
            view.last_frame()
        for line in self._held:
            self._write(line)
        self._held.clear()

    def phone(
        self, model: str, version: str | None, quota_left: int | None, turn_left_s: Callable[[], float]
    ) -> None:
        """The phone is ready, so many downloads may still be used, the next is due in so many seconds."""
        if self.board is not None:
            self.board.phone, self.board.quota_before = (model, version or "?"), quota_left
            self.board.turn_left_s = turn_left_s

    def chosen(self, choices: Iterable[tuple[str, str, str]]) -> None:
        """(report id, title, source) of what will be collected."""
        if self.board is not None:
            self.board.chosen(choices)

    def doing(self, key: str) -> None:
        """The phone is at something that belongs to no item: a key below `live.doing`."""
        if self.board is not None:
            self.board.doing(key)

    def item_at(self, item: Any) -> None:
        """An item (`ItemRun`) begins a piece of work, or has ended."""
        if self.board is not None:
            self.board.item_at(item)


class ProgressLog(logging.Handler):
    """The run's log for people, through the progress: nothing is written into a view."""

    def __init__(self, progress: Progress) -> None:
        super().__init__()
        self._progress = progress

    def emit(self, record: logging.LogRecord) -> None:
        """One record."""
        try:
            self._progress.note(self.format(record))
        except Exception:  # logging's own rule: a record that cannot be told ends nothing
            self.handleError(record)
