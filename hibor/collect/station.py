"""The composition root: which phone a run works with, and on which time line.

Only this module knows that a phone may be simulated: it starts the practice phone and our private adb server
when no
phone is named, and hands out the same `Device` and `Clock` values either way (design 2).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from datetime import datetime
from pathlib import Path
from typing import Any, Final

import attrs

from hibor.clock import Clock, SystemClock
from hibor.collect.stops import RunStop
from hibor.device.adb import AdbDevice, AdbServer, choose_device, list_devices, server_version
from hibor.device.errors import DeviceError

DEFAULT_TIME_SCALE: Final = 8.0
"""Simulated seconds per real second of the embedded default."""
DEFAULT_SCENARIO: Final = "default"


@attrs.frozen
class Station:
    """Where the phone is reached and which clock rules; `simulated` is for people, nothing decides by it.

    `consent` is what a person confirmed for the first use of this phone with a library; it goes on record
    once the library is ours.
    """

    clock: Clock
    server: AdbServer
    serial: str | None
    simulated: bool
    time_scale: float
    consent: Mapping[str, Any] | None = None

    def open_device(self) -> AdbDevice:
        """The phone. Raises DeviceError (`device_offline`, `device_ambiguous`, `server_unreachable`, …)."""
        return AdbDevice(self.server, choose_device(self.server, self.serial), clock=self.clock)


@contextmanager
def real_station(adb_server: str | None, serial: str | None) -> Iterator[Station]:
    """The machine's adb server and its own clock. Raises ValueError for a malformed address.

    A server that answers is used as it is. Only where none answers on adb's own port, and none was named,
    ours is
    started, and ended with this block.
    """
    server = AdbServer.parse(adb_server) if adb_server else AdbServer()
    with ExitStack() as stack:
        if adb_server is None and not _answers(server):
            from hibor.sim.server import PrivateAdbServer, ServerError

            try:
                stack.enter_context(PrivateAdbServer(port=server.port, real_phones=True))
            except ServerError as error:
                raise DeviceError("server_unreachable", str(error)) from error
        yield Station(SystemClock(), server, serial, simulated=False, time_scale=1.0)


def _answers(server: AdbServer) -> bool:
    try:
        server_version(server)
    except DeviceError as error:
        # A server that listens and says nothing is somebody else's: it is not replaced (fault F05).
        return "refused" not in str(error.__cause__ or error).lower()
    return True


def require_named(station: Station) -> None:
    """A phone nobody named is not touched; several of them are said to be several (design 1)."""
    choose_device(station.server, None)
    count = len(list_devices(station.server))
    raise DeviceError("device_ambiguous", f"{count} phone is online; name it with --device or in a task file")


@contextmanager
def simulated_station(
    state_dir: Path, scenario: str | Path, time_scale: float, *, not_before: datetime | None = None
) -> Iterator[Station]:
    """The practice phone beside the library, behind our own adb server; both end with this block.

    Its clock begins at `not_before` (aware) at the earliest: the library's last event. Raises RunStop.
    """
    from hibor.sim.process import PhoneStartError, start_phone
    from hibor.sim.server import PrivateAdbServer, ServerError

    with ExitStack() as stack:
        try:
            phone = stack.enter_context(
                start_phone(state_dir, scenario, time_scale, embedded=True, not_before=not_before)
            )
        except PhoneStartError as error:
            if error.busy:
                raise RunStop("BUSY", "another run uses this library's practice phone") from error
            raise RunStop("task_invalid", f"the simulated phone did not start: {error}") from error
        server = stack.enter_context(PrivateAdbServer())
        serial: str | None = None
        for port in (phone.port, *phone.more_ports):
            # A phone that does not let us in is listed as such; what that means is for preflight to say.
            with suppress(ServerError):
                server.connect(f"127.0.0.1:{port}")
        serial = None if phone.more_ports else phone.serial
        yield Station(
            phone.clock(),
            AdbServer("127.0.0.1", server.port),
            serial,
            simulated=True,
            time_scale=time_scale,
        )
