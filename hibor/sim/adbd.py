"""The phone's ADB daemon on loopback: what `adb connect 127.0.0.1:<port>` reaches.

Rules of this file:
- It listens on loopback only and executes nothing on the host; every service ends in the core's answers.
- The link may be cut at any byte, by a fault or by `drop_connections`; the listener stays, so the adb server
  can come back to the same port, and may then find another phone there (the banner is read from the core at
  every connection).
- One thread reads a connection, one thread serves each stream: a stream that waits never holds up another.
"""

from __future__ import annotations

import contextlib
import os
import socket
import struct
import threading
from collections.abc import Callable

from hibor.sim.adb_wire import (
    A_AUTH,
    A_CNXN,
    MAX_PAYLOAD_BYTES,
    VERSION_SKIP_CHECKSUM,
    Connection,
    LinkClosed,
    Stream,
)
from hibor.sim.seam import LinkFault, PhoneCore
from hibor.sim.shell import Shell
from hibor.sim.sync_service import Outage, SyncService, hang

FEATURES = ("shell_v2", "stat_v2", "ls_v2", "fixed_push_mkdir")
FLOOD_LINE = b"0123456789abcdef" * 255 + b"0123456789abcde\n"
_BANNER_PROPS = ("ro.product.name", "ro.product.model", "ro.product.device")
_AUTH_TOKEN, _AUTH_SIGNATURE = 1, 2
_SHELL_STDOUT, _SHELL_STDERR, _SHELL_EXIT = 1, 2, 3
_SHELL_PACKET = struct.Struct("<BI")


class Adbd:
    """The daemon of one phone. The port is bound at once; connections are served after `serve_in_thread`."""

    def __init__(self, core: PhoneCore, host: str = "127.0.0.1", port: int = 0) -> None:
        self._core = core
        self._shell = Shell(core)
        self._outage = Outage(core)
        self._lock = threading.Lock()
        self._connections: set[Connection] = set()
        self._closing = False
        self._thread: threading.Thread | None = None
        self._listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        if os.name == "posix":
            # Elsewhere the option would let a second daemon take the port over.
            self._listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self._listener.bind((host, port))
        self._listener.listen(16)
        self.host = host
        self.port: int = self._listener.getsockname()[1]

    @property
    def serial(self) -> str:
        """The serial under which an adb server lists this phone after `adb connect`."""
        return f"{self.host}:{self.port}"

    def serve_in_thread(self) -> None:
        """Start accepting connections in the background."""
        self._thread = threading.Thread(target=self._accept, name=f"adbd-{self.port}", daemon=True)
        self._thread.start()

    def drop_connections(self) -> None:
        """Cut every connection, as a pulled cable does; the listener stays."""
        with self._lock:
            connections = list(self._connections)
        for connection in connections:
            connection.drop()

    def go_offline(self, wait_s: float) -> None:
        """Cut every connection and answer no new one for `wait_s` phone seconds."""
        self._outage.begin(wait_s)
        self.drop_connections()

    def close(self) -> None:
        """Stop listening and cut every connection; harmless when repeated."""
        with self._lock:
            self._closing = True
        if self._thread is not None and self._thread.is_alive():
            # Closing a socket does not wake its accept() on every platform; a visitor does.
            with contextlib.suppress(OSError):
                socket.create_connection((self.host, self.port), timeout=1.0).close()
            self._thread.join(timeout=5.0)
        self._listener.close()
        self.drop_connections()

    # -- connections -------------------------------------------------------------------------------------

    def _accept(self) -> None:
        while True:
            try:
                sock, _ = self._listener.accept()
            except OSError:
                return
            connection = Connection(sock, self._open)
            with self._lock:
                if self._closing:
                    connection.release()
                    return
                self._connections.add(connection)
            threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection: Connection) -> None:
        try:
            self._greet(connection)
            connection.serve_streams()
        except LinkClosed:
            pass  # the normal end of a connection
        finally:
            connection.release()
            with self._lock:
                self._connections.discard(connection)

    def _greet(self, connection: Connection) -> None:
        """CNXN for CNXN; an unauthorized phone asks for a signature for ever instead."""
        command, version, payload_bytes, _ = connection.receive()
        if command != A_CNXN:
            raise LinkClosed
        fault = self._core.link_fault("connect", "")
        if fault is not None and fault.kind in ("drop", "hang"):
            if fault.kind == "hang":
                self._core.sleep(fault.wait_s)
            raise LinkClosed
        if fault is not None and fault.kind == "offline":
            self._outage.begin(fault.wait_s)
        self._outage.wait()
        if fault is not None and fault.kind == "deny":
            self._refuse(connection)
        props = self._core.props
        fields = [f"{name}={props[name]};" for name in _BANNER_PROPS if name in props]
        banner = f"device::{''.join(fields)}features={','.join(FEATURES)}"
        connection.send(A_CNXN, VERSION_SKIP_CHECKSUM, MAX_PAYLOAD_BYTES, banner.encode())
        connection.agree(version, payload_bytes)

    def _refuse(self, connection: Connection) -> None:
        """No key is good enough; the adb server shows `unauthorized`."""
        connection.send(A_AUTH, _AUTH_TOKEN, 0, os.urandom(20))
        while True:
            command, kind, _, _ = connection.receive()
            if command == A_AUTH and kind == _AUTH_SIGNATURE:
                connection.send(A_AUTH, _AUTH_TOKEN, 0, os.urandom(20))

    # -- streams -----------------------------------------------------------------------------------------

    def _open(self, stream: Stream, service: str) -> None:
        threading.Thread(target=self._run, args=(stream, service), daemon=True).start()

    def _run(self, stream: Stream, service: str) -> None:
        try:
            fault = self._core.link_fault("open", service)
            if fault is not None:
                self._play_at_open(stream, fault)
            name, _, argument = service.partition(":")
            kind, *options = name.split(",")
            if kind == "sync" and not options:
                stream.accept()
                wrap = fault is not None and fault.kind == "stat32"
                SyncService(stream, self._core, self._outage, wrap).serve()
            elif kind in ("shell", "exec"):
                stream.accept()
                self._command(stream, argument, "v2" in options, fault)
        except LinkClosed:
            pass  # the other side went away; there is nobody to tell
        finally:
            stream.close()

    def _play_at_open(self, stream: Stream, fault: LinkFault) -> None:
        if fault.kind == "deny":
            raise LinkClosed
        if fault.kind == "hang":
            hang(stream, self._core, fault)
        elif fault.kind in ("drop", "offline"):
            if fault.kind == "offline":
                self._outage.begin(fault.wait_s)
            stream.drop_link()
            raise LinkClosed

    def _command(self, stream: Stream, command: str, packets: bool, opened: LinkFault | None) -> None:
        asked = self._core.link_fault("shell", command)
        output = _Output(stream, packets, asked or opened, self._play_at_open)
        if asked is not None:
            if asked.kind == "deny":
                output.stderr(b"/system/bin/sh: Permission denied\n")
                output.exit(126)
                return
            if asked.kind == "flood":
                while True:
                    output.stdout(FLOOD_LINE)
            if asked.at_bytes == 0:
                self._play_at_open(stream, asked)
        exit_code = self._shell.run(command, output.stdout, output.stderr)
        if asked is not None and asked.at_bytes < 0:
            stream.flush()
            self._play_at_open(stream, asked)
        output.exit(exit_code)


class _Output:
    """What a command prints, on its way to the stream: packets of shell v2, or one plain flow.

    A fault distorts stdout at its byte. `play` cuts or delays the link and may raise `LinkClosed`.
    """

    def __init__(
        self, stream: Stream, packets: bool, fault: LinkFault | None,
        play: Callable[[Stream, LinkFault], None],
    ) -> None:
        self._stream = stream
        self._packets = packets
        self._fault = fault
        self._play = play
        self._sent_bytes = 0

    def stdout(self, data: bytes) -> None:
        """Send to stdout. Raises `LinkClosed`."""
        start = self._sent_bytes
        self._sent_bytes += len(data)
        self._send(_SHELL_STDOUT, self._distorted(data, start))

    def stderr(self, data: bytes) -> None:
        """Send to stderr; without packets both share the flow, as on the device."""
        self._send(_SHELL_STDERR, data)

    def exit(self, code: int) -> None:
        """Send the exit code, which only packets carry."""
        if self._packets:
            self._stream.write(_SHELL_PACKET.pack(_SHELL_EXIT, 1) + bytes([code & 0xFF]))

    def _distorted(self, data: bytes, start: int) -> bytes:
        fault = self._fault
        if fault is None:
            return data
        if fault.kind == "crlf":
            return data.replace(b"\n", b"\r\n")
        at = fault.at_bytes - start
        if fault.kind == "truncate":
            return data[: max(0, at)]
        if fault.kind == "flip" and 0 <= at < len(data):
            return data[:at] + bytes([data[at] ^ 0xFF]) + data[at + 1 :]
        if fault.kind in ("drop", "offline", "hang") and fault.at_bytes > 0 and 0 <= at < len(data):
            self._send(_SHELL_STDOUT, data[:at])
            self._stream.flush()
            self._play(self._stream, fault)
            return data[at:]
        return data

    def _send(self, packet_id: int, data: bytes) -> None:
        if not data:
            return
        self._stream.write(_SHELL_PACKET.pack(packet_id, len(data)) + data if self._packets else data)
