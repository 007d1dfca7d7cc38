"""Failures of the phone and its link, as one exception type with a closed vocabulary.

Rules of this file: every low-level exception becomes a `DeviceError` at the edge where it happened, with
one word of `FAILURE_WORDS`; `spec/failures.yaml` maps (stage, word) to a public code, nothing else does.
`detail` is for people and is redacted here, once, so that no caller can forget it (design 5, "Adapter").
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path
from typing import Final

FAILURE_WORDS: Final[frozenset[str]] = frozenset(
    [
        "server_unreachable",
        "command_start_failed",
        "command_timeout",
        "output_limit",
        "link_lost",
        "device_ambiguous",
        "device_offline",
        "device_unauthorized",
        "device_replaced",
        "package_missing",
        "package_cloned",
        "cache_unreadable",
        "not_collectable",
        "device_locked",
        "input_blocked",
        "battery_low",
        "access_control",
        "dump_unreadable",
        "dump_stale",
        "ui_slot_taken",
        "opaque_webview",
        "foreign_window",
        "anchor_drift",
        "anchor_ambiguous",
        "cursor_lost",
        "detail_mismatch",
        "trigger_refused",
        "dialog_open",
        "no_new_file",
        "cache_ambiguous",
        "remote_changed",
        "remote_vanished",
        "remote_refused",
        "short_pull",
        "pull_hash_mismatch",
        "clock_invalid",
        "day_boundary",
        "quota_exhausted",
        "already_paid",
        "likely_duplicate",
        "foreign_final",
        "lock_timeout",
        "ledger_invalid",
        "replay_conflict",
        "deadline",
        "not_regular",
        "final_conflict",
        "publish_failed",
        "manifest_invalid",
        "persist_late",
        "unexpected",
    ]
)
"""Words this package may use; PDF findings are added by `hibor.pdf`."""

_HOME_PATHS = re.compile(
    r"(?:/home/|/Users/|/root(?=/|\b)|[A-Za-z]:[\\/]+Users[\\/]+)[^\\/\s:'\"，。]*", re.IGNORECASE
)
_NETWORK_SERIAL = re.compile(r"\b(?!127\.0\.0\.1\b)\d{1,3}(?:\.\d{1,3}){3}(?::\d{1,5})?\b")
_MDNS_SERIAL = re.compile(r"adb-[^\s]+(?: \(\d+\))?[^\s]*_adb(?:-tls-connect)?\._tcp")
_MAIL = re.compile(r"[\w.+-]+@[\w-]+(?:\.[\w-]+)+")
_PHONE_NUMBER = re.compile(r"(?<!\d)1[3-9]\d[\d*]{4}\d{4}(?!\d)")
_ACCOUNT_WORD = re.compile(
    r"(账号|帳號|account)(?:(\s*[:：]\s*)[\w*@.+-]{3,}|(\s*)[A-Za-z0-9_*@.+-]{3,})", re.IGNORECASE
)
"""A name after a colon may be of any letters; without one a Chinese sentence just goes on (账号已在…登录)."""


def redact(text: str, secrets: Iterable[str] = ()) -> str:
    """Text fit for public output: no serial numbers, account names or home paths (design 5).

    `secrets` are literal strings known to identify this phone or account. What merely looks like a network
    serial, an e-mail address, a mobile number or a home folder is replaced without being told.
    """
    for secret in sorted({word for word in secrets if word}, key=len, reverse=True):
        text = text.replace(secret, "<device>")
    home = str(Path.home())
    if len(home) > 1:
        text = text.replace(home, "~")
    text = _HOME_PATHS.sub("~", text)
    text = _MDNS_SERIAL.sub("<device>", text)
    text = _NETWORK_SERIAL.sub("<device>", text)
    text = _MAIL.sub("<account>", text)
    text = _PHONE_NUMBER.sub("<account>", text)
    return _ACCOUNT_WORD.sub(lambda m: f"{m[1]}{m[2] or m[3] or ''}<account>", text)


class DeviceError(Exception):
    """Something about the phone, its link or its screen went wrong.

    `failure` is a word of `FAILURE_WORDS`; `detail` a redacted sentence for people; `command_sent` is False
    only when it is certain that the phone never received the command, which is the positive proof a trigger
    needs (ruling R21). The original exception is the `__cause__`.
    """

    def __init__(
        self, failure: str, detail: str, *, command_sent: bool = True, secrets: Iterable[str] = ()
    ) -> None:
        if failure not in FAILURE_WORDS:
            raise ValueError(f"unknown failure word: {failure}")
        self.failure = failure
        self.detail = redact(detail, secrets)
        self.command_sent = command_sent
        super().__init__(f"{failure}: {self.detail}")

    def __reduce__(self) -> tuple[object, ...]:
        """Keep the error whole across process borders (the host lane may run elsewhere)."""
        return (_rebuild, (self.failure, self.detail, self.command_sent))


class NeverIdle(DeviceError):
    """The screen never came to rest, compressed dump or not: something on it moves (fault F31)."""

    def __init__(self, detail: str) -> None:
        super().__init__("dump_unreadable", detail)

    def __reduce__(self) -> tuple[object, ...]:
        return (NeverIdle, (self.detail,))


def _rebuild(failure: str, detail: str, command_sent: bool) -> DeviceError:
    return DeviceError(failure, detail, command_sent=command_sent)
