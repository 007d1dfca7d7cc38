"""Files of the simulated phone through the real adb server: hostile names, link faults, readable folders."""

from __future__ import annotations

import hashlib
import random
from collections.abc import Iterator
from pathlib import Path

import attrs
import pytest

from hibor.clock import SystemClock
from hibor.device.adb import AdbDevice, AdbServer
from hibor.device.errors import DeviceError
from hibor.device.phone import Limits
from hibor.sim.adbd import Adbd
from hibor.sim.seam import LinkFault
from hibor.sim.server import PrivateAdbServer
from tests.device.phones import bench
from tests.sim.file_core import FileCore, PlannedFault

FOLDER = "/sdcard/Android/data/com.huibo.research/files/Download"
HOSTILE = (
    "测试文档（一）.pdf",
    "preview (1).pdf",
    "foo;bar.pdf",
    "$(touch owned).pdf",
    "`id`.pdf",
    "a'b\nc.pdf",
    "-rf",
    "😀 业绩.pdf",
)


class Digest:
    """A sink that counts and hashes."""

    def __init__(self) -> None:
        self.sha = hashlib.sha256()
        self.count = 0

    def write(self, data: memoryview) -> int:
        self.sha.update(data)
        self.count += len(data)
        return len(data)


@attrs.frozen
class Phone:
    """A daemon with files, and the adapter on it."""

    core: FileCore
    device: AdbDevice

    def put(self, name: str, data: bytes) -> str:
        path = f"{FOLDER}/{name}"
        self.core.vfs.write_file(path, data)
        return path

    def plan(self, where: str, contains: str, kind: str, **options: float) -> None:
        self.core.faults.append(PlannedFault(where, contains, LinkFault(kind, **options)))  # type: ignore[arg-type]


@pytest.fixture
def phone(adb_server: PrivateAdbServer) -> Iterator[Phone]:
    core = FileCore()
    core.vfs.make_folders(FOLDER)
    daemon = Adbd(core)
    daemon.serve_in_thread()
    adb_server.connect(daemon.serial)
    limits = Limits(command_s=2.0, pull_s=3.0)
    server = AdbServer("127.0.0.1", adb_server.port)
    try:
        yield Phone(core, AdbDevice(server, daemon.serial, clock=SystemClock(), limits=limits))
    finally:
        adb_server.disconnect(daemon.serial)
        daemon.close()


def noise(size_bytes: int) -> bytes:
    return random.Random(size_bytes).randbytes(size_bytes)


def test_f16_f17_f18_hostile_names_are_listed_hashed_and_pulled_byte_exact(phone: Phone) -> None:
    wanted = {name: noise(1000 + place) for place, name in enumerate(HOSTILE)}
    for name, data in wanted.items():
        phone.put(name, data)
    listing = phone.device.list(FOLDER)
    assert {one.name for one in listing.entries} == set(HOSTILE) and listing.unreadable == ()
    for one in listing.entries:
        sink = Digest()
        assert one.size_bytes == len(wanted[one.name]) and one.kind == "file" and one.inode > 0
        counted = phone.device.pull(one.path, sink, limit_bytes=10_000, expected_bytes=one.size_bytes)
        assert counted == sink.count == one.size_bytes
        assert sink.sha.hexdigest() == hashlib.sha256(wanted[one.name]).hexdigest()
        assert phone.device.sha256(one.path) == sink.sha.hexdigest()
        assert phone.device.stat(one.path) == one
    assert not phone.core.vfs.exists("/sdcard/owned") and not phone.core.vfs.exists("/owned")


def test_many_entries_are_examined_in_batches(phone: Phone) -> None:
    for place in range(700):
        phone.put(f"一份名字不短的研报文件-{place:04d}.pdf", b"x" * place)
    listing = phone.device.list(FOLDER)
    assert len(listing.entries) == 700 and listing.unreadable == ()
    assert {one.size_bytes for one in listing.entries} == set(range(700))


def test_a_file_that_is_gone(phone: Phone) -> None:
    for call in (
        phone.device.stat,
        phone.device.sha256,
        lambda p: phone.device.pull(p, Digest(), limit_bytes=9),
    ):
        with pytest.raises(DeviceError) as caught:
            call(f"{FOLDER}/none.pdf")
        assert caught.value.failure == "remote_vanished"
    with pytest.raises(DeviceError) as caught:
        phone.device.list("/sdcard/none")
    assert caught.value.failure == "remote_vanished"


def test_a_folder_in_place_of_a_file_is_not_pulled(phone: Phone) -> None:
    with pytest.raises(DeviceError) as caught:
        phone.device.pull(FOLDER, Digest(), limit_bytes=9)
    assert caught.value.failure == "not_regular"


def test_f04_f07_dropped_link_inside_a_file(phone: Phone) -> None:
    path = phone.put("x.pdf", noise(400_000))
    phone.plan("data", "x.pdf", "drop", at_bytes=70_000)
    with pytest.raises(DeviceError) as caught:
        phone.device.pull(path, Digest(), limit_bytes=10**6, expected_bytes=400_000)
    assert caught.value.failure == "link_lost"


def test_silent_link_inside_a_file_ends_with_the_deadline(phone: Phone) -> None:
    path = phone.put("x.pdf", noise(400_000))
    phone.plan("data", "x.pdf", "hang")
    with pytest.raises(DeviceError) as caught:
        phone.device.pull(path, Digest(), limit_bytes=10**6)
    assert caught.value.failure == "command_timeout"


@pytest.mark.parametrize(("kind", "word"), [("truncate", "short_pull"), ("grow", "remote_changed")])
def test_f13_a_transfer_that_is_not_as_long_as_the_file(phone: Phone, kind: str, word: str) -> None:
    path = phone.put("x.pdf", noise(200_000))
    phone.plan("data", "x.pdf", kind, at_bytes=100_000)
    with pytest.raises(DeviceError) as caught:
        phone.device.pull(path, Digest(), limit_bytes=10**6, expected_bytes=200_000)
    assert caught.value.failure == word


def test_a_flipped_byte_shows_in_the_hash(phone: Phone) -> None:
    path = phone.put("x.pdf", noise(200_000))
    phone.plan("data", "x.pdf", "flip", at_bytes=100_000)
    sink = Digest()
    phone.device.pull(path, sink, limit_bytes=10**6, expected_bytes=200_000)
    assert sink.sha.hexdigest() != phone.device.sha256(path)


def test_f24_flood(phone: Phone) -> None:
    phone.plan("shell", "dumpsys battery", "flood")
    with pytest.raises(DeviceError) as caught:
        phone.device.battery()
    assert caught.value.failure == "output_limit"


def test_f21_crlf_in_text(phone: Phone) -> None:
    phone.plan("shell", "date", "crlf")
    assert phone.device.now().tzinfo is not None


@pytest.mark.parametrize(("access", "word"), [("deny", "cache_unreadable"), ("hidden", "cache_unreadable")])
def test_f25_unreadable_cache(adb_server: PrivateAdbServer, tmp_path: Path, access: str, word: str) -> None:
    scenario = f'[cache]\nprefilled = [1]\naccess = "{access}"\n'
    with bench(adb_server, tmp_path, scenario) as run:
        for path in run.app.profile.cache.paths()[0]:
            with pytest.raises(DeviceError) as caught:
                run.device.list(path)
            assert caught.value.failure == word


def test_preflight_reads_of_the_whole_phone(adb_server: PrivateAdbServer, tmp_path: Path) -> None:
    with bench(adb_server, tmp_path, "[phone]\nbattery_level = 12\nclock_skew_s = 300\n") as run:
        device = run.device
        assert device.battery().level_percent == 12
        assert device.package("com.huibo.research").version_name == "7.2.1"
        assert abs((device.now() - run.clock.now()).total_seconds() - 300) < 20
        assert device.properties("ro.product.model", "none.such") == {
            "ro.product.model": "SIM-A1",
            "none.such": "",
        }
        assert device.setting("global", "none_such") is None
        device.put_setting("global", "stay_on_while_plugged_in", "3")
        assert device.setting("global", "stay_on_while_plugged_in") == "3"
        device.keep_awake("usb")
        assert device.screenshot().startswith(b"\x89PNG")
        assert device.identity.serialno not in repr(DeviceError("unexpected", "x", secrets=(device.serial,)))
        with pytest.raises(DeviceError) as caught:
            device.package("com.example.none")
        assert caught.value.failure == "package_missing"


@pytest.mark.parametrize("users", [[999], [0, 999]])
def test_app_clones(adb_server: PrivateAdbServer, tmp_path: Path, users: list[int]) -> None:
    with bench(adb_server, tmp_path, f"[phone]\napp_users = {users}\n") as run:
        if 0 in users:
            assert run.device.package("com.huibo.research").other_users == (999,)
        else:
            with pytest.raises(DeviceError) as caught:
                run.device.package("com.huibo.research")
            assert caught.value.failure == "package_cloned"


def test_f04_killed_and_restarted_server_between_calls(tmp_path: Path) -> None:
    with PrivateAdbServer(tmp_path / "one") as first, bench(first, tmp_path) as run:
        port = first.port
        first.stop()
        with pytest.raises(DeviceError) as caught:
            run.device.now()
        assert (caught.value.failure, caught.value.command_sent) == ("server_unreachable", False)
        with PrivateAdbServer(tmp_path / "two", port) as second:
            second.connect(run.device.serial)
            assert run.device.now().tzinfo is not None
            run.device.check_identity()
