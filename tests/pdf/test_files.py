"""Reading a file from outside, and the line to the worker."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

import pytest

from hibor.pdf import files, wire


@pytest.mark.parametrize(
    "size", [0, 5, 2047, 2048, 2049, (1 << 20) - 1, 1 << 20, (1 << 20) + 7, (2 << 20) + 3000]
)
def test_one_pass_gives_size_hash_and_tail(tmp_path: Path, size: int) -> None:
    data = bytes(number * 31 % 251 for number in range(4096)) * (size // 4096 + 1)
    data = data[:size]
    path = tmp_path / "f"
    path.write_bytes(data)
    descriptor, identity = files.open_regular(str(path))
    try:
        head = files.read_head(descriptor)
        digest = files.digest(descriptor, deadline_s=1.0, head=head, clock_s=lambda: 0.0)
    finally:
        os.close(descriptor)
    assert head == data[:5] and identity.size_bytes == size
    assert digest == files.Digest(size, hashlib.sha256(data).hexdigest(), data[-2048:], finished=True)


def test_reading_stops_at_the_deadline(tmp_path: Path) -> None:
    path = tmp_path / "f"
    path.write_bytes(b"\0" * (3 << 20))
    descriptor, _ = files.open_regular(str(path))
    times = iter([0.0, 9.0])
    try:
        digest = files.digest(descriptor, deadline_s=5.0, clock_s=lambda: next(times))
    finally:
        os.close(descriptor)
    assert not digest.finished and digest.size_bytes == 2 << 20


@pytest.mark.parametrize(
    ("tail", "has"),
    [
        (b"startxref\n12\n%%EOF", True),
        (b"startxref\n12\n%%EOF\r\n\r\n", True),
        (b"%%EOF startxref\n12", False),
        (b"startxref 1 %%EOF more startxref 2", False),
        (b"startxref", False),
        (b"", False),
    ],
)
def test_trailer(tail: bytes, has: bool) -> None:
    assert files.has_trailer(tail) is has


def test_messages_and_broken_peers() -> None:
    reading, writing = os.pipe()
    try:
        wire.send(writing, {"path": "研报\udcff", "n": 1}, b"\x00png")
        assert wire.receive(reading) == ({"path": "研报\udcff", "n": 1}, b"\x00png")
        for broken in (b"\xff\xff\xff\xff", b"\0\0\0\2[]\0\0\0\0", b"\0\0\0\2{x\0\0\0\0"):
            os.write(writing, broken)
            with pytest.raises(wire.WireError):
                wire.receive(reading)
        os.write(writing, b"\0\0\0\x09short")
        os.close(writing)
        writing = -1
        with pytest.raises(wire.WireError, match="cut off"):
            wire.receive(reading)
        assert wire.receive(reading) is None
    finally:
        os.close(reading)
        if writing >= 0:
            os.close(writing)
