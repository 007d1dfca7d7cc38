"""Readers of what the phone's shell prints: pure functions, text in, values out.

Rules of this file: nothing is taken for content unless its command said it succeeded (fault F12); what
cannot be read raises `ValueError`, which the adapter turns into a `DeviceError`; carriage returns are
dropped before anything is compared (fault F21).
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Sequence
from datetime import datetime

import attrs

from hibor.device.protocol import Battery, FileKind, Focus, RemoteFile, Screen

_WINDOW = re.compile(r"mCurrentFocus=Window\{[0-9a-f]+ (?:u(\d+) )?([^}\n]*)\}")
_COMPONENT = re.compile(r"^([A-Za-z][\w.]*)/([\w.$]+)$")
_LOCK_SIGNS = re.compile(
    r"(?:mDreamingLockscreen|mShowingLockscreen|isKeyguardShowing|isStatusBarKeyguard)=true"
)
_WAKEFULNESS = re.compile(r"mWakefulness=(\w+)")
_SIZE = re.compile(r"(Physical|Override) (?:size|density):\s*(\d+)(?:x(\d+))?")
_REFUSAL = re.compile(r"(?:SecurityException|INJECT_EVENTS|Injecting (?:input events )?to another)[^\n]*")


@attrs.frozen
class ShellResult:
    """One command's exit code (0 to 255), standard output and standard error as raw bytes."""

    code: int
    stdout: bytes
    stderr: bytes = b""

    @property
    def text(self) -> str:
        """Standard output as text: UTF-8 with replacement, carriage returns dropped."""
        return clean_text(self.stdout)

    @property
    def all_text(self) -> str:
        """Standard output and error as text, for messages."""
        return (clean_text(self.stdout) + clean_text(self.stderr)).strip()


def clean_text(data: bytes) -> str:
    """UTF-8 with replacement characters, without carriage returns."""
    return data.decode("utf-8", errors="replace").replace("\r", "")


def quote(argv: Sequence[str]) -> str:
    """A command line for the phone's shell in which every argument is exactly one word (faults F17, F18)."""
    for word in argv:
        if "\0" in word:
            raise ValueError("NUL in an argument")
    return " ".join(shlex.quote(word) for word in argv)


def split_marked(data: bytes, marker: str, count: int) -> tuple[ShellResult, ...]:
    """Cut the output of a chain at its `marker:code` lines; the marker is random, so no content can fake
    it.
    """
    pattern = re.compile(re.escape(marker.encode()) + rb":(\d+)\r?\n?")
    results: list[ShellResult] = []
    start = 0
    for match in pattern.finditer(data):
        results.append(ShellResult(int(match.group(1)), data[start : match.start()]))
        start = match.end()
    if len(results) != count:
        raise ValueError(f"{len(results)} of {count} commands reported their end")
    return tuple(results)


def parse_focus(window_text: str, power_text: str) -> Focus:
    """`dumpsys window` and `dumpsys power` → the focused window."""
    user, title = 0, ""
    for match in _WINDOW.finditer(window_text):
        user, title = int(match.group(1) or 0), match.group(2).strip()
        break
    component = _COMPONENT.match(title)
    package, activity = (component.group(1), component.group(2)) if component else (None, None)
    wake = _WAKEFULNESS.search(power_text)
    if wake is None:
        raise ValueError("no mWakefulness in dumpsys power")
    locked = _LOCK_SIGNS.search(window_text) is not None
    return Focus(package, activity, title, user, locked, wake.group(1) == "Awake")


def parse_screen(size_text: str, density_text: str) -> Screen:
    """`wm size` and `wm density` → screen; an override counts."""
    sizes = {m.group(1): (int(m.group(2)), int(m.group(3))) for m in _SIZE.finditer(size_text) if m.group(3)}
    densities = {m.group(1): int(m.group(2)) for m in _SIZE.finditer(density_text)}
    size = sizes.get("Override", sizes.get("Physical"))
    density = densities.get("Override", densities.get("Physical"))
    if size is None or density is None:
        raise ValueError("wm size or wm density unreadable")
    return Screen(size[0], size[1], density, "Override" in sizes)


def parse_battery(text: str) -> Battery:
    """`dumpsys battery`; the temperature is in tenths of a degree there."""
    level = re.search(r"^\s*level:\s*(\d+)", text, re.MULTILINE)
    scale = re.search(r"^\s*scale:\s*(\d+)", text, re.MULTILINE)
    heat = re.search(r"^\s*temperature:\s*(-?\d+)", text, re.MULTILINE)
    if level is None or heat is None:
        raise ValueError("dumpsys battery has no level or temperature")
    full = int(scale.group(1)) if scale and int(scale.group(1)) > 0 else 100
    charging = re.search(r"^\s*(?:AC|USB|Wireless|Dock) powered:\s*true", text, re.MULTILINE) is not None
    return Battery(int(level.group(1)) * 100 // full, int(heat.group(1)) / 10, charging)


@attrs.frozen
class PackageDump:
    """What `dumpsys package` says; `users` are the Android users that have the app installed."""

    version_name: str
    version_code: int
    users: tuple[int, ...]


def parse_package(text: str, name: str) -> PackageDump | None:
    """The section `Package [NAME]` of `dumpsys package NAME`, None when there is none."""
    start = text.find(f"Package [{name}]")
    if start < 0:
        return None
    section = text[start:]
    version = re.search(r"versionName=(\S+)", section)
    code = re.search(r"versionCode=(\d+)", section)
    users = tuple(
        sorted({int(m.group(1)) for m in re.finditer(r"User (\d+):[^\n]*\binstalled=true", section)})
    )
    return PackageDump(version.group(1) if version else "", int(code.group(1)) if code else 0, users)


def parse_clock(text: str) -> datetime:
    """`date '+%Y-%m-%dT%H:%M:%S%z'` → aware datetime."""
    return datetime.strptime(text.strip(), "%Y-%m-%dT%H:%M:%S%z")


def input_refusal(result: ShellResult) -> str | None:
    """The phone's own words where it refused an input event, else None (adb may still say exit 0)."""
    match = _REFUSAL.search(result.all_text)
    if match:
        return match.group(0).strip()
    if result.code != 0:
        return result.all_text[:200] or f"exit code {result.code}"
    return None


def kind_of(type_text: str) -> FileKind:
    """`%F` of `stat -c` → file kind (GNU says "regular empty file", toybox "regular file")."""
    if type_text.startswith("regular"):
        return "file"
    if type_text == "directory":
        return "dir"
    return "link" if type_text == "symbolic link" else "other"


def stat_format(marker: str) -> str:
    """The `stat -c` format that `parse_stats` reads; the marker makes names with line feeds harmless."""
    return f"{marker}|%s|%Y|%i|%F|%n"


def parse_stats(text: str, marker: str, asked: Iterable[str]) -> dict[str, RemoteFile]:
    """Lines of `stat -c` for the asked paths; anything that is not exactly an asked path is left out."""
    wanted = set(asked)
    pattern = re.compile(rf"^{re.escape(marker)}\|(\d+)\|(-?\d+)\|(\d+)\|([^|\n]*)\|", re.MULTILINE)
    matches = list(pattern.finditer(text))
    found: dict[str, RemoteFile] = {}
    for index, match in enumerate(matches):
        end = matches[index + 1].start() if index + 1 < len(matches) else len(text)
        rest = text[match.end() : end]
        path = rest[:-1] if rest.endswith("\n") else rest
        if path not in wanted:
            path = next((p for p in wanted if rest.startswith(p + "\n")), "")
        if path:
            found[path] = RemoteFile(
                path,
                path.rstrip("/").rsplit("/", 1)[-1],
                kind_of(match.group(4)),
                int(match.group(1)),
                int(match.group(2)),
                int(match.group(3)),
            )
    return found
