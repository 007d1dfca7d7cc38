"""The seam of the simulated phone: what its transport half may ask of its app half.

The transport half (`adbd.py`, `shell.py`, `vfs.py`) speaks ADB and knows nothing about the app; the app
half implements `PhoneCore` and knows nothing about sockets. Both are written against this file only, so
either half can be replaced in a test by a small concrete one. All durations are phone seconds: the core
scales them.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Literal, Protocol

import attrs

from hibor.sim.vfs import Vfs

LinkFaultKind = Literal[
    "drop", "hang", "offline", "truncate", "flip", "grow", "stat32", "crlf", "flood", "deny"
]
LinkFaultPlace = Literal["connect", "open", "data", "shell"]


@attrs.frozen
class PackageFacts:
    """One installed app, as `pm` and `dumpsys package` tell it.

    `user_ids` are the Android users that have the app (0 is the owner; a second one is an app clone).
    """

    version_name: str
    version_code: int
    apk_path: str
    user_ids: tuple[int, ...] = (0,)


@attrs.frozen
class Display:
    """The screen: physical size in pixels, the `wm size` override if any, dots per inch, rotation 0–3."""

    width: int
    height: int
    override: tuple[int, int] | None
    density: int
    rotation: int


@attrs.frozen
class DumpResult:
    """One `uiautomator dump`: `output` is what the command prints, `xml` the file it wrote (None: none).

    The core does not know where the dump goes: the shell puts the real path behind `dumped to:`. An empty
    `output` with an `xml` prints Android's usual line.
    """

    output: str
    xml: bytes | None


@attrs.frozen
class InputResult:
    """One injected input: `stderr` holds e.g. the SecurityException text when taps are blocked."""

    stderr: str = ""
    exit_code: int = 0


@attrs.frozen
class StartResult:
    """One `am start` or `monkey`: what it printed, and its exit code."""

    stdout: str
    exit_code: int = 0


@attrs.frozen
class LinkFault:
    """One fault of the link, asked for at a place and played by the daemon.

    Kinds: `drop` closes the connection to the adb server; `hang` answers nothing for `wait_s` (phone seconds,
    0 = until the stream is closed); `offline` drops the connection and refuses new ones for `wait_s`;
    `truncate` ends a transfer or output early at `at_bytes`, as if complete; `flip` inverts one byte at
    `at_bytes`; `grow` sends one extra chunk past the end; `stat32` makes the 64-bit sizes wrap at 32 bits;
    `crlf` turns LF into CRLF; `flood` sends endless output (until the stream is closed); `deny` refuses the
    service, the file or the command. `at_bytes` counts from the start of the file or of the output. For
    `drop`, `offline` and `hang` of a `shell` command, 0 is before it runs, and a negative number is after it
    has run, before its exit code is told: what it did is done, and the caller cannot know.
    """

    kind: LinkFaultKind
    wait_s: float = 0.0
    at_bytes: int = 0


class PhoneCore(Protocol):
    """What the app half offers to the transport half. Calls come from several threads at once."""

    @property
    def vfs(self) -> Vfs:
        """The phone's file system (a plain attribute will do)."""

    @property
    def pull_bytes_per_s(self) -> float:
        """Pace of sync pulls, bytes per phone second; 0 is unthrottled (a plain attribute will do)."""

    @property
    def props(self) -> Mapping[str, str]:
        """The system properties `getprop` shows."""

    def now(self) -> datetime:
        """The phone's own clock, aware."""

    def sleep(self, wait_s: float) -> None:
        """Wait `wait_s` phone seconds."""

    def monotonic_s(self) -> float:
        """Phone seconds that only go forward."""

    def packages(self) -> Mapping[str, PackageFacts]:
        """The installed apps by package name."""

    def focus(self) -> tuple[str, str]:
        """Package and activity (`.MainActivity` or a full class name) of the focused window."""

    def wakefulness(self) -> str:
        """`Awake`, `Asleep` or `Dozing`."""

    def keyguard(self) -> bool:
        """Whether the lock screen is showing."""

    def battery(self) -> tuple[int, float]:
        """Charge in percent, temperature in °C."""

    def display(self) -> Display:
        """The screen's facts."""

    def dump_xml(self, compressed: bool) -> DumpResult:
        """One `uiautomator dump`; takes its own latency."""

    def tap(self, x: int, y: int) -> InputResult:
        """`input tap`, in display pixels."""

    def swipe(self, x1: int, y1: int, x2: int, y2: int, duration_ms: int) -> InputResult:
        """`input swipe`; lasts `duration_ms` phone milliseconds."""

    def keyevent(self, code: str) -> InputResult:
        """`input keyevent`: a number or a name such as `KEYCODE_BACK`, as typed."""

    def text(self, text: str) -> InputResult:
        """`input text`, as typed."""

    def start(self, package: str, activity: str | None) -> StartResult:
        """`am start` (with an activity) or `monkey` (without)."""

    def screencap_png(self) -> bytes:
        """The screen as a PNG."""

    def settings_get(self, ns: str, key: str) -> str:
        """`settings get`; `null` for an unknown key, as Android prints it."""

    def settings_put(self, ns: str, key: str, value: str) -> None:
        """`settings put`."""

    def link_fault(self, where: str, detail: str) -> LinkFault | None:
        """The fault to play now, or None.

        Asked at every `open` (detail: the service string), `data` (each sync DATA chunk; detail: the path, a
        blank, the bytes sent so far), `shell` (detail: the whole command) and `connect` (detail: empty;
        `deny` leaves the phone `unauthorized`, `offline` leaves it so for `wait_s`). A fault answered to
        `data` with `at_bytes` ahead of the bytes sent stays armed for this transfer until it is reached.
        """

    def record(self, event: str, report_id: str | None, detail: str) -> None:
        """Write one line of the phone's truth (`truth.jsonl`)."""
