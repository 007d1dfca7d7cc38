"""A scripted adb server on loopback: the real host protocol on a real socket, faults where the script says.

Rules of this file: it binds a free loopback port, serves each connection in a thread, ends with its `with`
block, and never waits without a bound. A service handler gets the socket after OKAY was sent and owns it
until it returns.
"""

from __future__ import annotations

import socket
import struct
import threading
from collections.abc import Callable, Mapping
from types import TracebackType

from hibor.device.adb import AdbServer

Handler = Callable[["Peer", str], None]


class Peer:
    """One client connection, with the protocol's small moves."""

    def __init__(self, link: socket.socket) -> None:
        self.link = link
        link.settimeout(10.0)

    def exact(self, count: int) -> bytes:
        data = b""
        while len(data) < count:
            part = self.link.recv(count - len(data))
            if not part:
                raise EOFError
            data += part
        return data

    def request(self) -> str:
        return self.exact(int(self.exact(4), 16)).decode()

    def send(self, data: bytes) -> None:
        self.link.sendall(data)

    def okay(self, text: str | None = None) -> None:
        self.send(b"OKAY" + (b"" if text is None else b"%04x" % len(text.encode()) + text.encode()))

    def fail(self, text: str) -> None:
        self.send(b"FAIL%04x" % len(text.encode()) + text.encode())

    def v2(self, kind: int, data: bytes) -> None:
        self.send(struct.pack("<BI", kind, len(data)) + data)

    def finish(self, output: bytes, code: int = 0, errors: bytes = b"") -> None:
        """A whole shell_v2 answer."""
        if output:
            self.v2(1, output)
        if errors:
            self.v2(2, errors)
        self.v2(3, bytes([code]))

    def sync_request(self) -> tuple[bytes, bytes]:
        word, length = struct.unpack("<4sI", self.exact(8))
        return word, self.exact(length)


def shell_of(answers: Callable[[str], tuple[bytes, int]]) -> Handler:
    """A shell that understands chains with markers; `answers(command)` gives output and exit code."""

    def handle(peer: Peer, service: str) -> None:
        line = service.split(":", 1)[1]
        output, code = b"", 0
        for part in line.split("; "):
            if part.startswith("echo end") and part.endswith(":$?"):
                output += f"{part[5:-3]}:{code}\n".encode()
            else:
                text, code = answers(part)
                output += text
        if service.startswith("shell,v2"):
            peer.finish(output, code)
        else:
            peer.send(output)

    return handle


IDENTITY: Mapping[str, bytes] = {
    "getprop ro.serialno": b"R58M000001\n",
    "getprop ro.build.fingerprint": b"maker/phone:14/user\n",
}


def answers_with(extra: Mapping[str, tuple[bytes, int]] | None = None) -> Callable[[str], tuple[bytes, int]]:
    """Identity plus whatever the test adds; anything else is an unknown command."""

    def answer(command: str) -> tuple[bytes, int]:
        if command in IDENTITY:
            return IDENTITY[command], 0
        for start, result in (extra or {}).items():
            if command.startswith(start):
                return result
        return f"{command.split()[0]}: inaccessible or not found\n".encode(), 127

    return answer


class ScriptedServer:
    """The server. `devices`: the text of host:devices; `features`; `shell` and `sync`: handlers."""

    def __init__(
        self,
        *,
        devices: str = "R58M000001\tdevice\n",
        features: str = "shell_v2,cmd",
        shell: Handler | None = None,
        sync: Handler | None = None,
        transport: str | None = None,
        silent: bool = False,
        banner: bytes | None = None,
    ) -> None:
        self.devices, self.features, self.transport = devices, features, transport
        self.shell = shell or shell_of(answers_with())
        self.sync = sync
        self.silent, self.banner = silent, banner
        self.services: list[str] = []
        self._end = threading.Event()
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = int(self._listener.getsockname()[1])
        self._threads: list[threading.Thread] = []
        self._links: list[socket.socket] = []

    @property
    def server(self) -> AdbServer:
        return AdbServer("127.0.0.1", self.port, first_reply_s=0.5)

    def __enter__(self) -> ScriptedServer:
        accepting = threading.Thread(target=self._accept, daemon=True)
        self._threads.append(accepting)
        accepting.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._end.set()
        self._listener.close()
        for link in self._links:
            link.close()
        for thread in self._threads:
            thread.join(5.0)

    def _accept(self) -> None:
        while not self._end.is_set():
            try:
                self._listener.settimeout(0.2)
                link, _ = self._listener.accept()
            except TimeoutError:
                continue
            except OSError:
                return
            self._links.append(link)
            thread = threading.Thread(target=self._serve, args=(link,), daemon=True)
            self._threads.append(thread)
            thread.start()

    def _serve(self, link: socket.socket) -> None:
        try:
            self._answer(Peer(link))
        except (OSError, EOFError, ValueError):
            pass
        finally:
            link.close()

    def _answer(self, peer: Peer) -> None:
        if self.silent:
            self._end.wait(10.0)
            return
        if self.banner is not None:
            peer.request()
            peer.send(self.banner)
            return
        service = peer.request()
        if service == "host:devices":
            peer.okay(self.devices)
        elif service == "host:version":
            peer.okay("0029")
        elif service.endswith(":features"):
            peer.okay(self.features)
        elif service.startswith("host:transport:"):
            if self.transport is not None:
                peer.fail(self.transport)
                return
            peer.okay()
            self._device(peer)
        else:
            peer.fail(f"unknown host service {service}")

    def _device(self, peer: Peer) -> None:
        service = peer.request()
        self.services.append(service)
        handler = self.sync if service.startswith("sync:") else self.shell
        if handler is None:
            peer.fail("closed")
            return
        peer.okay()
        handler(peer, service)


def regular_file(content: bytes, *, mode: int = 0o100660, size_bytes: int | None = None) -> Handler:
    """A sync service that holds one file: STAT, then RECV in 64 KiB blocks."""

    def handle(peer: Peer, service: str) -> None:
        while True:
            word, _ = peer.sync_request()
            if word == b"STAT":
                size = len(content) if size_bytes is None else size_bytes
                peer.send(struct.pack("<4sIII", b"STAT", mode, size & 0xFFFFFFFF, 1))
            elif word == b"RECV":
                for start in range(0, len(content), 65536):
                    block = content[start : start + 65536]
                    peer.send(struct.pack("<4sI", b"DATA", len(block)) + block)
                peer.send(struct.pack("<4sI", b"DONE", 0))
            else:
                return

    return handle
