"""The line between the collector and its PDF worker.

Format: frames, each 4 bytes big-endian length and that many bytes. A message is one frame of ASCII JSON,
followed by one frame of raw bytes (often empty, a PNG for a thumbnail). Paths travel as JSON strings with
escaped surrogates, so undecodable POSIX names survive.

Recovery rule: there is none. A frame that is short, too long or not JSON means the peer is broken; the
reader raises `WireError` and the connection is dropped.
"""

from __future__ import annotations

import json
import os
import struct
from typing import Any, Final

FRAME_LIMIT_BYTES: Final = 64 << 20
"""The longest frame either side accepts; a thumbnail or a page's text stays far below it."""

_LENGTH: Final = struct.Struct(">I")

Message = dict[str, Any]


class WireError(Exception):
    """The peer sent something that is not a message."""


def send(descriptor: int, message: Message, payload: bytes = b"") -> None:
    """Write one message. Raises `OSError` (`BrokenPipeError`) when the peer is gone."""
    text = json.dumps(message, ensure_ascii=True).encode("ascii")
    data = _LENGTH.pack(len(text)) + text + _LENGTH.pack(len(payload)) + payload
    view = memoryview(data)
    while view:
        view = view[os.write(descriptor, view[: 1 << 16]) :]


def receive(descriptor: int) -> tuple[Message, bytes] | None:
    """Read one message; None when the peer closed the line between two messages. Raises `WireError`."""
    text = _frame(descriptor, at_start=True)
    if text is None:
        return None
    payload = _frame(descriptor, at_start=False)
    try:
        message = json.loads(text)
    except ValueError as error:
        raise WireError("not JSON") from error
    if not isinstance(message, dict) or payload is None:
        raise WireError("not a message")
    return message, payload


def _frame(descriptor: int, *, at_start: bool) -> bytes | None:
    header = _exactly(descriptor, _LENGTH.size)
    if not header and at_start:
        return None
    if len(header) < _LENGTH.size:
        raise WireError("cut off inside a length")
    (length,) = _LENGTH.unpack(header)
    if length > FRAME_LIMIT_BYTES:
        raise WireError(f"a frame of {length} bytes")
    body = _exactly(descriptor, length)
    if len(body) < length:
        raise WireError("cut off inside a frame")
    return body


def _exactly(descriptor: int, length: int) -> bytes:
    parts: list[bytes] = []
    while length > 0:
        part = os.read(descriptor, min(length, 1 << 16))
        if not part:
            break
        parts.append(part)
        length -= len(part)
    return b"".join(parts)
