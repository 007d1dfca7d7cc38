"""sha256 of a stream of bytes, beside the writing of it (design 5 "streamed pull", design 7 "Figures").

Rules of this file: a short stream is hashed where it is written. A long one is handed on in blocks to one
thread, because reading a socket, writing a file and hashing all leave the interpreter to others while they
run; at most `MOST_WAITING` blocks wait, so memory stays flat. The digest is of every byte given, whichever
way it went.
"""

from __future__ import annotations

import hashlib
import queue
import threading
from typing import Final

BLOCK_BYTES: Final = 1 << 20
INLINE_BYTES: Final = 4 << 20
"""Up to this much is hashed at once: a thread costs more than it saves."""
MOST_WAITING: Final = 8


class StreamHash:
    """A running sha256. Not safe for several writers."""

    def __init__(self) -> None:
        self._digest = hashlib.sha256()
        self._size_bytes = 0
        self._block = bytearray()
        self._waiting: queue.Queue[bytearray | None] = queue.Queue(MOST_WAITING)
        self._thread: threading.Thread | None = None

    def update(self, data: bytes | memoryview) -> None:
        """Add bytes; `data` may be changed after the call."""
        self._size_bytes += len(data)
        if self._size_bytes <= INLINE_BYTES:
            self._digest.update(data)
            return
        self._block += data
        if len(self._block) >= BLOCK_BYTES:
            if self._thread is None:
                self._thread = threading.Thread(target=self._work, name="hash", daemon=True)
                self._thread.start()
            self._hand_over()

    def hexdigest(self) -> str:
        """Lower-case hex digest of all bytes so far."""
        self.settle()
        return self._digest.hexdigest()

    def settle(self) -> None:
        """Wait until everything given is in the digest; the thread, if there is one, ends."""
        if self._thread is not None:
            self._hand_over()
            self._waiting.put(None)
            self._thread.join()
            self._thread = None
        self._digest.update(self._block)
        self._block = bytearray()

    def _hand_over(self) -> None:
        self._waiting.put(self._block)
        self._block = bytearray()

    def _work(self) -> None:
        while (block := self._waiting.get()) is not None:
            self._digest.update(block)
