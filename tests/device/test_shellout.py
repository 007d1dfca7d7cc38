"""Readers of shell output, the failure vocabulary, and redaction."""

from __future__ import annotations

import pickle
import struct
import zlib

import pytest

from hibor.device import shellout
from hibor.device.errors import FAILURE_WORDS, DeviceError, redact
from hibor.device.evidence import is_black
from hibor.device.protocol import Screen


def test_unknown_failure_words_are_refused() -> None:
    with pytest.raises(ValueError):
        DeviceError("broken", "x")
    assert DeviceError("trigger_refused", "x").failure in FAILURE_WORDS


def test_errors_survive_pickling() -> None:
    error = pickle.loads(pickle.dumps(DeviceError("link_lost", "x", command_sent=False)))
    assert (error.failure, error.detail, error.command_sent) == ("link_lost", "x", False)


@pytest.mark.parametrize(
    ("text", "secret"),
    [
        ("device 'R58M000001' not found", "R58M000001"),
        ("no such file /home/alice/reports/x.pdf", "alice"),
        ("C:\\Users\\王五\\reports", "王五"),
        ("/Users/bob/x", "bob"),
        ("192.168.1.7:5555 offline", "192.168.1.7"),
        ("adb-R58M000009-9mU6UL (2)._adb-tls-connect._tcp offline", "R58M000009"),
        ("账号 138****0001 已登录", "0001"),
        ("账号：13812340001", "13812340001"),
        ("mail alice@example.com", "alice"),
    ],
)
def test_details_are_redacted(text: str, secret: str) -> None:
    assert secret not in redact(text, ("R58M000001",))
    assert secret not in DeviceError("unexpected", text, secrets=("R58M000001",)).detail


def test_redaction_leaves_the_rest_alone() -> None:
    text = "no adb server on port 5037: 127.0.0.1:40123 refused, 编号 HB2026113000012"
    assert redact(text) == text


def test_a_wall_that_speaks_of_the_account_keeps_its_words() -> None:
    assert redact("kicked: 账号已在其他设备登录") == "kicked: 账号已在其他设备登录"
    assert redact("账号：张三丰") == "账号：<account>"



def test_marker_must_be_there_for_every_command() -> None:
    results = shellout.split_marked(b"a\nm1:0\nbm1:3\r\n", "m1", 2)
    assert [(r.stdout, r.code) for r in results] == [(b"a\n", 0), (b"b", 3)]
    with pytest.raises(ValueError):
        shellout.split_marked(b"a\nm1:0\nhalf", "m1", 2)


def test_stats_with_hostile_names_are_exact_or_absent() -> None:
    names = ["/s/a b.pdf", "/s/a\nk|9|9|9|regular file|/s/evil.pdf", "/s/c.pdf"]
    text = "".join(f"k|{n}|7|{n}|regular file|{path}\n" for n, path in enumerate(names, 1))
    found = shellout.parse_stats(text, "k", names)
    assert found["/s/a b.pdf"].size_bytes == 1 and found["/s/c.pdf"].inode == 3
    assert "/s/evil.pdf" not in found


def test_stats_skip_what_the_phone_refused() -> None:
    text = "k|1|7|1|directory|/s/a\nstat: /s/b: Permission denied\nk|2|7|2|symbolic link|/s/c\n"
    found = shellout.parse_stats(text, "k", ["/s/a", "/s/b", "/s/c"])
    assert {p: f.kind for p, f in found.items()} == {"/s/a": "dir", "/s/c": "link"}


def test_override_size_counts_and_rotation_turns_it() -> None:
    screen = shellout.parse_screen(
        "Physical size: 1080x2340\nOverride size: 720x1560\n", "Physical density: 420\n"
    )
    assert screen == Screen(720, 1560, 420, True) and screen.size_at(1) == (1560, 720)
    with pytest.raises(ValueError):
        shellout.parse_screen("Error", "Physical density: 420")


def test_battery_in_percent_and_degrees() -> None:
    text = (
        "Battery:\n  AC powered: false\n  USB powered: true\n  level: 43\n  scale: 50\n  temperature: 451\n"
    )
    battery = shellout.parse_battery(text)
    assert (battery.level_percent, battery.temperature_c, battery.charging) == (86, 45.1, True)


def test_quote_refuses_nul() -> None:
    with pytest.raises(ValueError):
        shellout.quote(["cat", "a\0b"])


def png(pixel: bytes) -> bytes:
    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    rows = (b"\0" + pixel * 8) * 8
    head = struct.pack(">IIBBBBB", 8, 8, 8, 6, 0, 0, 0)
    return (
        b"\x89PNG\r\n\x1a\n"
        + chunk(b"IHDR", head)
        + chunk(b"IDAT", zlib.compress(rows))
        + chunk(b"IEND", b"")
    )


def test_black_pictures_are_told_from_others() -> None:
    assert (
        is_black(png(b"\0\0\0\xff")) and not is_black(png(b"\x20\0\0\xff")) and not is_black(png(b"\xff" * 4))
    )
    assert not is_black(b"no picture")
