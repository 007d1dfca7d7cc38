"""The `sync:` service: STAT, LIST, RECV and SEND of the ADB file protocol, with the phone's pace and faults.

Rules of this file:
- Lengths count UTF-8 bytes, never characters (fault F16). STAT and LIST carry sizes modulo 2^32 as the old
  protocol does (fault F13); STA2, LST2 and LIS2 carry 64 bits.
- A folder that cannot be listed answers an empty list and no error, as Android's daemon does (fault F25).
- Pieces are at most 64 KiB. Unthrottled, up to 15 of them share one message, which is what makes 50 MB fast.
- Every piece asks the core for a fault first. An armed fault fires exactly at its byte.
"""

from __future__ import annotations

import errno
import stat as stat_modes
import struct
from datetime import UTC, datetime

import attrs

from hibor.sim.adb_wire import LinkClosed, Stream
from hibor.sim.seam import LinkFault, PhoneCore
from hibor.sim.vfs import FileFacts, VfsError

PIECE_BYTES = 64 * 1024
PIECES_UNTHROTTLED = 15
PIECES_THROTTLED = 2
PATH_LIMIT_BYTES = 1024

_WORD = struct.Struct("<4sI")
_STAT1 = struct.Struct("<4sIII")
_STAT2 = struct.Struct("<4sIQQIIIIQqqq")
_DENT1 = struct.Struct("<4sIIII")
_DENT2 = struct.Struct("<4sIQQIIIIQqqqI")
_DEVICE = 0x2D
_SHELL_UID, _MEDIA_GID = 10123, 1023
# The protocol carries Linux numbers whatever the host calls them.
_LINUX_ERRNO = {
    errno.ENOENT: 2, errno.EACCES: 13, errno.EEXIST: 17, errno.ENOTDIR: 20, errno.EISDIR: 21,
    errno.EINVAL: 22, errno.ENOSPC: 28, errno.EROFS: 30, errno.ENAMETOOLONG: 36, errno.ENOTEMPTY: 39,
    errno.ELOOP: 40,
}


@attrs.define
class _Transfer:
    """One RECV in progress: where it is, what waits to be sent, which fault is armed."""

    path: str
    started_s: float
    sent_bytes: int = 0
    buffer: bytearray = attrs.Factory(bytearray)
    pieces: int = 0
    armed: LinkFault | None = None
    grow: bool = False


class SyncService:
    """Serves one `sync:` stream until QUIT or the link's end."""

    def __init__(self, stream: Stream, core: PhoneCore, outage: Outage, wrap_sizes: bool) -> None:
        self._stream = stream
        self._core = core
        self._outage = outage
        self._wrap_sizes = wrap_sizes

    def serve(self) -> None:
        """Answer requests. Raises `LinkClosed` when the other side goes away."""
        while True:
            command, length = _WORD.unpack(self._stream.read_exact(_WORD.size))
            if command == b"QUIT":
                return
            if length > PATH_LIMIT_BYTES:
                self._fail("path too long")
                return
            path = self._stream.read_exact(length).decode("utf-8", "surrogateescape")
            if command in (b"STAT", b"STA2", b"LST2"):
                self._stat(command, path)
            elif command in (b"LIST", b"LIS2"):
                self._list(command, path)
            elif command == b"RECV":
                self._receive(path)
            elif command == b"SEND":
                self._send(path)
            else:
                self._fail(f"unknown command {command.hex()}")
                return

    # -- stat and list -----------------------------------------------------------------------------------

    def _stat(self, command: bytes, path: str) -> None:
        facts: FileFacts | None = None
        number = 0
        try:
            look = self._core.vfs.stat if command == b"STA2" else self._core.vfs.lstat
            facts = look(path, checked=True)
        except VfsError as error:
            number = _LINUX_ERRNO[error.errno or errno.EINVAL]
        if command != b"STAT":
            self._stream.write(_STAT2.pack(command, *self._fields2(facts, number)))
        elif facts is None:
            self._stream.write(_STAT1.pack(b"STAT", 0, 0, 0))
        else:
            self._stream.write(_STAT1.pack(b"STAT", *_fields1(facts)))

    def _list(self, command: bytes, path: str) -> None:
        second = command == b"LIS2"
        out = bytearray()
        for name, facts in self._entries(path):
            raw = name.encode("utf-8", "surrogateescape")
            if second:
                number = 0 if facts is not None else _LINUX_ERRNO[errno.EACCES]
                out += _DENT2.pack(b"DNT2", *self._fields2(facts, number), len(raw)) + raw
            elif facts is not None:
                out += _DENT1.pack(b"DENT", *_fields1(facts), len(raw)) + raw
            if len(out) >= PIECE_BYTES:
                self._stream.write(out)
                out = bytearray()
        out += b"DONE" + bytes((_DENT2 if second else _DENT1).size - 4)
        self._stream.write(out)

    def _entries(self, path: str) -> list[tuple[str, FileFacts | None]]:
        try:
            own = self._core.vfs.stat(path, checked=True)
            above = self._core.vfs.stat(f"{path}/..", checked=True)
            return [(".", own), ("..", above), *self._core.vfs.list(path, checked=True)]
        except VfsError:
            return []

    def _fields2(self, facts: FileFacts | None, number: int) -> tuple[int, ...]:
        if facts is None:
            return (number,) + (0,) * 10
        size_bytes = facts.size_bytes % 2**32 if self._wrap_sizes else facts.size_bytes
        second = facts.mtime_s
        return (
            number, _DEVICE, facts.inode, facts.mode, facts.links, _SHELL_UID, _MEDIA_GID, size_bytes,
            second, second, second,
        )

    # -- receive (pull) ----------------------------------------------------------------------------------

    def _receive(self, path: str) -> None:
        try:
            reader = self._core.vfs.open(path, checked=True)
        except VfsError as error:
            verb = "read" if error.errno == errno.EISDIR else "open"
            self._fail(f"{verb} failed: {error.text}")
            return
        transfer = _Transfer(path, self._core.monotonic_s())
        while True:
            piece = reader.read(PIECE_BYTES)
            if not self._piece(transfer, piece):
                return
            if not piece:
                break
        if transfer.grow:
            self._queue(transfer, bytes(1000))
        transfer.buffer += _WORD.pack(b"DONE", 0)
        self._flush(transfer)

    def _piece(self, transfer: _Transfer, piece: bytes) -> bool:
        """Send one piece (empty: the end is reached), playing faults. False: the transfer is over."""
        fault = self._core.link_fault("data", f"{transfer.path} {transfer.sent_bytes}")
        if fault is not None:
            if fault.kind == "grow":
                transfer.grow = True
            else:
                transfer.armed = fault
        armed = transfer.armed
        if armed is not None and armed.at_bytes <= transfer.sent_bytes + len(piece):
            transfer.armed = None
            keep = max(0, armed.at_bytes - transfer.sent_bytes)
            going_on, piece = self._play(armed, transfer, piece, keep)
            if not going_on:
                return False
        if piece:
            self._queue(transfer, piece)
        return True

    def _play(self, fault: LinkFault, transfer: _Transfer, piece: bytes, keep: int) -> tuple[bool, bytes]:
        """Play one armed fault `keep` bytes into the piece; (whether to go on, the piece to send)."""
        if fault.kind == "flip" and keep < len(piece):
            return True, piece[:keep] + bytes([piece[keep] ^ 0xFF]) + piece[keep + 1 :]
        if fault.kind == "crlf":
            transfer.armed = fault
            return True, piece.replace(b"\n", b"\r\n")
        if fault.kind not in ("drop", "offline", "truncate", "deny", "hang", "flood"):
            return True, piece
        if keep:
            self._queue(transfer, piece[:keep])
        self._flush(transfer)
        if fault.kind in ("drop", "offline"):
            # What was sent before has been taken: the cut is at this byte, not somewhere before it.
            self._stream.flush()
            if fault.kind == "offline":
                self._outage.begin(fault.wait_s)
            self._stream.drop_link()
            raise LinkClosed
        if fault.kind == "truncate":
            self._stream.write(_WORD.pack(b"DONE", 0))
            return False, b""
        if fault.kind == "deny":
            self._fail("read failed: Permission denied")
            return False, b""
        if fault.kind == "flood":
            filler = _WORD.pack(b"DATA", PIECE_BYTES) + bytes(PIECE_BYTES)
            while True:
                self._stream.write(filler)
        hang(self._stream, self._core, fault)
        return True, piece[keep:]

    def _queue(self, transfer: _Transfer, piece: bytes) -> None:
        for start in range(0, len(piece), PIECE_BYTES):
            part = piece[start : start + PIECE_BYTES]
            transfer.buffer += _WORD.pack(b"DATA", len(part)) + part
            transfer.sent_bytes += len(part)
            transfer.pieces += 1
        limit = PIECES_THROTTLED if self._core.pull_bytes_per_s > 0 else PIECES_UNTHROTTLED
        if transfer.pieces >= limit:
            self._flush(transfer)

    def _flush(self, transfer: _Transfer) -> None:
        """Send what waits, not earlier than the cable could have brought it."""
        pace = self._core.pull_bytes_per_s
        if pace > 0:
            due_s = transfer.started_s + transfer.sent_bytes / pace
            self._core.sleep(due_s - self._core.monotonic_s())
        if transfer.buffer:
            self._stream.write(transfer.buffer)
        transfer.buffer = bytearray()
        transfer.pieces = 0

    # -- send (push) -------------------------------------------------------------------------------------

    def _send(self, request: str) -> None:
        path, _, mode_text = request.rpartition(",")
        mode = int(mode_text) if mode_text.isdigit() else 0o644
        problem = self._create(path, mode)
        while True:
            command, value = _WORD.unpack(self._stream.read_exact(_WORD.size))
            if command == b"DONE":
                break
            if command != b"DATA" or value > PIECE_BYTES:
                self._fail("invalid data message")
                raise LinkClosed
            data = self._stream.read_exact(value)
            if problem is None:
                try:
                    self._core.vfs.append(path, data, checked=True)
                except VfsError as error:
                    problem = f"write failed: {error.text}"
        if problem is not None:
            self._fail(problem)
            return
        self._core.vfs.set_mtime(path, datetime.fromtimestamp(value, UTC))
        self._stream.write(_WORD.pack(b"OKAY", 0))

    def _create(self, path: str, mode: int) -> str | None:
        """Make the empty file; the problem as text, or None."""
        vfs = self._core.vfs
        if not path or stat_modes.S_IFMT(mode) not in (0, stat_modes.S_IFREG):
            return "only regular files are accepted"
        try:
            vfs.require_writable(path)
            vfs.make_folders(path.rpartition("/")[0])
            vfs.write_file(path, b"", permissions=mode & 0o777 or 0o660, checked=True)
        except VfsError as error:
            return f"couldn't create file: {error.text}"
        return None

    def _fail(self, message: str) -> None:
        raw = message.encode()
        self._stream.write(_WORD.pack(b"FAIL", len(raw)) + raw)


class Outage:
    """While it lasts the phone does not answer a new connection: the adb server calls it `offline`."""

    def __init__(self, core: PhoneCore) -> None:
        self._core = core
        self._until_s = core.monotonic_s()

    def begin(self, wait_s: float) -> None:
        """Be offline for `wait_s` phone seconds from now."""
        self._until_s = max(self._until_s, self._core.monotonic_s() + wait_s)

    def wait(self) -> None:
        """Return when it is over."""
        left_s = self._until_s - self._core.monotonic_s()
        if left_s > 0:
            self._core.sleep(left_s)


def hang(stream: Stream, core: PhoneCore, fault: LinkFault) -> None:
    """Say nothing for the fault's time; with `wait_s` 0 until the stream is closed, then `LinkClosed`."""
    if fault.wait_s > 0:
        core.sleep(fault.wait_s)
        return
    stream.closed.wait()
    raise LinkClosed


def _fields1(facts: FileFacts) -> tuple[int, int, int]:
    return facts.mode, facts.size_bytes % 2**32, facts.mtime_s % 2**32
