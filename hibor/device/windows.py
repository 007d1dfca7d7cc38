"""Telling the app's window from everything that may lie over it.

Rules of this file: pure; a foreign window is named, never closed: the collector grants no permission,
answers no system dialog and enters no PIN (faults F40, F41, F42; design 5, "Preflight on the phone").
"""

from __future__ import annotations

import re
from typing import Final

from hibor.device.errors import DeviceError
from hibor.device.profile_types import AccessKind, Profile
from hibor.device.reading import read_access
from hibor.device.uitree import UiTree

_ANR: Final = re.compile(r"没有响应|无响应|未响应|isn't responding|停止运行|keeps stopping", re.IGNORECASE)
_PERMISSION_PACKAGES: Final = re.compile(
    r"permissioncontroller|packageinstaller|lbe\.security|securitypermission|permissionmanager"
)
_ANOTHER: Final = "another window is on the screen"
_LOCK_IDS: Final = re.compile(r"keyguard|lockscreen|lock_icon", re.IGNORECASE)


class AccessControlError(DeviceError):
    """A wall of the app (login, captcha, quota …); `kind` says which. The run needs a person (fault F47)."""

    def __init__(self, kind: AccessKind, text: str) -> None:
        self.kind = kind
        self.text = text
        super().__init__("access_control", f"the app shows a {kind} wall: {text[:80]}")

    def __reduce__(self) -> tuple[object, ...]:
        return (AccessControlError, (self.kind, self.text))


def foreign_reason(tree: UiTree, package: str) -> DeviceError | None:
    """Why this dump is not the app's window, or None when it is."""
    if tree.package == package:
        return None
    if tree.package == "com.android.systemui" and any(_LOCK_IDS.search(n.resource_id) for n in tree.nodes):
        return DeviceError("device_locked", "the phone shows its lock screen; unlock it by hand")
    if any(_ANR.search(text) for text in tree.texts()) and tree.package in ("android", "system"):
        return DeviceError(
            "foreign_window", "the system says that an app does not respond; answer it by hand"
        )
    if _PERMISSION_PACKAGES.search(tree.package):
        return DeviceError("foreign_window", "a permission question is on the screen; answer it by hand")
    return DeviceError("foreign_window", f"{_ANOTHER}: {tree.package or 'unknown'}")


def left_app(tree: UiTree, package: str) -> bool:
    """Whether the app was left for an ordinary window (the launcher, say), not covered by a question or a
    lock.
    """
    reason = foreign_reason(tree, package)
    return reason is not None and reason.detail.startswith(_ANOTHER)


def require_app(tree: UiTree, profile: Profile) -> None:
    """Raise `foreign_window` or `device_locked` unless the dump is the app's."""
    reason = foreign_reason(tree, profile.app.package)
    if reason is not None:
        raise reason


def require_no_wall(tree: UiTree, profile: Profile) -> None:
    """Raise `AccessControlError` when the screen shows a wall."""
    wall = read_access(tree, profile)
    if wall is not None:
        raise AccessControlError(wall.kind, wall.text)
