"""sha256 of a stream beside whoever streams it.

Rules of this file: a small stream is hashed where it is; a long one by a thread, a block at a time, because
hashing and writing together would take as long as both. Blocks are copied, so that the caller's buffer is
free at once; at most a few wait, so that memory stays flat. The digest is of all bytes given so far,
whoever has hashed them.
"""

from __future__ import annotations

import hashlib
import threading
from queue import Queue
from typing import Final

BLOCK_BYTES: Final = 1 << 20
WAITING_BLOCKS: Final = 8


class StreamDigest:
    """A sha256 fed by one thread. `close` ends the helper; the digest can be read before and after."""

    def __init__(self) -> None:
        self._digest = hashlib.sha256()
        self._block = bytearray()
        self._blocks: Queue[bytearray | None] = Queue(WAITING_BLOCKS)
        self._thread: threading.Thread | None = None

    def update(self, data: bytes | memoryview) -> None:
        """Add bytes; the buffer may be used again when this returns."""
        self._block += data
        if len(self._block) >= BLOCK_BYTES:
            self._hand_over()

    def hexdigest(self) -> str:
        """Lower-case hex sha256 of everything added; waits for what is still being hashed."""
        if self._thread is not None:
            self._blocks.join()
        whole = self._digest.copy()
        whole.update(self._block)
        return whole.hexdigest()

    def close(self) -> None:
        """Let the helper thread end; harmless when repeated or when there is none."""
        thread, self._thread = self._thread, None
        if thread is not None:
            self._blocks.put(None)
            thread.join()

    def _hand_over(self) -> None:
        if self._thread is None:
            self._thread = threading.Thread(target=self._hash_blocks, name="digest", daemon=True)
            self._thread.start()
        self._blocks.put(self._block)
        self._block = bytearray()

    def _hash_blocks(self) -> None:
        while True:
            block = self._blocks.get()
            if block is not None:
                self._digest.update(block)
            self._blocks.task_done()
            if block is None:
                return
