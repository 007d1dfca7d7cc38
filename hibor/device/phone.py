"""A phone driven by shell commands, whatever carries them.

Rules of this file: each method is one shell call where that is possible, in list form, quoted by `shellout`;
input events are sent once and never repeated; identity is checked before every tap and every pull, and with
every word on one file (`device_replaced`), the focused window before every tap that names its app. An empty
folder is told from an unreadable one (fault F25); sizes are 64 bit from `stat -c` (fault F13). Errors are
redacted with everything known to identify this phone.
"""

from __future__ import annotations

import re
import secrets
import stat as stat_bits
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Final, TypeVar

import attrs

from hibor.clock import Clock
from hibor.device import shellout
from hibor.device.dumping import Dumper
from hibor.device.errors import DeviceError
from hibor.device.protocol import (
    Battery,
    FileKind,
    Focus,
    Identity,
    Listing,
    PackageInfo,
    RemoteFile,
    Screen,
    Sink,
    TapResult,
)
from hibor.device.shellout import ShellResult
from hibor.device.uitree import UiTree

T = TypeVar("T")

IDENTITY_PROPERTIES: Final = ("ro.serialno", "ro.build.fingerprint")
_STAT_BATCH_BYTES: Final = 30_000
_DENIED = re.compile(r"Permission denied|Operation not permitted", re.IGNORECASE)
_MISSING = re.compile(r"No such file|does not exist", re.IGNORECASE)
_LOCK_WINDOWS = re.compile(r"^(?:NotificationShade|StatusBar|Keyguard)")


@attrs.frozen
class Limits:
    """Bounds of one operation: seconds of the clock, bytes, entries."""

    command_s: float = 20.0
    dump_s: float = 30.0
    pull_s: float = 300.0
    output_bytes: int = 4 * 1024 * 1024
    screenshot_bytes: int = 64 * 1024 * 1024
    entries: int = 50_000


class ShellPhone(ABC):
    """The `Device` protocol on top of four abstract operations: run, raw output, sync list, pull."""

    def __init__(self, serial: str, clock: Clock, limits: Limits) -> None:
        self._serial = serial
        self._clock = clock
        self._limits = limits
        self._secrets: tuple[str, ...] = (serial,)
        self._screen: Screen | None = None
        self._dumper = Dumper(self.run, clock, timeout_s=limits.dump_s)
        self._identity = self._read_identity()
        self._secrets = (serial, self._identity.serialno)

    @abstractmethod
    def run(
        self, *commands: Sequence[str], limit_bytes: int | None = None, timeout_s: float | None = None
    ) -> tuple[ShellResult, ...]:
        """Run commands in one shell call."""

    @abstractmethod
    def _raw_output(self, argv: Sequence[str], limit_bytes: int, timeout_s: float) -> bytes:
        """A command's standard output, byte-exact."""

    @abstractmethod
    def _sync_list(self, directory: str) -> tuple[tuple[str, int], ...]:
        """Names and modes of a folder."""

    @abstractmethod
    def pull(self, path: str, sink: Sink, *, limit_bytes: int, expected_bytes: int | None = None) -> int:
        """Stream a regular file into `sink`."""

    @property
    def serial(self) -> str:
        """The adb serial."""
        return self._serial

    @property
    def identity(self) -> Identity:
        """What was read at opening."""
        return self._identity

    def _failed(self, failure: str, detail: str, sent: bool = True) -> DeviceError:
        return DeviceError(failure, detail, command_sent=sent, secrets=self._secrets)

    def _read_identity(self) -> Identity:
        serialno, fingerprint = self.run(*(["getprop", name] for name in IDENTITY_PROPERTIES))
        return Identity(serialno.text.strip(), fingerprint.text.strip())

    def _compare_identity(self, results: Sequence[ShellResult]) -> None:
        seen = Identity(results[0].text.strip(), results[1].text.strip())
        if seen != self._identity:
            raise self._failed("device_replaced", "another phone or another system build answers", False)

    def check_identity(self) -> None:
        """Raise `device_replaced` unless the phone is the one that was opened."""
        self._compare_identity(self.run(*(["getprop", name] for name in IDENTITY_PROPERTIES)))

    def _of_this_phone(self, command: Sequence[str], *, timeout_s: float | None = None) -> ShellResult:
        """What this very phone says: that a file is gone is a verdict on a paid report, and another phone
        that answers in its place has no say in it."""
        names = (["getprop", name] for name in IDENTITY_PROPERTIES)
        *identity, result = self.run(*names, command, timeout_s=timeout_s)
        self._compare_identity(identity)
        return result

    def _ok(self, result: ShellResult, what: str) -> str:
        if result.code != 0:
            raise self._failed("command_start_failed", f"{what}: {result.all_text[:200]}")
        return result.text

    def now(self) -> datetime:
        """The phone's clock, aware, whole seconds."""
        (result,) = self.run(["date", "+%Y-%m-%dT%H:%M:%S%z"])
        try:
            return shellout.parse_clock(self._ok(result, "date"))
        except ValueError as error:
            raise self._failed("clock_invalid", f"the phone's date is unreadable: {result.text!r}") from error

    def properties(self, *names: str) -> dict[str, str]:
        """System properties in one call."""
        results = self.run(*(["getprop", name] for name in names))
        return {name: r.text.strip() for name, r in zip(names, results, strict=True)}

    def setting(self, namespace: str, key: str) -> str | None:
        """`settings get`; Android prints `null` for an unset key."""
        (result,) = self.run(["settings", "get", namespace, key])
        value = self._ok(result, "settings get").strip()
        return None if value == "null" else value

    def put_setting(self, namespace: str, key: str, value: str) -> None:
        """`settings put`."""
        (result,) = self.run(["settings", "put", namespace, key, value])
        self._ok(result, "settings put")

    def keep_awake(self, mode: str) -> None:
        """`svc power stayon`."""
        (result,) = self.run(["svc", "power", "stayon", mode])
        self._ok(result, "svc power")

    def package(self, name: str) -> PackageInfo:
        """The app as user 0 has it. A copy that exists for another user only is `package_cloned`."""
        path, dump = self.run(["pm", "path", "--user", "0", name], ["dumpsys", "package", name])
        facts = shellout.parse_package(dump.text, name)
        others = tuple(user for user in facts.users if user != 0) if facts else ()
        if path.code != 0 or not path.text.startswith("package:"):
            if others:
                raise self._failed(
                    "package_cloned",
                    f"{name} is installed only as a clone or in a work profile (user {others[0]})",
                )
            raise self._failed("package_missing", f"{name} is not installed")
        if facts is None:
            raise self._failed("package_missing", f"dumpsys knows no package {name}")
        return PackageInfo(name, facts.version_name, facts.version_code, others)

    def screen(self) -> Screen:
        """Logical screen."""
        size, density = self.run(["wm", "size"], ["wm", "density"])
        return self._parsed(lambda: shellout.parse_screen(size.text, density.text))

    def focus(self) -> Focus:
        """Focused window, lock and wake state."""
        window, power = self.run(["dumpsys", "window"], ["dumpsys", "power"])
        return self._parsed(lambda: shellout.parse_focus(window.text, power.text))

    def battery(self) -> Battery:
        """Charge and temperature."""
        (result,) = self.run(["dumpsys", "battery"])
        return self._parsed(lambda: shellout.parse_battery(result.text))

    def _parsed(self, read: Callable[[], T]) -> T:
        try:
            return read()
        except ValueError as error:
            raise self._failed(
                "command_start_failed", f"the phone's answer is unreadable: {error}"
            ) from error

    def dump(self, screen_key: str = "") -> UiTree:
        """The UI tree, by whatever strategy works on this screen."""
        return self._dumper.dump(screen_key)

    def tap(self, x: int, y: int, *, package: str | None = None) -> TapResult:
        """One tap. Everything that could forbid it is read in one call before it; the tap is a call of its
        own.
        """
        commands: list[Sequence[str]] = [["getprop", name] for name in IDENTITY_PROPERTIES]
        if package is not None:
            commands += [["dumpsys", "window"], ["dumpsys", "power"]]
        try:
            results = self.run(*commands)
        except DeviceError as error:
            raise self._failed(error.failure, error.detail, False) from error
        self._compare_identity(results)
        if package is not None:
            focus = self._parsed(lambda: shellout.parse_focus(results[2].text, results[3].text))
            self._require_focus(focus, package)
        return self._input("tap", str(x), str(y))

    def _require_focus(self, focus: Focus, package: str) -> None:
        """Raise unless the focused window is the app's own, for user 0, on an unlocked screen (faults
        F40–F42).
        """
        if focus.locked or not focus.awake or _LOCK_WINDOWS.match(focus.title):
            raise self._failed("device_locked", "the screen is locked or off; unlock it by hand", False)
        if focus.package != package:
            shown = focus.package or focus.title or "no window"
            raise self._failed("foreign_window", f"another window has the focus: {shown}", False)
        if focus.user != 0:
            raise self._failed("foreign_window", f"the app of Android user {focus.user} has the focus", False)

    def swipe(self, x1: int, y1: int, x2: int, y2: int, duration_ms: int) -> TapResult:
        """One swipe."""
        return self._input("swipe", str(x1), str(y1), str(x2), str(y2), str(duration_ms))

    def key(self, code: int) -> TapResult:
        """One key event."""
        return self._input("keyevent", str(code))

    def type_text(self, text: str) -> TapResult:
        """Printable ASCII; the shell's `input` writes a blank as %s. Raises `ValueError` for other text."""
        if not text or not all(" " <= letter <= "~" for letter in text) or "%s" in text:
            raise ValueError("only printable ASCII can be typed")
        return self._input("text", text.replace(" ", "%s"))

    def _input(self, *words: str) -> TapResult:
        (result,) = self.run(["input", *words])
        refusal = shellout.input_refusal(result)
        return TapResult(refusal is None, refusal)

    def start(self, package: str) -> None:
        """Start by launcher intent, which needs no activity name."""
        (result,) = self.run(["monkey", "-p", package, "-c", "android.intent.category.LAUNCHER", "1"])
        if result.code != 0 or "No activities found" in result.all_text:
            raise self._failed(
                "command_start_failed", f"{package} cannot be started: {result.all_text[:200]}"
            )

    def list(self, directory: str) -> Listing:
        """Entries with 64-bit facts: names by sync (byte-exact), facts by one batched `stat -c`."""
        names = self._sync_list(directory)
        if not names:
            self._require_readable(directory)
            return Listing(())
        paths = {f"{directory.rstrip('/')}/{name}": mode for name, mode in names}
        facts = self._stat_many(tuple(paths))
        entries = tuple(
            attrs.evolve(facts[path], kind=_kind_of_mode(mode))
            for path, mode in paths.items()
            if path in facts
        )
        unreadable = tuple(path.rsplit("/", 1)[-1] for path in paths if path not in facts)
        return Listing(entries, unreadable)

    def _require_readable(self, directory: str) -> None:
        """Tell an empty folder from one that only looks empty (fault F25)."""
        listed, readable = self.run(["ls", "-1", directory], ["test", "-r", directory])
        said = listed.all_text
        if _MISSING.search(said):
            self._require_not_hidden(directory)
            raise self._failed("remote_vanished", f"no such folder: {directory}")
        if listed.code != 0 or readable.code != 0 or _DENIED.search(said):
            raise self._failed(
                "cache_unreadable", f"the folder exists but may not be read: {said[:200] or directory}"
            )

    def _require_not_hidden(self, directory: str) -> None:
        """An app's own folder under Android/data is never empty; where it looks so, Android hides it."""
        match = re.match(r"(.*/Android/data)(/[^/]+)(?:/|$)", directory)
        if match is None:
            return
        parents = (match.group(1) + match.group(2), match.group(1))
        for parent, listed in zip(parents, self.run(*(["ls", "-1", one] for one in parents)), strict=True):
            if listed.code == 0 and not listed.text.strip():
                raise self._failed("cache_unreadable", f"Android hides the content of {parent} from adb")

    def _stat_many(self, paths: Sequence[str]) -> dict[str, RemoteFile]:
        found: dict[str, RemoteFile] = {}
        batch: list[str] = []
        size_bytes = 0
        for path in [*paths, ""]:
            if path and "\udc80" <= max(path) <= "\udcff":
                continue
            if batch and (not path or size_bytes > _STAT_BATCH_BYTES):
                found.update(self._stat_batch(batch))
                batch, size_bytes = [], 0
            if path:
                batch.append(path)
                size_bytes += len(path.encode()) + 8
        return found

    def _stat_batch(self, paths: Sequence[str]) -> dict[str, RemoteFile]:
        marker = "at" + secrets.token_hex(6)
        (result,) = self.run(["stat", "-c", shellout.stat_format(marker), *paths])
        return shellout.parse_stats(result.text, marker, paths)

    def stat(self, path: str) -> RemoteFile:
        """One entry (links are not followed by toybox `stat -c`)."""
        marker = "at" + secrets.token_hex(6)
        result = self._of_this_phone(["stat", "-c", shellout.stat_format(marker), path])
        found = shellout.parse_stats(result.text, marker, (path,))
        if path in found:
            return found[path]
        said = result.all_text[:200]
        raise self._failed("remote_vanished" if _MISSING.search(said) else "remote_refused", f"stat: {said}")

    def sha256(self, path: str) -> str | None:
        """Hash by the phone's `sha256sum`; None where the phone has none."""
        result = self._of_this_phone(["sha256sum", path], timeout_s=self._limits.pull_s)
        match = re.match(r"\\?([0-9a-f]{64})\b", result.text)
        if result.code == 0 and match:
            return match.group(1)
        said = result.all_text[:200]
        if result.code == 127 or "inaccessible or not found" in said:
            return None
        raise self._failed("remote_vanished" if _MISSING.search(said) else "remote_refused", f"hash: {said}")

    def screenshot(self) -> bytes:
        """A PNG. Raises `command_start_failed` when the phone gives none."""
        data = self._raw_output(["screencap", "-p"], self._limits.screenshot_bytes, self._limits.command_s)
        if not data.startswith(b"\x89PNG\r\n\x1a\n"):
            raise self._failed("command_start_failed", "the phone gave no screenshot")
        return data


def _kind_of_mode(mode: int) -> FileKind:
    if stat_bits.S_ISREG(mode):
        return "file"
    if stat_bits.S_ISDIR(mode):
        return "dir"
    return "link" if stat_bits.S_ISLNK(mode) else "other"
