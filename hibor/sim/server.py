"""Our private adb server, and processes that end with us.

Rules of this file:
- The server is the adb of the adbutils wheel, in the foreground, on a private loopback port, with a private
  home and with USB, emulator scan and mDNS off: it never sees a real phone and never meets the server on
  port 5037.
- It is a grandchild behind a watchdog (`watchdog.py`) and ends with its starter, also after SIGKILL.
- Only processes started here are ended, and by their own handle. `hibor.run` starts the embedded phone
  through the same `GuardedProcess`.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO

from hibor.device.adb_binary import adb_binary

HOST = "127.0.0.1"
START_LIMIT_S = 15.0
REPLY_LIMIT_S = 20.0
BIND_PATIENCE_S = 5.0
PORT_ATTEMPTS = 5
_WATCHDOG = Path(__file__).with_name("watchdog.py")
_PRIVATE = {
    "ADB_MDNS": "0", "ADB_MDNS_OPENSCREEN": "0", "ADB_MDNS_AUTO_CONNECT": "0", "ADB_USB": "0", "ADB_EMU": "0",
}
# Each of these would point our server at somebody else's port, keys or phone.
_FOREIGN = (
    "ANDROID_ADB_SERVER_PORT", "ANDROID_ADB_SERVER_ADDRESS", "ADB_SERVER_SOCKET", "ANDROID_SERIAL",
    "ADB_VENDOR_KEYS", "ANDROID_SDK_HOME", "ADB_TRACE", "ADB_LOCAL_TRANSPORT_MAX_PORT",
)

_ADDRESSES = ("ANDROID_ADB_SERVER_PORT", "ANDROID_ADB_SERVER_ADDRESS", "ADB_SERVER_SOCKET", "ADB_TRACE")


class ServerError(Exception):
    """The private adb server did not start, or refused a request; the text says what it answered."""


class GuardedProcess:
    """A program that ends at `stop()`, or when this process ends for whatever reason.

    `arguments` is the command line. stderr is appended to `stderr_path` or dropped. With `keep_stdout` the
    program's stdout can be read from `stdout` (and must be, or it fills up); else it is dropped.
    `remove_at_end` is a folder of the program's own that goes with it.
    Raises `ServerError` when the program cannot be started.
    """

    def __init__(
        self, arguments: Sequence[str], *, environment: Mapping[str, str] | None = None,
        stderr_path: Path | None = None, keep_stdout: bool = False, remove_at_end: Path | None = None,
    ) -> None:
        self._remove_at_end = remove_at_end
        # Its own process group: Ctrl-C in the console is ours to handle, not the program's.
        group_flag = getattr(subprocess, "CREATE_NEW_PROCESS_GROUP", 0)
        with contextlib.ExitStack() as stack:
            errors: int | IO[bytes] = subprocess.DEVNULL
            if stderr_path is not None:
                errors = stack.enter_context(stderr_path.open("ab"))
            self._watchdog = subprocess.Popen(
                [
                    sys.executable, "-I", "-S", str(_WATCHDOG),
                    *(["--keep-stdout"] if keep_stdout else []),
                    *([f"--remove={remove_at_end}"] if remove_at_end is not None else []), *arguments,
                ],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                env=dict(environment) if environment is not None else None,
                start_new_session=os.name == "posix",
                creationflags=group_flag,
            )
        assert self._watchdog.stdin is not None and self._watchdog.stdout is not None
        self._lifeline = self._watchdog.stdin
        self.stdout: IO[bytes] = self._watchdog.stdout
        first = self.stdout.readline().strip()
        if not first:
            self.stop()
            raise ServerError(f"could not start {arguments[0]}")
        self.pid = int(first)

    @property
    def watchdog_pid(self) -> int:
        """Process number of the watchdog between this process and the program."""
        return self._watchdog.pid

    @property
    def running(self) -> bool:
        """Whether the program is still there."""
        return self._watchdog.poll() is None

    def ended_within(self, wait_s: float) -> bool:
        """Whether the program ends within `wait_s` real seconds."""
        try:
            self._watchdog.wait(wait_s)
        except subprocess.TimeoutExpired:
            return False
        return True

    def stop(self) -> None:
        """End the program and wait for it; harmless when repeated."""
        with contextlib.suppress(OSError):
            self._lifeline.close()
        try:
            self._watchdog.wait(10.0)
        except subprocess.TimeoutExpired:
            self._watchdog.kill()
            self._watchdog.wait(10.0)
        self.stdout.close()
        if self._remove_at_end is not None:
            # Nothing is left to do unless the watchdog was killed.
            shutil.rmtree(self._remove_at_end, ignore_errors=True)


class PrivateAdbServer:
    """An adb server of our own. Use as a context manager, or `start()` and `stop()`.

    `home` holds its key and log; None: a temporary folder that goes with the server. `port` 0: a free one.
    `real_phones`: it sees this machine's phones, with this user's keys; only its log is private.
    """

    def __init__(self, home: Path | None = None, port: int = 0, *, real_phones: bool = False) -> None:
        self._given_home = home
        self._real_phones = real_phones
        self._wanted_port = port
        self._process: GuardedProcess | None = None
        self.port = port

    @property
    def address(self) -> str:
        """HOST:PORT for adb clients."""
        return f"{HOST}:{self.port}"

    @property
    def process(self) -> GuardedProcess:
        """The running server. Raises `ServerError` when it is not started."""
        if self._process is None:
            raise ServerError("the private adb server is not started")
        return self._process

    @property
    def pid(self) -> int:
        """Process number of the server itself. Raises `ServerError` when it is not started."""
        return self.process.pid

    def start(self) -> PrivateAdbServer:
        """Start and wait until it answers. Raises `ServerError`."""
        if self._process is not None:
            return self
        for _ in range(PORT_ATTEMPTS):
            self.port = self._wanted_port or free_port()
            process, token = self._launch()
            if self._answers(process, token):
                self._process = process
                return self
            process.stop()
            if self._wanted_port:
                break
        raise ServerError(f"the private adb server did not come up on port {self.port}")

    def stop(self) -> None:
        """End the server; harmless when repeated."""
        if self._process is not None:
            self._process.stop()
            self._process = None

    def _launch(self) -> tuple[GuardedProcess, str]:
        """Start adb on `port`; the process, and the name of the log folder that tells it from others.

        The watchdog removes what is temporary, because this process may be gone by then.
        """
        token = f"log-{secrets.token_hex(6)}"
        home = self._given_home or Path(tempfile.mkdtemp(prefix="hibor-adb-"))
        home.mkdir(parents=True, exist_ok=True)
        environment = machine_environment if self._real_phones else private_environment
        process = GuardedProcess(
            [adb_binary(), "-L", f"tcp:{self.port}", "nodaemon", "server"],
            environment=environment(home, token),
            stderr_path=home / "adb-server.log",
            remove_at_end=home if self._given_home is None else home / token,
        )
        return process, token

    def __enter__(self) -> PrivateAdbServer:
        return self.start()

    def __exit__(self, *exc_info: object) -> None:
        self.stop()

    def connect(self, address: str) -> str:
        """`adb connect`: returns the server's sentence. Raises `ServerError` when it did not connect."""
        said = self.request(f"host:connect:{address}")
        if not said.startswith(("connected to", "already connected to")):
            raise ServerError(said)
        return said

    def disconnect(self, address: str) -> str:
        """`adb disconnect`: returns the server's sentence."""
        return self.request(f"host:disconnect:{address}")

    def devices(self) -> dict[str, str]:
        """Serial → state (`device`, `offline`, `unauthorized`, …), as `adb devices` lists them."""
        rows = [line.rpartition("\t") for line in self.request("host:devices").splitlines() if line]
        return {serial: state for serial, _, state in rows}

    def request(self, text: str) -> str:
        """One host request with a text answer. Raises `ServerError`."""
        return host_request(self.port, text)

    def _answers(self, process: GuardedProcess, token: str) -> bool:
        """Wait for the first answer; False when the process ended (its port was taken) or stays silent."""
        end_s = time.monotonic() + START_LIMIT_S
        while process.running and time.monotonic() < end_s:
            try:
                host_request(self.port, "host:version")
            except ServerError:
                time.sleep(0.005)
                continue
            return self._is_ours(process, token)
        return False

    def _is_ours(self, process: GuardedProcess, token: str) -> bool:
        """Whether the answering server is ours, and not one that took the port before ours could."""
        try:
            # It names its log file, and only ours was told of that folder.
            return token in host_request(self.port, "host:server-status")
        except ServerError:
            # An older adb does not know the request. One that finds its port taken gives up after a while.
            return not process.ended_within(BIND_PATIENCE_S)


def private_environment(home: Path, log_folder: str = "log") -> dict[str, str]:
    """The environment in which our adb sees no USB, no emulator, no network phone and nobody's keys.

    `home` and the folder `log_folder` in it are created where they are missing.
    """
    environment = {name: value for name, value in os.environ.items() if name not in _FOREIGN}
    for folder, names in (
        (home, ("HOME", "USERPROFILE")),
        (home / ".android", ("ANDROID_USER_HOME",)),
        (home / log_folder, ("TMPDIR", "TMP", "TEMP")),
    ):
        folder.mkdir(parents=True, exist_ok=True)
        environment.update(dict.fromkeys(names, str(folder)))
    environment.update(_PRIVATE)
    return environment


def machine_environment(home: Path, log_folder: str) -> dict[str, str]:
    """This machine's environment, with the log alone in a private folder."""
    folder = home / log_folder
    folder.mkdir(parents=True, exist_ok=True)
    environment = {name: value for name, value in os.environ.items() if name not in _ADDRESSES}
    return {**environment, **dict.fromkeys(("TMPDIR", "TMP", "TEMP"), str(folder))}


def free_port() -> int:
    """A loopback port that was free a moment ago."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        probe.bind((HOST, 0))
        port: int = probe.getsockname()[1]
        return port


def host_request(port: int, text: str) -> str:
    """Send one host request to the adb server on a loopback port. Raises `ServerError`."""
    raw = text.encode()
    try:
        with socket.create_connection((HOST, port), timeout=REPLY_LIMIT_S) as sock:
            sock.settimeout(REPLY_LIMIT_S)
            sock.sendall(f"{len(raw):04x}".encode() + raw)
            with sock.makefile("rb") as reader:
                status = reader.read(4)
                length = reader.read(4)
                body = reader.read(int(length, 16)) if len(length) == 4 else b""
    except (OSError, ValueError) as error:
        raise ServerError(f"no answer from the adb server on port {port}: {error}") from error
    answer = body.decode("utf-8", "replace")
    if status != b"OKAY":
        raise ServerError(answer or f"the adb server on port {port} closed the connection")
    return answer
