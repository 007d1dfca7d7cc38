"""A phone whose link may break for a moment: questions are asked again, orders never (faults F04, F07).

1. Reading is asked again once the phone is back, a bounded number of times; taps, keys, text and pulls are
   passed through untouched: what they did cannot be known here (design 5 "no retry around a tap").
2. A swipe whose answer was lost counts as sent: a swipe is no measure, and whoever swipes looks where it led
   (fault F110).
3. Waiting for the phone is bounded for the whole run, so that a phone that is gone is given up for good.
4. Whoever answers afterwards must be the same phone.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import Final, TypeVar

from hibor.clock import Clock
from hibor.device.errors import DeviceError
from hibor.device.protocol import (
    Battery,
    Device,
    Focus,
    Identity,
    Listing,
    PackageInfo,
    RemoteFile,
    Screen,
    Sink,
    TapResult,
)
from hibor.device.uitree import UiTree

BROKEN: Final = frozenset({"link_lost", "device_offline"})
"""Failures that may pass by themselves; a silent server and a refused computer are not among them."""
WAIT_S: Final = 30.0
"""How long one failure waits for the phone, in seconds."""
WAIT_ALL_S: Final = 90.0
"""How long a run waits for the phone in all, in seconds."""
POLL_S: Final = 1.0
AGAIN: Final = 2

T = TypeVar("T")


class PatientDevice:
    """`device` behind a link that may break for a moment. All methods raise only `DeviceError`."""

    def __init__(self, device: Device, clock: Clock) -> None:
        self._device = device
        self._clock = clock
        self._left_s = WAIT_ALL_S
        self.reconnects = 0

    def _ask(self, question: Callable[[], T]) -> T:
        for _ in range(AGAIN):
            try:
                return question()
            except DeviceError as error:
                self._await_phone(error)
        return question()

    def _await_phone(self, error: DeviceError) -> None:
        """Return once the same phone answers again. Raises `error` when it is no broken link or stays one."""
        if error.failure not in BROKEN:
            raise error
        begun_s = self._clock.monotonic_s()
        limit_s = min(WAIT_S, self._left_s)
        while True:
            try:
                self._device.check_identity()
                self._left_s -= self._clock.monotonic_s() - begun_s
                self.reconnects += 1
                return
            except DeviceError as still:
                waited_s = self._clock.monotonic_s() - begun_s
                if still.failure not in BROKEN or waited_s >= limit_s:
                    self._left_s -= waited_s
                    raise (error if still.failure in BROKEN else still) from still
            self._clock.sleep(POLL_S)

    # -- questions -------------------------------------------------------------------------------------------

    @property
    def serial(self) -> str:
        """The adb serial."""
        return self._device.serial

    @property
    def identity(self) -> Identity:
        """What was read when the device was opened."""
        return self._device.identity

    def check_identity(self) -> None:
        """Raise `device_replaced` when another phone answers."""
        self._ask(self._device.check_identity)

    def now(self) -> datetime:
        """The phone's clock."""
        return self._ask(self._device.now)

    def properties(self, *names: str) -> dict[str, str]:
        """System properties."""
        return self._ask(lambda: self._device.properties(*names))

    def setting(self, namespace: str, key: str) -> str | None:
        """One system setting."""
        return self._ask(lambda: self._device.setting(namespace, key))

    def put_setting(self, namespace: str, key: str, value: str) -> None:
        """Write one system setting; writing it twice is writing it once."""
        self._ask(lambda: self._device.put_setting(namespace, key, value))

    def keep_awake(self, mode: str) -> None:
        """`svc power stayon MODE`."""
        self._ask(lambda: self._device.keep_awake(mode))

    def package(self, name: str) -> PackageInfo:
        """The app."""
        return self._ask(lambda: self._device.package(name))

    def screen(self) -> Screen:
        """Logical screen."""
        return self._ask(self._device.screen)

    def focus(self) -> Focus:
        """Focused window."""
        return self._ask(self._device.focus)

    def battery(self) -> Battery:
        """Charge and temperature."""
        return self._ask(self._device.battery)

    def dump(self, screen_key: str = "") -> UiTree:
        """The UI tree."""
        return self._ask(lambda: self._device.dump(screen_key))

    def start(self, package: str) -> None:
        """Bring an app to the front; twice is once."""
        self._ask(lambda: self._device.start(package))

    def list(self, directory: str) -> Listing:
        """Entries of a folder."""
        return self._ask(lambda: self._device.list(directory))

    def stat(self, path: str) -> RemoteFile:
        """One entry."""
        return self._ask(lambda: self._device.stat(path))

    def sha256(self, path: str) -> str | None:
        """Hash computed by the phone."""
        return self._ask(lambda: self._device.sha256(path))

    def screenshot(self) -> bytes:
        """A PNG."""
        return self._ask(self._device.screenshot)

    # -- orders ----------------------------------------------------------------------------------------------

    def tap(self, x: int, y: int, *, package: str | None = None) -> TapResult:
        """One tap, sent once."""
        return self._device.tap(x, y, package=package)

    def swipe(self, x1: int, y1: int, x2: int, y2: int, duration_ms: int) -> TapResult:
        """One swipe, sent once; a lost answer is no failure."""
        try:
            return self._device.swipe(x1, y1, x2, y2, duration_ms)
        except DeviceError as error:
            self._await_phone(error)
            return TapResult(True)

    def key(self, code: int) -> TapResult:
        """One key event, sent once."""
        return self._device.key(code)

    def type_text(self, text: str) -> TapResult:
        """Type text, once."""
        return self._device.type_text(text)

    def pull(self, path: str, sink: Sink, *, limit_bytes: int, expected_bytes: int | None = None) -> int:
        """Stream a file once; the sink has what came, so only its owner can begin anew."""
        return self._device.pull(path, sink, limit_bytes=limit_bytes, expected_bytes=expected_bytes)
