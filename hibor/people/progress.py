"""What people see while a run works: one line for each thing that happened, on stderr.

stdout belongs to the one JSON document. The words are in `messages/<lang>.toml`; a key that is missing there
is a
test failure, not a silent English line. A console that cannot show a character shows `?` in its place.
"""

from __future__ import annotations

import sys
import threading
import tomllib
from functools import lru_cache
from importlib import resources
from typing import Any, TextIO

from hibor.collect.deadline import Deadline
from hibor.messages import failure_text, reason_text


@lru_cache(maxsize=2)
def messages(lang: str) -> dict[str, str]:
    """The message texts of a language (`zh` or `en`), by key."""
    data = resources.files("hibor").joinpath("messages", f"{lang}.toml").read_bytes()
    return dict(tomllib.loads(data.decode())["progress"])


class Progress:
    """Writes progress lines. Safe for both lanes."""

    def __init__(self, lang: str, *, quiet: bool = False, stream: TextIO | None = None) -> None:
        self._lang = lang
        self._texts = messages(lang)
        self._quiet = quiet
        self._stream = stream
        self._lock = threading.Lock()
        self.deadline: Deadline | None = None
        self.quota_left: int | None = None

    def say(self, key: str, **facts: Any) -> None:
        """One line, with the time left in front while a window runs."""
        if not self._quiet:
            self._write(self._line(key, facts))

    def warn(self, key: str, **facts: Any) -> None:
        """One line that is shown also in a quiet run."""
        self._write(self._line(key, facts))

    def _line(self, key: str, facts: dict[str, Any]) -> str:
        """The text with its facts. A detail is told in the reader's language: by its failure word where
        one is given, else by its code.
        """
        if self._lang != "en" and facts.get("detail"):
            failure = facts.get("failure")
            told = (
                failure_text(self._lang, failure).rstrip("。")
                if failure
                else reason_text(self._lang, str(facts.get("code", key)), str(facts["detail"]))
            )
            facts = {**facts, "detail": told}
        return self._texts[key].format(**facts)

    def warn_from_signal(self, key: str) -> None:
        """One line from a signal handler: past lock and buffer, which the interrupted code may hold."""
        stream = self._stream or sys.stderr
        raw = getattr(getattr(stream, "buffer", None), "raw", None)
        if raw is not None:
            raw.write(f"{self._texts[key]}\n".encode(stream.encoding or "utf-8", "replace"))

    def _write(self, text: str) -> None:
        stream = self._stream or sys.stderr
        left = "" if self.deadline is None else f"[{self.deadline.remaining_s():4.0f} s] "
        encoding = stream.encoding or "utf-8"
        line = f"{left}{text}".encode(encoding, "replace").decode(encoding)
        with self._lock:
            print(line, file=stream, flush=True)
