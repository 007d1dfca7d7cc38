"""What the collector may ask of a phone, and the values it gets back.

Rules of this file: no I/O and no adb words; everything above the adapter is written against `Device`. Every
call of an implementation has one deadline for the whole operation and an output limit, raises only
`DeviceError`, and never repeats an input event (design 5, "Adapter"; style trap "drivers that retry for
you").
"""

from __future__ import annotations

import hashlib
from datetime import datetime
from typing import TYPE_CHECKING, Literal, Protocol

import attrs

if TYPE_CHECKING:
    from hibor.device.uitree import UiTree

FileKind = Literal["file", "dir", "link", "other"]


@attrs.frozen
class Identity:
    """What tells this phone from another one on the same cable: `ro.serialno` and `ro.build.fingerprint`."""

    serialno: str
    fingerprint: str

    @property
    def mark(self) -> str:
        """Stands for the phone in files, which never tell its serial: 16 hex digits of its sha256."""
        return hashlib.sha256(self.serialno.encode()).hexdigest()[:16]


@attrs.frozen
class RemoteFile:
    """One entry of the phone's file system. `size_bytes` is 64 bit (`stat -c`), `mtime_s` whole epoch
    seconds.
    """

    path: str
    name: str
    kind: FileKind
    size_bytes: int
    mtime_s: int
    inode: int


@attrs.frozen
class Listing:
    """A folder's readable entries, and the names that are there but could not be examined.

    An unreadable *folder* is never an empty listing: it raises `cache_unreadable` (fault F25).
    """

    entries: tuple[RemoteFile, ...]
    unreadable: tuple[str, ...] = ()


@attrs.frozen
class PackageInfo:
    """An app installed for user 0. `other_users` are Android users that also have it (clones, work
    profile).
    """

    name: str
    version_name: str
    version_code: int
    other_users: tuple[int, ...] = ()


@attrs.frozen
class Screen:
    """Logical size in pixels at rotation 0 (an override counts), density in dpi, and whether it is
    overridden.
    """

    width: int
    height: int
    density: int
    overridden: bool = False

    def size_at(self, rotation: int) -> tuple[int, int]:
        """Width and height as the dump and `input tap` see them at `rotation` (quarter turns)."""
        return (self.height, self.width) if rotation % 2 else (self.width, self.height)


@attrs.frozen
class Focus:
    """The focused window: `package`/`activity` are None for windows that belong to no app.

    `user` is the Android user (0; clones and work profiles are above). `locked` means a lock screen is shown.
    """

    package: str | None
    activity: str | None
    title: str
    user: int
    locked: bool
    awake: bool


@attrs.frozen
class Battery:
    """Charge in percent, temperature in degrees Celsius, and whether it is being charged."""

    level_percent: int
    temperature_c: float
    charging: bool


@attrs.frozen
class TapResult:
    """Whether the phone took the input event; `refusal` quotes the phone where it did not (INJECT_EVENTS)."""

    accepted: bool
    refusal: str | None = None


class Sink(Protocol):
    """Where pulled bytes go; the buffer is only valid during the call."""

    def write(self, data: memoryview, /) -> object:
        """Take all bytes of `data`."""


class Device(Protocol):
    """One phone. All methods raise `DeviceError` and nothing else."""

    @property
    def serial(self) -> str:
        """The adb serial, as given by a person or the only one online."""

    @property
    def identity(self) -> Identity:
        """What was read when the device was opened."""

    def check_identity(self) -> None:
        """Raise `device_replaced` when another phone, or another system build, answers on this serial."""

    def now(self) -> datetime:
        """The phone's clock, aware, in the phone's zone."""

    def properties(self, *names: str) -> dict[str, str]:
        """System properties; an unset one is an empty string."""

    def setting(self, namespace: str, key: str) -> str | None:
        """One system setting, None when unset."""

    def put_setting(self, namespace: str, key: str, value: str) -> None:
        """Write one system setting."""

    def keep_awake(self, mode: str) -> None:
        """`svc power stayon MODE` (true, false, usb, ac)."""

    def package(self, name: str) -> PackageInfo:
        """The app as installed for user 0. Raises `package_missing`, `package_cloned`."""

    def screen(self) -> Screen:
        """Logical screen."""

    def focus(self) -> Focus:
        """Focused window, lock and wake state."""

    def battery(self) -> Battery:
        """Charge and temperature."""

    def dump(self, screen_key: str = "") -> UiTree:
        """The UI tree of the active window; `screen_key` names the screen whose working strategy is
        remembered.
        """

    def tap(self, x: int, y: int, *, package: str | None = None) -> TapResult:
        """One tap, sent once. Identity is checked first, and the focused window where `package` is given."""

    def swipe(self, x1: int, y1: int, x2: int, y2: int, duration_ms: int) -> TapResult:
        """One swipe."""

    def key(self, code: int) -> TapResult:
        """One key event."""

    def type_text(self, text: str) -> TapResult:
        """Type printable ASCII."""

    def start(self, package: str) -> None:
        """Start an app by its launcher intent."""

    def list(self, directory: str) -> Listing:
        """Entries of a folder. Raises `cache_unreadable`, `remote_vanished`."""

    def stat(self, path: str) -> RemoteFile:
        """One entry. Raises `remote_vanished`, `remote_refused`."""

    def sha256(self, path: str) -> str | None:
        """Hash computed by the phone, None where it has no `sha256sum`."""

    def pull(self, path: str, sink: Sink, *, limit_bytes: int, expected_bytes: int | None = None) -> int:
        """Stream a regular file into `sink`; returns the bytes counted."""

    def screenshot(self) -> bytes:
        """A PNG of the screen."""
