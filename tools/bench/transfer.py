"""Pulling 50 MB into the library, against `adb pull` of the same file, and one shell call.

Rules of this file: both pulls are of the same file on the same phone, taken in turns; each ends when its
bytes are on the disk (the collector's own fsync, `os.fsync` after `adb pull`). What the collector does
after that, reading the file again and hashing it (ruling R13), is told in the note and is no part of the
figure.
"""

from __future__ import annotations

import os
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import adbutils

from generated.steps import STEPS
from hibor.clock import SystemClock
from hibor.device.adb import AdbDevice, AdbServer
from hibor.device.adb_binary import adb_binary
from hibor.durable import Durable
from hibor.durable_fs import OsFileSystem
from hibor.sim.process import start_phone
from hibor.sim.server import PrivateAdbServer, private_environment

from .rows import Row

SIZE_BYTES = 50_000_000
REMOTE = "/sdcard/Download/bench.bin"
PULLS = 5
CALLS = 300
_SCENARIO = 'description = "Bench."\n[feed]\nreports = 1\npinned = []\n[pace]\npull_bytes_per_s = {pace}\n'


class _TimedFileSystem(OsFileSystem):
    """The real disk, which remembers when the last fsync was done."""

    synced_s = 0.0

    def fsync(self, descriptor: int) -> None:
        super().fsync(descriptor)
        self.synced_s = time.perf_counter()


@contextmanager
def _phone(base: Path, pull_bytes_per_s: float) -> Iterator[tuple[AdbDevice, PrivateAdbServer, str]]:
    scenario = base / "bench.toml"
    scenario.write_text(_SCENARIO.format(pace=pull_bytes_per_s), encoding="utf-8")
    with start_phone(base / "phone", scenario, 1.0) as phone, PrivateAdbServer() as server:
        server.connect(phone.serial)
        yield AdbDevice(AdbServer("127.0.0.1", server.port), phone.serial), server, phone.serial


def pull_row(pull_bytes_per_s: float, limit: float, rounds: int) -> Row:
    """One row: at the cable's pace, 0 for unthrottled."""
    values, ours_s, theirs_s, whole_s = [], 0.0, 0.0, 0.0
    with tempfile.TemporaryDirectory(prefix="hibor-bench-") as folder:
        base = Path(folder)
        with _phone(base, pull_bytes_per_s) as (device, server, serial):
            client = adbutils.AdbClient(host="127.0.0.1", port=server.port).device(serial=serial)
            client.sync.push(os.urandom(SIZE_BYTES), REMOTE)
            environment = private_environment(base / "home")
            environment["ANDROID_ADB_SERVER_PORT"] = str(server.port)
            for _ in range(rounds):
                pairs = [
                    (_our_pull(device, base), _adb_pull(base, serial, environment)) for _ in range(PULLS)
                ]
                ours_s = min(ours for (ours, _whole), _theirs in pairs)
                whole_s = min(whole for (_ours, whole), _theirs in pairs)
                theirs_s = min(theirs for _mine, theirs in pairs)
                values.append(ours_s / theirs_s)
    pace = f"{pull_bytes_per_s / 1e6:g} MB/s" if pull_bytes_per_s else "unthrottled"
    return Row(
        name=f"pull + write + sha256 + fsync, 50 MB, {pace}",
        against="adb pull, then fsync",
        limit=limit,
        values=tuple(values),
        note=f"{ours_s:.3f} s against {theirs_s:.3f} s (least of {PULLS}); "
        f"with the second reading {whole_s:.3f} s",
    )


def _our_pull(device: AdbDevice, base: Path) -> tuple[float, float]:
    """(until the fsync was done, until the file was read back), seconds."""
    disk = _TimedFileSystem()
    durable = Durable(disk, SystemClock(), frozenset(STEPS))
    begun_s = time.perf_counter()
    with durable.open_sink(base / "ours.bin", step="staging.create") as sink:
        device.pull(REMOTE, sink, limit_bytes=1 << 30, expected_bytes=SIZE_BYTES)
        sink.finish(step="staging.fill")
    return disk.synced_s - begun_s, time.perf_counter() - begun_s


def _adb_pull(base: Path, serial: str, environment: dict[str, str]) -> float:
    path = base / "theirs.bin"
    path.unlink(missing_ok=True)
    begun_s = time.perf_counter()
    command = [adb_binary(), "-s", serial, "pull", REMOTE, str(path)]
    subprocess.run(command, check=True, capture_output=True, env=environment)
    descriptor = os.open(path, os.O_RDWR)
    os.fsync(descriptor)
    os.close(descriptor)
    return time.perf_counter() - begun_s


def shell_row(rounds: int) -> Row:
    """Median milliseconds of one shell call to the simulated phone."""
    values = []
    with (
        tempfile.TemporaryDirectory(prefix="hibor-bench-") as folder,
        _phone(Path(folder), 0) as (device, _server, _serial),
    ):
        device.run(["true"])
        for _ in range(rounds):
            times = []
            for _ in range(CALLS):
                begun_s = time.perf_counter()
                device.run(["true"])
                times.append(time.perf_counter() - begun_s)
            values.append(sorted(times)[CALLS // 2] * 1e3)
    return Row(
        name="shell call to the simulated phone", against="-", limit=2.0, values=tuple(values), unit="ms",
        note=f"median of {CALLS} calls, each with a connection of its own",
    )  # fmt: skip
