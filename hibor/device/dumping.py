"""How a UI dump is obtained from a phone that does not always give one.

Rules of this file: the dump file is removed, written and read in one shell call, so one round trip serves
and an old file can never be taken for a new one (fault F34); what `uiautomator` prints decides, never its
exit code (faults F29, F31); every attempt is counted and the whole is bounded by attempts and by the
caller's deadline; what worked is remembered per screen. "null root node" is retried; a screen that never
idles gets `--compressed`, and is an error of its own after that: only who knows the screen may swipe its
banner away; a taken slot is an answer of its own and is not fought over (fault F44).
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final, Literal, Protocol

import attrs

from hibor.clock import Clock
from hibor.device.errors import DeviceError, NeverIdle
from hibor.device.shellout import ShellResult
from hibor.device.uitree import LIMIT_BYTES, UiTree, parse_tree

DUMP_PATH: Final = "/sdcard/hibor-window.xml"
NULL_ROOT_TRIES: Final = 4
NULL_ROOT_PAUSE_S: Final = 0.4

Trouble = Literal["null_root", "not_idle", "slot_taken", "killed", "refused", "other"]

_TROUBLES: Final[tuple[tuple[Trouble, re.Pattern[str]], ...]] = (
    ("slot_taken", re.compile(r"already registered|UiAutomationService .*registered", re.IGNORECASE)),
    ("null_root", re.compile(r"null root node", re.IGNORECASE)),
    ("not_idle", re.compile(r"could not get idle state|waiting for idle", re.IGNORECASE)),
    ("refused", re.compile(r"SecurityException|Permission den", re.IGNORECASE)),
    ("killed", re.compile(r"^Killed$|not connected", re.IGNORECASE | re.MULTILINE)),
)


class ShellRunner(Protocol):
    """What the dumper needs of an adapter: several commands in one shell call."""

    def __call__(
        self, *commands: Sequence[str], limit_bytes: int, timeout_s: float
    ) -> tuple[ShellResult, ...]:
        """Run the commands in order, each whatever the one before said."""


@attrs.frozen
class DumpTiming:
    """What the last dump cost: seconds of the clock, and attempts."""

    took_s: float
    tries: int
    compressed: bool


def trouble_in(text: str) -> tuple[Trouble, str] | None:
    """The known complaint in what `uiautomator dump` printed, with its line; None when it reports success."""
    for name, pattern in _TROUBLES:
        match = pattern.search(text)
        if match:
            start = text.rfind("\n", 0, match.start()) + 1
            return name, text[start:].split("\n", 1)[0].strip()[:200]
    if re.search(r"ERROR|Exception|not found", text):
        return "other", text.strip()[:200]
    return None


class Dumper:
    """Obtains dumps and remembers, per screen key, whether `--compressed` was what worked."""

    def __init__(
        self,
        run: ShellRunner,
        clock: Clock,
        *,
        timeout_s: float = 30.0,
        path: str = DUMP_PATH,
    ) -> None:
        self._run = run
        self._clock = clock
        self._timeout_s = timeout_s
        self._path = path
        self._compressed: dict[str, bool] = {}
        self.last: DumpTiming | None = None

    def dump(self, screen_key: str = "") -> UiTree:
        """One readable dump. Raises `dump_unreadable` (`NeverIdle` for a screen that does not come to rest),
        `ui_slot_taken`, or what the link raises."""
        begun_s = self._clock.monotonic_s()
        deadline_s = begun_s + self._timeout_s
        compressed = self._compressed.get(screen_key, False)
        null_roots, tries = 0, 0
        while True:
            left_s = deadline_s - self._clock.monotonic_s()
            if left_s <= 0:
                raise DeviceError("dump_unreadable", f"no readable UI dump within {self._timeout_s:.0f} s")
            tries += 1
            outcome = self._attempt(compressed, left_s)
            if isinstance(outcome, UiTree):
                self._compressed[screen_key] = compressed
                self.last = DumpTiming(self._clock.monotonic_s() - begun_s, tries, compressed)
                return outcome
            trouble, line = outcome
            if trouble == "slot_taken":
                raise DeviceError("ui_slot_taken", f"another tool holds the phone's UI automation: {line}")
            if trouble == "not_idle" and not compressed:
                compressed = True
                continue
            null_roots += 1
            words = f"uiautomator gave no dump after {tries} attempts: {line or trouble}"
            if trouble == "not_idle":
                self._compressed[screen_key] = True
                raise NeverIdle(words)
            if trouble == "refused" or null_roots >= NULL_ROOT_TRIES:
                raise DeviceError("dump_unreadable", words)
            self._clock.sleep(NULL_ROOT_PAUSE_S)

    def _attempt(self, compressed: bool, timeout_s: float) -> UiTree | tuple[Trouble, str]:
        argv = ["uiautomator", "dump", *(["--compressed"] if compressed else []), self._path]
        removed, said, content = self._run(
            ["rm", "-f", self._path],
            argv,
            ["cat", self._path],
            limit_bytes=LIMIT_BYTES,
            timeout_s=timeout_s,
        )
        trouble = trouble_in(said.all_text)
        if trouble is not None and not (trouble[0] == "killed" and "dumped to" in said.all_text):
            return trouble
        if removed.code != 0:
            return "other", "the old dump file could not be removed, so a new one cannot be told from it"
        if content.code != 0 or not content.stdout.strip():
            return "other", said.all_text[:200] or "the dump file was not written"
        return parse_tree(content.stdout, taken_s=self._clock.monotonic_s())
