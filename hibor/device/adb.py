"""The only file that knows adbutils: the adb server, its connections, and the phone behind them.

Rules of this file: no server is ever started or killed here (adbutils would start one by itself, possibly of
another version: its `_safe_connect` is overridden); every operation has one deadline for the whole, counted
bytes and a bounded first reply (faults F05, F24); exit codes come from shell_v2, else from a random marker
(fault F12); every low-level exception becomes a `DeviceError` before it leaves; nothing is retried, so
nothing can be tapped twice. Files travel by the sync protocol only (fault F21), regular files only, into
the caller's sink. Deadlines count on the given clock; with a scaled one at least `MACHINE_FLOOR_S` real
seconds stay, because sockets and processes do not get faster with it.
"""

from __future__ import annotations

import secrets
import socket
import stat as stat_bits
import struct
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Final

import attrs
from adbutils._adb import AdbConnection
from adbutils.errors import AdbError, AdbTimeout

from hibor.clock import Clock, SystemClock
from hibor.device.errors import DeviceError, redact
from hibor.device.phone import Limits, ShellPhone
from hibor.device.protocol import Sink
from hibor.device.shellout import ShellResult, quote, split_marked

__all__ = ["AdbDevice", "AdbServer", "DeviceEntry", "choose_device", "list_devices", "redact"]
__all__ += ["server_version"]

MACHINE_FLOOR_S: Final = 3.0
_BUFFER_BYTES: Final = 1 << 20
# Linux: acknowledge at once. The adb server keeps Nagle's algorithm on, so the end of a longer answer would
# wait 40 ms for a delayed acknowledgement. The kernel forgets the option, so it is set after each read.
_QUICK_ACK: Final[int | None] = getattr(socket, "TCP_QUICKACK", None)
_LOW_LEVEL = (AdbError, OSError, EOFError, ValueError, struct.error)


@attrs.frozen
class AdbServer:
    """Where an adb server listens; `first_reply_s` (real seconds) bounds connecting and its first answer."""

    host: str = "127.0.0.1"
    port: int = 5037
    first_reply_s: float = 5.0

    @classmethod
    def parse(cls, text: str) -> AdbServer:
        """`HOST:PORT` → server. Raises `ValueError` for anything else."""
        host, separator, port = text.rpartition(":")
        if not separator or not host or not port.isdigit() or not 0 < int(port) < 65536:
            raise ValueError(f"adb server must be HOST:PORT, not {text!r}")
        return cls(host.strip("[]"), int(port))


@attrs.frozen
class DeviceEntry:
    """One line of the server's device list; `state` is adb's word (device, offline, unauthorized …)."""

    serial: str
    state: str


class _Deadline:
    """The end of one operation, in real seconds left, counted on a clock that may be scaled."""

    def __init__(self, clock: Clock, limit_s: float) -> None:
        self._clock = clock
        self._scale = max(float(getattr(clock, "scale", 1.0)), 1e-9)
        floor_s = min(limit_s, MACHINE_FLOOR_S) * self._scale
        self._end_s = clock.monotonic_s() + max(limit_s, floor_s)

    def left_s(self) -> float:
        left_s = (self._end_s - self._clock.monotonic_s()) / self._scale
        if left_s <= 0:
            raise AdbTimeout("deadline")
        return left_s


class _Connection(AdbConnection):  # type: ignore[misc]
    """An adbutils connection that starts no server, sleeps nowhere and obeys one deadline."""

    def __init__(self, server: AdbServer, deadline: _Deadline) -> None:
        self._server = server
        self._deadline = deadline
        self._buffer = bytearray()
        super().__init__(server.host, server.port)

    def _safe_connect(self) -> socket.socket:
        limit_s = min(self._server.first_reply_s, self._deadline.left_s())
        link = socket.create_connection((self._server.host, self._server.port), timeout=limit_s)
        link.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return link

    def _read_fully(self, n: int) -> bytes:
        parts, missing = [], n
        while missing > 0:
            self.conn.settimeout(self._deadline.left_s())
            part = self.conn.recv(missing)
            if not part:
                break
            parts.append(part)
            missing -= len(part)
        return b"".join(parts)

    def bound(self, deadline: _Deadline) -> None:
        """From now on obey another deadline."""
        self._deadline = deadline

    def request(self, service: str) -> None:
        """Send one host or device service request, whole."""
        data = service.encode("utf-8", errors="strict")
        if len(data) > 0xFFFF:
            raise ValueError("service request longer than the protocol carries")
        self.conn.settimeout(self._deadline.left_s())
        self.conn.sendall(b"%04x" % len(data) + data)

    def receive_into(self, view: memoryview) -> int:
        """Some bytes, 0 at the end of the stream."""
        self.conn.settimeout(self._deadline.left_s())
        count = int(self.conn.recv_into(view))
        if _QUICK_ACK is not None:
            self.conn.setsockopt(socket.IPPROTO_TCP, _QUICK_ACK, 1)
        return count

    def send_all(self, data: bytes) -> None:
        """All bytes, within the deadline."""
        self.conn.settimeout(self._deadline.left_s())
        self.conn.sendall(data)

    def close(self) -> None:
        """Close at once; adbutils would sleep 10 ms here, which is most of a shell call."""
        if not self.closed:
            self.conn.close()


class _Reader:
    """Buffered, exact reads of a stream: few system calls, payload handed on without copying it together."""

    def __init__(self, connection: _Connection) -> None:
        self._connection = connection
        self._data = memoryview(bytearray(_BUFFER_BYTES))
        self._start = self._end = 0

    def _fill(self) -> bool:
        if self._start == self._end:
            self._start = self._end = 0
        elif self._end == len(self._data):
            rest = bytes(self._data[self._start : self._end])
            self._data[: len(rest)] = rest
            self._start, self._end = 0, len(rest)
        count = self._connection.receive_into(self._data[self._end :])
        self._end += count
        return count > 0

    def exact(self, count: int) -> bytes:
        """`count` bytes (small). Raises `EOFError` when the stream ends before."""
        while self._end - self._start < count:
            if not self._fill():
                raise EOFError("the stream ended inside a header")
        data = bytes(self._data[self._start : self._start + count])
        self._start += count
        return data

    def pieces(self, count: int) -> Iterator[memoryview]:
        """`count` bytes as views that are valid until the next step. Raises `EOFError`."""
        while count > 0:
            if self._start == self._end and not self._fill():
                raise EOFError("the stream ended inside a block")
            size = min(count, self._end - self._start)
            yield self._data[self._start : self._start + size]
            self._start += size
            count -= size

    def rest(self) -> Iterator[memoryview]:
        """Everything up to the end of the stream, as views."""
        while self._start < self._end or self._fill():
            yield self._data[self._start : self._end]
            self._start = self._end


def _refusal(message: str) -> str:
    """The server's FAIL text → failure word."""
    if "unauthorized" in message or "authorizing" in message:
        return "device_unauthorized"
    if "more than one" in message:
        return "device_ambiguous"
    if "offline" in message or "connecting" in message or "no devices" in message:
        return "device_offline"
    if "not found" in message:
        return "link_lost"
    return "command_start_failed"


def _first_reply(connection: _Connection, server: AdbServer) -> None:
    """OKAY, or `DeviceError`; anything else on this port is not an adb server (fault F05)."""
    reply = connection.read(4)
    if reply == b"OKAY":
        return
    if reply != b"FAIL":
        raise DeviceError(
            "server_unreachable",
            f"what listens on port {server.port} does not speak the adb protocol",
            command_sent=False,
        )
    message = connection.read_string_block()
    raise DeviceError(_refusal(message), f"adb server says: {message}", command_sent=False)


def _host_query(server: AdbServer, service: str) -> str:
    """One `host:` request with a text answer."""
    try:
        connection = _Connection(server, _Deadline(SystemClock(), server.first_reply_s))
        with connection:
            connection.request(service)
            _first_reply(connection, server)
            return str(connection.read_string_block())
    except (AdbTimeout, TimeoutError) as error:
        raise DeviceError(
            "server_unreachable",
            f"the adb server on port {server.port} does not answer within {server.first_reply_s:g} s; "
            "another program may hold the port",
            command_sent=False,
        ) from error
    except _LOW_LEVEL as error:
        raise DeviceError(
            "server_unreachable", f"no adb server on port {server.port}: {error}", command_sent=False
        ) from error


def server_version(server: AdbServer) -> int:
    """The server's protocol version (41 for today's adb). Raises `server_unreachable`."""
    text = _host_query(server, "host:version")
    try:
        return int(text, 16)
    except ValueError as error:
        raise DeviceError("server_unreachable", f"unreadable adb version {text!r}") from error


def list_devices(server: AdbServer) -> tuple[DeviceEntry, ...]:
    """Every transport the server knows. Serials may hold blanks: only the tab separates (fault F02)."""
    entries = []
    for line in _host_query(server, "host:devices").splitlines():
        serial, separator, state = line.rpartition("\t")
        if separator:
            entries.append(DeviceEntry(serial, state.strip()))
    return tuple(entries)


def choose_device(server: AdbServer, serial: str | None) -> str:
    """The serial to use: the named one if it is online, else the only one online (faults F01, F02)."""
    entries = list_devices(server)
    named = [e for e in entries if serial is None or e.serial == serial]
    online = [e for e in named if e.state == "device"]
    if len(online) == 1:
        return online[0].serial
    if len(online) > 1:
        raise DeviceError(
            "device_ambiguous",
            f"{len(online)} transports are online; name one with --device "
            "(one phone may be listed twice, by cable and by network)",
        )
    if not named:
        said = "the named phone is not connected" if entries else "no phone is connected"
        raise DeviceError("device_offline", said)
    states = sorted({e.state for e in named})
    if any("unauthorized" in s or "authorizing" in s for s in states):
        raise DeviceError(
            "device_unauthorized",
            "the phone has not allowed this computer; confirm the question on its screen",
        )
    raise DeviceError("device_offline", f"the phone is not usable: {', '.join(states)}")


class AdbDevice(ShellPhone):
    """One phone behind an adb server. Opening it reads its identity; each call opens its own connection."""

    def __init__(
        self, server: AdbServer, serial: str, *, clock: Clock | None = None, limits: Limits | None = None
    ) -> None:
        self._server = server
        self._features: frozenset[str] | None = None
        super().__init__(serial, clock or SystemClock(), limits or Limits())

    @contextmanager
    def _service(self, service: str, deadline: _Deadline) -> Iterator[_Connection]:
        """A connection on which the phone has accepted `service`; all low-level errors are translated."""
        sent = False
        stage = "server"
        try:
            first = _Deadline(SystemClock(), min(self._server.first_reply_s, deadline.left_s()))
            connection = _Connection(self._server, first)
            with connection:
                connection.request(f"host:transport:{self._serial}")
                _first_reply(connection, self._server)
                stage = "phone"
                connection.bound(deadline)
                sent = True
                connection.request(service)
                self._phone_reply(connection)
                yield connection
        except DeviceError as error:
            raise self._failed(error.failure, error.detail, sent) from error
        except (AdbTimeout, TimeoutError) as error:
            if stage == "server":
                raise self._failed("server_unreachable", "the adb server does not answer", False) from error
            raise self._failed("command_timeout", f"no end in time of: {service[:80]}", sent) from error
        except _LOW_LEVEL as error:
            word = "server_unreachable" if stage == "server" else "link_lost"
            raise self._failed(word, f"{type(error).__name__}: {error}", sent) from error

    @staticmethod
    def _phone_reply(connection: _Connection) -> None:
        reply = connection.read(4)
        if reply == b"OKAY":
            return
        if reply == b"FAIL":
            message = connection.read_string_block()
            word = "link_lost" if message in ("closed", "device offline") else _refusal(message)
            raise DeviceError(word, f"the phone refused the service: {message}")
        raise EOFError("the connection ended before the phone answered")

    def _has_shell_v2(self) -> bool:
        if self._features is None:
            try:
                text = _host_query(self._server, f"host-serial:{self._serial}:features")
            except DeviceError as error:
                raise self._failed(error.failure, error.detail, False) from error
            self._features = frozenset(text.split(","))
        return "shell_v2" in self._features

    def run(
        self, *commands: Sequence[str], limit_bytes: int | None = None, timeout_s: float | None = None
    ) -> tuple[ShellResult, ...]:
        """Run commands in one shell call, each whatever the one before said; one result each."""
        deadline = _Deadline(self._clock, self._limits.command_s if timeout_s is None else timeout_s)
        limit = self._limits.output_bytes if limit_bytes is None else limit_bytes
        version2 = self._has_shell_v2()
        marker = "end" + secrets.token_hex(8)
        lines = [quote(argv) for argv in commands]
        if len(lines) == 1 and version2:
            line = lines[0]
        else:
            line = "; ".join(f"{text}; echo {marker}:$?" for text in lines)
        with self._service(("shell,v2,raw:" if version2 else "shell:") + line, deadline) as connection:
            read = _read_shell_v2 if version2 else _read_shell_v1
            result = read(_Reader(connection), limit)
        if len(lines) == 1 and version2:
            return (result,)
        try:
            results = split_marked(result.stdout, marker, len(lines))
        except ValueError as error:
            raise self._failed("link_lost", f"the output broke off: {error}", True) from error
        return tuple(attrs.evolve(r, stderr=result.stderr) for r in results)

    def _raw_output(self, argv: Sequence[str], limit_bytes: int, timeout_s: float) -> bytes:
        if self._has_shell_v2():
            return self.run(argv, limit_bytes=limit_bytes, timeout_s=timeout_s)[0].stdout
        deadline = _Deadline(self._clock, timeout_s)
        with self._service("exec:" + quote(argv), deadline) as connection:
            return _read_shell_v1(_Reader(connection), limit_bytes).stdout

    def _sync_list(self, directory: str) -> tuple[tuple[str, int], ...]:
        """Names (byte-exact) and modes of a folder, without `.` and `..`; unreadable and empty look alike."""
        deadline = _Deadline(self._clock, self._limits.command_s)
        found: list[tuple[str, int]] = []
        with self._service("sync:", deadline) as connection:
            reader = _Reader(connection)
            connection.send_all(_sync_request(b"LIST", directory))
            for count in range(self._limits.entries + 1):
                word = reader.exact(4)
                if word == b"DONE":
                    return tuple(found)
                if word == b"FAIL":
                    raise _sync_failure(reader)
                if word != b"DENT":
                    raise EOFError(f"unexpected sync answer {word!r}")
                mode, _, _, length = struct.unpack("<IIII", reader.exact(16))
                if length > 4096 or count == self._limits.entries:
                    raise DeviceError("output_limit", "a folder listing beyond the limit")
                name = reader.exact(length).decode("utf-8", errors="surrogateescape")
                if name not in (".", ".."):
                    found.append((name, mode))
        return tuple(found)

    def pull(self, path: str, sink: Sink, *, limit_bytes: int, expected_bytes: int | None = None) -> int:
        """Stream one regular file into `sink`; returns counted bytes (the 32-bit STAT size is not believed).

        Raises `not_regular`, `remote_vanished`, `remote_refused`, `output_limit` (more than `limit_bytes`),
        `short_pull` / `remote_changed` (ended before / ran past `expected_bytes`), `device_replaced`, link
        words. What the sink raises (a full local disk) is raised unchanged: it is not the phone's failure.
        """
        self.check_identity()
        try:
            counted = self._receive(path, sink, limit_bytes, expected_bytes)
        except _SinkFailed as failed:
            raise failed.original from None
        if expected_bytes is not None and counted < expected_bytes:
            raise self._failed("short_pull", f"{counted} of {expected_bytes} bytes arrived", True)
        return counted

    def _receive(self, path: str, sink: Sink, limit_bytes: int, expected_bytes: int | None) -> int:
        """STAT and RECV in one sync session; counts while receiving."""
        deadline = _Deadline(self._clock, self._limits.pull_s)
        counted = 0
        with self._service("sync:", deadline) as connection:
            reader = _Reader(connection)
            connection.send_all(_sync_request(b"STAT", path))
            if reader.exact(4) != b"STAT":
                raise EOFError("no answer to STAT")
            mode, _, _ = struct.unpack("<III", reader.exact(12))
            _refuse_unless_regular(mode)
            connection.send_all(_sync_request(b"RECV", path))
            while True:
                word, length = struct.unpack("<4sI", reader.exact(8))
                if word == b"DONE":
                    break
                if word == b"FAIL":
                    raise _sync_failure(reader, length)
                if word != b"DATA" or length > (1 << 26):
                    raise EOFError(f"unexpected sync answer {word!r}")
                counted += length
                if counted > limit_bytes:
                    raise DeviceError("output_limit", f"the file is longer than {limit_bytes} bytes")
                if expected_bytes is not None and counted > expected_bytes:
                    raise DeviceError("remote_changed", "the file is longer than it was when it was chosen")
                for piece in reader.pieces(length):
                    _give(sink, piece)
        return counted


class _SinkFailed(Exception):
    """Carries the sink's exception past the translation of link errors: both may be `OSError`."""

    def __init__(self, original: Exception) -> None:
        self.original = original
        super().__init__(str(original))


def _give(sink: Sink, piece: memoryview) -> None:
    """Hand bytes on; a local disk error must not look like a lost link, so it leaves by another type."""
    try:
        sink.write(piece)
    except _LOW_LEVEL as error:
        raise _SinkFailed(error) from error


def _sync_request(word: bytes, path: str) -> bytes:
    """Word, length in UTF-8 bytes (not characters: fault F16), path."""
    data = path.encode("utf-8", errors="surrogateescape")
    if len(data) > 1024:
        raise DeviceError("remote_refused", "the path is longer than the phone accepts", command_sent=False)
    return word + struct.pack("<I", len(data)) + data


def _refuse_unless_regular(mode: int) -> None:
    if mode == 0:
        raise DeviceError("remote_vanished", "the file is not there, or may not be looked at")
    if not stat_bits.S_ISREG(mode):
        raise DeviceError("not_regular", "a folder, link or special file is in the place of the file")


def _sync_failure(reader: _Reader, length: int | None = None) -> DeviceError:
    """The phone's FAIL text → failure word."""
    size = struct.unpack("<I", reader.exact(4))[0] if length is None else length
    message = reader.exact(min(size, 4096)).decode("utf-8", errors="replace")
    gone = "No such file" in message or "does not exist" in message
    return DeviceError("remote_vanished" if gone else "remote_refused", f"the phone says: {message}")


def _read_shell_v1(reader: _Reader, limit_bytes: int) -> ShellResult:
    """Everything up to the end of the stream; the exit code is not known here."""
    output = bytearray()
    for piece in reader.rest():
        output += piece
        if len(output) > limit_bytes:
            raise DeviceError("output_limit", f"more than {limit_bytes} bytes of output")
    return ShellResult(0, bytes(output))


def _read_shell_v2(reader: _Reader, limit_bytes: int) -> ShellResult:
    """Packets of the shell protocol up to the exit packet."""
    output, errors = bytearray(), bytearray()
    while True:
        kind, length = struct.unpack("<BI", reader.exact(5))
        if kind == 3:
            return ShellResult(reader.exact(max(1, length))[0], bytes(output), bytes(errors))
        target = output if kind == 1 else errors
        for piece in reader.pieces(length):
            if kind in (1, 2):
                target += piece
            if len(output) + len(errors) > limit_bytes:
                raise DeviceError("output_limit", f"more than {limit_bytes} bytes of output")
