"""The digest of a stream equals the digest of its bytes, however it comes and whoever hashes it."""

from __future__ import annotations

import hashlib
import threading

from hypothesis import given, settings
from hypothesis import strategies as st

from hibor import digest
from hibor.digest import BLOCK_BYTES, StreamDigest

SIZES = st.lists(st.integers(0, 3 * BLOCK_BYTES), max_size=5)


@settings(max_examples=15, deadline=None)
@given(sizes=SIZES, closed_at=st.integers(0, 5), seed=st.integers(0, 255))
def test_it_is_the_digest_of_all_bytes(sizes: list[int], closed_at: int, seed: int) -> None:
    """Read in the middle, closed in the middle, read again; the caller's buffer is used again at once."""
    stream, whole = StreamDigest(), hashlib.sha256()
    for place, size in enumerate(sizes):
        buffer = bytearray([(seed + place) % 256]) * size
        stream.update(memoryview(buffer))
        whole.update(buffer)
        buffer[:] = bytes(size)
        if place == closed_at:
            stream.close()
        assert stream.hexdigest() == whole.hexdigest()
    stream.close()
    stream.close()
    assert stream.hexdigest() == whole.hexdigest()


def test_no_thread_is_left_and_a_small_stream_needs_none() -> None:
    """Threads are for long streams, and end with them."""
    before = threading.active_count()
    small = StreamDigest()
    small.update(b"%PDF-1.7")
    assert threading.active_count() == before
    long = StreamDigest()
    for _ in range(2 * digest.WAITING_BLOCKS):
        long.update(bytes(BLOCK_BYTES))
    assert threading.active_count() == before + 1
    long.close()
    assert threading.active_count() == before
