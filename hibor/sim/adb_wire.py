"""The ADB transport as a device speaks it: messages on one socket, streams inside it.

Rules of this file:
- A message is a 24-byte little-endian header (command, two arguments, length, checksum, command ^ 0xffffffff)
  and at most `MAX_PAYLOAD_BYTES` of payload. Header and payload leave in one send: two small sends in a row
  would wait for each other's acknowledgement (Nagle against delayed ACK, tens of milliseconds a message).
- A stream has one unacknowledged WRTE per direction; its OKAY is sent when the payload is consumed, so a slow
  reader slows its writer and nothing piles up.
- Whatever ends a connection ends its streams; whoever waits on one gets `LinkClosed`.
"""

from __future__ import annotations

import contextlib
import queue
import socket
import struct
import threading
from collections.abc import Callable

A_CNXN, A_AUTH, A_OPEN, A_OKAY, A_CLSE, A_WRTE = (
    int.from_bytes(word, "little") for word in (b"CNXN", b"AUTH", b"OPEN", b"OKAY", b"CLSE", b"WRTE")
)
VERSION_MIN = 0x01000000
VERSION_SKIP_CHECKSUM = 0x01000001
MAX_PAYLOAD_BYTES = 1024 * 1024
_LEGACY_PAYLOAD_BYTES = 4096
_HEADER = struct.Struct("<6I")


class LinkClosed(Exception):
    """The stream or its connection is gone; nothing more can be said on it."""


class Stream:
    """One two-way byte channel between the adb server and a service of the phone."""

    def __init__(self, connection: Connection, local_id: int, remote_id: int, discard_input: bool) -> None:
        self._connection = connection
        self.local_id = local_id
        self.remote_id = remote_id
        self._discard_input = discard_input
        self._incoming: queue.SimpleQueue[bytes | None] = queue.SimpleQueue()
        self._rest = b""
        self._accepted = False
        self._may_write = threading.Semaphore(1)
        self.closed = threading.Event()

    def accept(self) -> None:
        """Tell the other side that the service is there."""
        self._accepted = True
        self._connection.send(A_OKAY, self.local_id, self.remote_id)

    def write(self, data: bytes | bytearray | memoryview) -> None:
        """Send all of `data`. Raises `LinkClosed`."""
        view = memoryview(data)
        step = self._connection.peer_payload_bytes
        for start in range(0, len(view), step):
            self._may_write.acquire()
            if self.closed.is_set():
                self._may_write.release()
                raise LinkClosed
            self._connection.send(A_WRTE, self.local_id, self.remote_id, view[start : start + step])

    def flush(self) -> None:
        """Wait until the other side has taken everything written. Raises `LinkClosed`."""
        self._may_write.acquire()
        self._may_write.release()
        if self.closed.is_set():
            raise LinkClosed

    def read_exact(self, length: int) -> bytes:
        """The next `length` bytes. Raises `LinkClosed` when the stream ends before."""
        parts = [self._rest]
        have = len(self._rest)
        while have < length:
            piece = self._incoming.get()
            if piece is None:
                self._incoming.put(None)
                raise LinkClosed
            self._acknowledge()
            parts.append(piece)
            have += len(piece)
        joined = b"".join(parts)
        self._rest = joined[length:]
        return joined[:length]

    def close(self) -> None:
        """Close from the phone's side; harmless when already closed."""
        if not self.closed.is_set():
            self.end()
            self._connection.forget(self)
            # 0 says "not opened"; a server that has seen no OKAY knows no other number of ours.
            with contextlib.suppress(LinkClosed):
                self._connection.send(A_CLSE, self.local_id if self._accepted else 0, self.remote_id)

    def end(self) -> None:
        """Wake everybody who waits on this stream; the connection calls it when the other side closed."""
        self.closed.set()
        self._incoming.put(None)
        self._may_write.release()

    def deliver(self, payload: bytes) -> None:
        """A WRTE has come; called by the connection's reader."""
        if self._discard_input:
            self._acknowledge()
        else:
            self._incoming.put(payload)

    def taken(self) -> None:
        """An OKAY has come: the last WRTE was consumed; called by the connection's reader."""
        self._may_write.release()

    def drop_link(self) -> None:
        """Cut the whole connection, as a pulled cable does."""
        self._connection.drop()

    def _acknowledge(self) -> None:
        self._connection.send(A_OKAY, self.local_id, self.remote_id)


class Connection:
    """One socket to an adb server. `on_open(stream, service)` is called in the reader thread: be quick."""

    def __init__(self, sock: socket.socket, on_open: Callable[[Stream, str], None]) -> None:
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._sock = sock
        self._reader = sock.makefile("rb", buffering=65536)
        self._on_open = on_open
        self._send_lock = threading.Lock()
        self._streams_lock = threading.Lock()
        self._streams: dict[int, Stream] = {}
        self._next_id = 0
        self._dropped = False
        self.peer_payload_bytes = _LEGACY_PAYLOAD_BYTES
        self._checksums = True

    def receive(self) -> tuple[int, int, int, bytes]:
        """The next message as (command, arg0, arg1, payload). Raises `LinkClosed`, also on nonsense."""
        try:
            header = self._reader.read(_HEADER.size)
            if len(header) < _HEADER.size:
                raise LinkClosed
            command, arg0, arg1, length, _, magic = _HEADER.unpack(header)
            if magic != command ^ 0xFFFFFFFF or length > MAX_PAYLOAD_BYTES:
                raise LinkClosed
            payload = self._reader.read(length) if length else b""
        except (OSError, ValueError) as error:
            raise LinkClosed from error
        if len(payload) < length:
            raise LinkClosed
        return command, arg0, arg1, payload

    def send(self, command: int, arg0: int, arg1: int, payload: bytes | memoryview = b"") -> None:
        """Send one message whole. Raises `LinkClosed`."""
        checksum = sum(payload) & 0xFFFFFFFF if self._checksums else 0
        header = _HEADER.pack(command, arg0, arg1, len(payload), checksum, command ^ 0xFFFFFFFF)
        message = b"".join((header, payload)) if len(payload) else header
        try:
            with self._send_lock:
                self._sock.sendall(message)
        except (OSError, ValueError) as error:
            raise LinkClosed from error

    def agree(self, version: int, payload_bytes: int) -> None:
        """Take over what the other side said in its CNXN."""
        self._checksums = version < VERSION_SKIP_CHECKSUM
        self.peer_payload_bytes = max(1, min(payload_bytes, MAX_PAYLOAD_BYTES))

    def serve_streams(self) -> None:
        """Pass messages to streams until the link ends. Raises `LinkClosed`."""
        while True:
            command, arg0, arg1, payload = self.receive()
            if command == A_OPEN:
                self._open(arg0, payload)
                continue
            with self._streams_lock:
                stream = self._streams.get(arg1)
            if stream is None:
                if command == A_WRTE:
                    self.send(A_CLSE, 0, arg0)
            elif command == A_WRTE:
                stream.deliver(payload)
            elif command == A_OKAY:
                stream.taken()
            elif command == A_CLSE:
                self.forget(stream)
                stream.end()

    def forget(self, stream: Stream) -> None:
        """The stream is closed; its number is free."""
        with self._streams_lock:
            self._streams.pop(stream.local_id, None)

    def drop(self) -> None:
        """Cut the socket and end every stream; harmless when repeated."""
        with self._streams_lock:
            self._dropped = True
            streams = list(self._streams.values())
            self._streams.clear()
        with contextlib.suppress(OSError):  # the other side may have been faster
            self._sock.shutdown(socket.SHUT_RDWR)
        for stream in streams:
            stream.end()

    def release(self) -> None:
        """Free the socket; only the reader thread calls it, when nobody reads any more."""
        self.drop()
        self._reader.close()
        self._sock.close()

    def _open(self, remote_id: int, payload: bytes) -> None:
        service = payload.rstrip(b"\0").decode("utf-8", "surrogateescape")
        with self._streams_lock:
            if self._dropped:
                raise LinkClosed
            self._next_id += 1
            stream = Stream(self, self._next_id, remote_id, discard_input=not service.startswith("sync:"))
            self._streams[stream.local_id] = stream
        self._on_open(stream, service)
