"""The stream hash is the hash of the stream, however it was cut and whichever way it went."""

from __future__ import annotations

import hashlib
import threading

import pytest

from hibor.hashing import BLOCK_BYTES, INLINE_BYTES, StreamHash


@pytest.mark.parametrize(
    "size_bytes", [0, 1, INLINE_BYTES, INLINE_BYTES + 1, INLINE_BYTES + 3 * BLOCK_BYTES + 7]
)
@pytest.mark.parametrize("piece_bytes", [65_536, 1_000_003])
def test_every_byte_counts(size_bytes: int, piece_bytes: int) -> None:
    data = (b"%PDF-1.7 report" * (size_bytes // 15 + 1))[:size_bytes]
    running = StreamHash()
    for start in range(0, size_bytes, piece_bytes):
        running.update(data[start : start + piece_bytes])
    assert running.hexdigest() == hashlib.sha256(data).hexdigest()


def test_the_callers_buffer_may_change_after_the_call() -> None:
    running, told = StreamHash(), hashlib.sha256()
    buffer = bytearray(INLINE_BYTES)
    for fill in range(4):
        buffer[:] = bytes([fill]) * INLINE_BYTES
        running.update(memoryview(buffer))
        told.update(buffer)
    buffer[:] = bytes(INLINE_BYTES)
    assert running.hexdigest() == told.hexdigest()


def test_a_digest_in_the_middle_does_not_end_the_stream() -> None:
    data = bytes(range(256)) * (INLINE_BYTES // 128)
    running = StreamHash()
    running.update(data)
    assert running.hexdigest() == hashlib.sha256(data).hexdigest()
    running.update(data)
    assert running.hexdigest() == hashlib.sha256(data + data).hexdigest()


def test_no_thread_is_left() -> None:
    running = StreamHash()
    for _ in range(12):
        running.update(bytes(BLOCK_BYTES))
    assert any(thread.name == "hash" for thread in threading.enumerate())
    running.settle()
    assert not any(thread.name == "hash" for thread in threading.enumerate())
