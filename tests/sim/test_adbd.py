"""The phone's ADB daemon behind the real adb server of the wheel: files byte-exact, faults at their byte."""

from __future__ import annotations

import hashlib
import random
import socket
import stat
import struct
import subprocess
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import Path

import adbutils
import pytest

from hibor.device.adb_binary import adb_binary
from hibor.sim.adbd import Adbd
from hibor.sim.seam import LinkFault
from hibor.sim.server import PrivateAdbServer, ServerError, private_environment
from tests.sim.file_core import FileCore, PlannedFault

DOWNLOAD = "/sdcard/Android/data/com.huibo.research/files/Download"
MIB = 2**20


class Phone:
    """One phone on the module's adb server, with three ways in: the adb program, adbutils, a bare socket."""

    def __init__(self, server: PrivateAdbServer, home: Path) -> None:
        self.server = server
        self.home = home
        self.core = FileCore()
        self.core.vfs.make_folders(DOWNLOAD)
        self.daemon = Adbd(self.core)
        self.daemon.serve_in_thread()
        self.serial = self.daemon.serial
        server.connect(self.serial)
        self.device = adbutils.AdbClient("127.0.0.1", server.port).device(self.serial)

    def plan(self, where: str, contains: str, fault: LinkFault) -> None:
        self.core.faults.append(PlannedFault(where, contains, fault))

    def adb(self, *arguments: str) -> subprocess.CompletedProcess[bytes]:
        return subprocess.run(
            [adb_binary(), "-P", str(self.server.port), "-s", self.serial, *arguments],
            capture_output=True, check=False, timeout=60, env=private_environment(self.home),
        )

    def online(self) -> None:
        """Wait until the adb server lists the phone again; the server comes back by itself."""
        assert self.adb("wait-for-device").returncode == 0

    def service(self, name: str) -> socket.socket:
        """A bare stream to a service of the phone."""
        sock = socket.create_connection(("127.0.0.1", self.server.port), timeout=30)
        for request in (f"host:transport:{self.serial}", name):
            raw = request.encode()
            sock.sendall(f"{len(raw):04x}".encode() + raw)
            assert sock.recv(4) == b"OKAY", name
        return sock

    def pulled(self, path: str) -> tuple[bytes, bytes]:
        """What RECV brings, and the word it ends with (empty: the stream broke off)."""
        data = bytearray()
        with self.service("sync:") as sock, sock.makefile("rb") as reader:
            raw = path.encode()
            sock.sendall(b"RECV" + struct.pack("<I", len(raw)) + raw)
            while True:
                header = reader.read(8)
                if len(header) < 8:
                    return bytes(data), b""
                if header[:4] != b"DATA":
                    return bytes(data), header[:4]
                data += reader.read(struct.unpack("<I", header[4:])[0])


@pytest.fixture(scope="module")
def server() -> Iterator[PrivateAdbServer]:
    with PrivateAdbServer() as running:
        yield running


@pytest.fixture
def phone(server: PrivateAdbServer, tmp_path: Path) -> Iterator[Phone]:
    made = Phone(server, tmp_path / "home")
    yield made
    server.disconnect(made.serial)
    made.daemon.close()


def noise(size_bytes: int, seed: int = 1) -> bytes:
    return random.Random(seed).randbytes(size_bytes)


# -- connecting ----------------------------------------------------------------------------------------------


def test_listed_with_its_properties(phone: Phone) -> None:
    assert phone.server.devices()[phone.serial] == "device"
    assert "model:SIM_A1" in phone.server.request("host:devices-l")
    assert phone.adb("shell", "getprop", "ro.serialno").stdout == b"SIMA1000001\n"


def test_greeting_leaves_in_one_piece_without_nagle(phone: Phone) -> None:
    # A header sent apart from its payload waits for the other side's delayed acknowledgement.
    banner = b"host::features=shell_v2\0"
    header = struct.pack(
        "<6I", 0x4E584E43, 0x01000001, MIB, len(banner), sum(banner), 0x4E584E43 ^ 0xFFFFFFFF
    )
    with socket.create_connection(("127.0.0.1", phone.daemon.port), timeout=10) as sock:
        sock.sendall(header + banner)
        answer = sock.recv(65536)
    command, version, limit, length, _, magic = struct.unpack("<6I", answer[:24])
    assert (command, version, limit, magic) == (0x4E584E43, 0x01000001, MIB, 0x4E584E43 ^ 0xFFFFFFFF)
    assert len(answer) == 24 + length
    assert b"ro.product.model=SIM-A1;" in answer


def test_nonsense_on_the_port_ends_that_connection_only(phone: Phone) -> None:
    with socket.create_connection(("127.0.0.1", phone.daemon.port), timeout=10) as sock:
        sock.sendall(b"GET / HTTP/1.1\r\nHost: phone\r\n\r\n")
        assert sock.recv(100) == b""
    assert phone.adb("shell", "echo", "still here").stdout == b"still here\n"


def test_two_phones_on_one_server(phone: Phone, tmp_path: Path) -> None:
    other = Phone(phone.server, tmp_path / "other")
    other.core.props = {**other.core.props, "ro.serialno": "SIMA1000002"}
    try:
        states = phone.server.devices()
        assert states[phone.serial] == states[other.serial] == "device"
        assert phone.adb("shell", "getprop", "ro.serialno").stdout == b"SIMA1000001\n"
        assert other.adb("shell", "getprop", "ro.serialno").stdout == b"SIMA1000002\n"
    finally:
        phone.server.disconnect(other.serial)
        other.daemon.close()


def test_another_phone_behind_the_same_port(phone: Phone) -> None:
    phone.daemon.close()
    replacement = FileCore(serialno="SIMA1000777")
    phone.daemon = Adbd(replacement, port=phone.daemon.port)
    phone.daemon.serve_in_thread()
    phone.online()
    assert phone.adb("shell", "getprop", "ro.serialno").stdout == b"SIMA1000777\n"


def test_unauthorized_phone_is_listed_as_such(phone: Phone) -> None:
    phone.plan("connect", "", LinkFault("deny"))
    phone.server.disconnect(phone.serial)
    with pytest.raises(ServerError, match="authenticate"):
        phone.server.connect(phone.serial)
    assert phone.server.devices()[phone.serial] == "unauthorized"
    assert phone.adb("shell", "id").returncode != 0


def test_comes_back_after_the_cable_was_pulled(phone: Phone) -> None:
    phone.daemon.drop_connections()
    phone.online()
    assert phone.adb("shell", "echo", "back").stdout == b"back\n"


def test_comes_back_after_being_offline(phone: Phone) -> None:
    phone.plan("open", "shell", LinkFault("offline", wait_s=30))
    assert phone.adb("shell", "id").returncode != 0
    phone.online()
    assert phone.core.slept_s > 20, "it answered the next connection only after its time offline"


# -- shell ---------------------------------------------------------------------------------------------------


def test_exit_codes_and_streams_apart_with_shell_v2(phone: Phone) -> None:
    ran = phone.adb("shell", "echo out; ls /nope; exit 7")
    assert (ran.returncode, ran.stdout) == (7, b"out\n")
    assert ran.stderr == b"ls: /nope: No such file or directory\n"
    result = phone.device.shell2("ls /nope", v2=True)
    assert (result.returncode, result.stdout) == (1, "")
    assert result.stderr == "ls: /nope: No such file or directory\n"


def test_shell_v1_has_one_flow_and_its_code_only_by_marker(phone: Phone) -> None:
    with phone.service("shell:echo out; ls /nope; echo M$?") as sock, sock.makefile("rb") as reader:
        assert reader.read() == b"out\nls: /nope: No such file or directory\nM1\n"


def test_exec_is_binary_clean(phone: Phone) -> None:
    data = bytes(range(256)) * 500
    phone.core.vfs.write_file("/sdcard/all.bin", data)
    assert phone.adb("exec-out", "cat /sdcard/all.bin").stdout == data
    assert phone.adb("exec-out", "screencap -p").stdout == phone.core.screencap_png()


def test_other_services_are_refused(phone: Phone) -> None:
    for service in ("reboot:", "root:", "tcp:80", "localabstract:x", "framebuffer:"):
        with pytest.raises(AssertionError):
            phone.service(service).close()
    assert phone.adb("shell", "echo", "alive").stdout == b"alive\n"


def test_many_streams_at_once(phone: Phone) -> None:
    files = {f"/sdcard/{number}.bin": noise(MIB + number, number) for number in range(4)}
    for path, data in files.items():
        phone.core.vfs.write_file(path, data)
    phone.plan("shell", "slow", LinkFault("hang"))
    with phone.service("shell:echo slow"), ThreadPoolExecutor(8) as pool:
        pulls = {path: pool.submit(phone.pulled, path) for path in files}
        shells = [pool.submit(phone.device.shell, f"echo {number}") for number in range(20)]
        assert [shell.result() for shell in shells] == [str(number) for number in range(20)]
        assert {path: pull.result()[0] for path, pull in pulls.items()} == files


# -- sync ----------------------------------------------------------------------------------------------------


def test_pull_of_20_mb_is_byte_exact(phone: Phone, tmp_path: Path) -> None:
    data = noise(20_000_001)
    phone.core.vfs.write_file(f"{DOWNLOAD}/大文件.pdf", data)
    target = tmp_path / "pulled.pdf"
    assert phone.adb("pull", f"{DOWNLOAD}/大文件.pdf", str(target)).returncode == 0
    assert hashlib.sha256(target.read_bytes()).digest() == hashlib.sha256(data).digest()
    assert phone.pulled(f"{DOWNLOAD}/大文件.pdf") == (data, b"DONE")


@pytest.mark.parametrize(
    "name",
    [
        "测试文档（一）.pdf", "preview (1).pdf", "foo;bar.pdf", "$(touch x).pdf", "a'b\n\"c`id`.pdf",
        "😀\u202e.pdf",
    ],
)
def test_names_are_byte_exact(phone: Phone, name: str) -> None:
    path = f"{DOWNLOAD}/{name}"
    phone.core.vfs.write_file(path, b"%PDF-" + name.encode())
    assert phone.pulled(path) == (b"%PDF-" + name.encode(), b"DONE")
    assert phone.device.sync.stat(path).size == 5 + len(name.encode())
    assert [entry.path for entry in phone.device.sync.iter_directory(DOWNLOAD)][2:] == [name]
    assert phone.device.shell(["cat", path]) == f"%PDF-{name}"
    assert phone.core.records == [], "no substitution reached the shell"


def test_name_that_is_not_utf8_is_byte_exact(phone: Phone) -> None:
    raw = b"/sdcard/\xb1\xa8\xb8\xe6.pdf"
    phone.core.vfs.write_file(raw.decode("utf-8", "surrogateescape"), b"gbk")
    with phone.service("sync:") as sock, sock.makefile("rb") as reader:
        sock.sendall(b"RECV" + struct.pack("<I", len(raw)) + raw)
        assert reader.read(8 + 3) == b"DATA\x03\0\0\0gbk"


def test_list_of_2000_entries(phone: Phone) -> None:
    for number in range(2000):
        phone.core.vfs.write_file(f"{DOWNLOAD}/报告{number:04d}.pdf", b"x" * (number % 7))
    entries = {entry.path: entry for entry in phone.device.sync.iter_directory(DOWNLOAD)}
    assert sorted(set(entries) - {".", ".."}) == [f"报告{number:04d}.pdf" for number in range(2000)]
    assert entries["报告0013.pdf"].size == 6
    assert stat.S_ISREG(entries["报告0013.pdf"].mode)
    assert phone.adb("shell", f"ls -1 {DOWNLOAD}").stdout.count(b"\n") == 2000


def test_listing_of_an_unreadable_folder_is_empty_by_sync_and_an_error_by_shell(phone: Phone) -> None:
    phone.core.vfs.set_access("/sdcard/Android/data", "denied")
    assert list(phone.device.sync.iter_directory("/sdcard/Android/data")) == []
    ran = phone.adb("shell", "ls -1 /sdcard/Android/data")
    assert (ran.returncode, ran.stdout) == (1, b"")
    assert b"Permission denied" in ran.stderr


class Sparse:
    """5 GiB of zeros."""

    def size_bytes(self) -> int:
        return 5 * 2**30

    def read(self, offset: int, length: int) -> bytes:
        return bytes(min(length, max(0, self.size_bytes() - offset)))


def stat_v2(phone: Phone, path: str) -> tuple[int, ...]:
    raw = path.encode()
    with phone.service("sync:") as sock, sock.makefile("rb") as reader:
        sock.sendall(b"LST2" + struct.pack("<I", len(raw)) + raw)
        return struct.unpack("<4sIQQIIIIQqqq", reader.read(72))[1:]


def test_sizes_wrap_in_the_old_stat_and_are_whole_in_the_new(phone: Phone) -> None:
    moment = datetime(2026, 11, 30, tzinfo=UTC)
    facts = phone.core.vfs.write_file("/sdcard/5g.bin", Sparse(), mtime=moment)
    assert phone.device.sync.stat("/sdcard/5g.bin").size == 2**30
    error, _, inode, mode, *_, size_bytes, _, mtime_s, _ = stat_v2(phone, "/sdcard/5g.bin")
    assert (error, inode, size_bytes) == (0, facts.inode, 5 * 2**30)
    assert stat.S_ISREG(mode)
    assert mtime_s == moment.timestamp()
    phone.plan("open", "sync:", LinkFault("stat32"))
    assert stat_v2(phone, "/sdcard/5g.bin")[7] == 2**30


def test_stat_of_what_is_not_there(phone: Phone) -> None:
    assert stat_v2(phone, "/sdcard/none")[0] == 2
    phone.core.vfs.set_access("/sdcard/Android", "denied")
    assert stat_v2(phone, DOWNLOAD)[0] == 13
    missing = phone.device.sync.stat("/sdcard/none")
    assert (missing.mode, missing.size) == (0, 0)


def test_pull_of_missing_file_folder_and_unreadable_file_says_why(phone: Phone) -> None:
    phone.core.vfs.write_file("/sdcard/secret", b"x")
    phone.core.vfs.set_access("/sdcard/secret", "denied")
    for path, words in (
        ("/sdcard/none", "No such file"), (DOWNLOAD, "Is a directory"),
        ("/sdcard/secret", "Permission denied"),
    ):
        with pytest.raises(adbutils.AdbError, match=words):
            list(phone.device.sync.iter_content(path))


def test_push_makes_folders_keeps_bytes_and_meets_a_full_storage(phone: Phone, tmp_path: Path) -> None:
    source = tmp_path / "推送.bin"
    source.write_bytes(noise(300_000))
    assert phone.adb("push", str(source), "/sdcard/新建/a b.bin").returncode == 0
    assert phone.core.vfs.read("/sdcard/新建/a b.bin") == source.read_bytes()
    assert phone.core.vfs.stat("/sdcard/新建/a b.bin").mtime_s == int(source.stat().st_mtime)
    phone.core.vfs.capacity_bytes = phone.core.vfs.used_bytes() + 100_000
    full = phone.adb("push", str(source), "/sdcard/b.bin")
    assert full.returncode != 0
    assert b"No space left on device" in full.stderr + full.stdout
    assert phone.adb("push", str(source), "/system/b.bin").returncode != 0
    assert not phone.core.vfs.exists("/system/b.bin")


def test_a_file_removed_while_pulled_still_arrives_whole(phone: Phone) -> None:
    class Trap(Sparse):
        def size_bytes(self) -> int:
            return 3 * MIB

        def read(self, offset: int, length: int) -> bytes:
            if offset >= MIB and phone.core.vfs.exists("/sdcard/trap"):
                phone.core.vfs.remove("/sdcard/trap")
            return super().read(offset, length)

    phone.core.vfs.write_file("/sdcard/trap", Trap())
    data, end = phone.pulled("/sdcard/trap")
    assert (len(data), end) == (3 * MIB, b"DONE")


def test_pull_keeps_the_cables_pace(phone: Phone) -> None:
    phone.core.vfs.write_file("/sdcard/a", noise(4 * MIB))
    phone.core.pull_bytes_per_s = 1e6
    before_s = phone.core.slept_s
    assert len(phone.pulled("/sdcard/a")[0]) == 4 * MIB
    assert phone.core.slept_s > before_s


# -- faults of the link --------------------------------------------------------------------------------------


@pytest.mark.parametrize("at_bytes", [0, 1, 65_536, 1_000_001])
def test_drop_in_mid_transfer_then_a_whole_pull(phone: Phone, at_bytes: int) -> None:
    data = noise(3 * MIB)
    phone.core.vfs.write_file("/sdcard/a", data)
    phone.plan("data", "/sdcard/a", LinkFault("drop", at_bytes=at_bytes))
    assert phone.pulled("/sdcard/a") == (data[:at_bytes], b"")
    phone.online()
    assert phone.pulled("/sdcard/a") == (data, b"DONE")


def test_truncated_flipped_and_grown_transfers_look_complete(phone: Phone) -> None:
    data = noise(200_000)
    phone.core.vfs.write_file("/sdcard/a", data)
    phone.plan("data", "/sdcard/a", LinkFault("truncate", at_bytes=70_000))
    assert phone.pulled("/sdcard/a") == (data[:70_000], b"DONE")
    phone.plan("data", "/sdcard/a", LinkFault("flip", at_bytes=100_000))
    flipped = data[:100_000] + bytes([data[100_000] ^ 0xFF]) + data[100_001:]
    assert phone.pulled("/sdcard/a") == (flipped, b"DONE")
    phone.plan("data", "/sdcard/a", LinkFault("grow"))
    grown, end = phone.pulled("/sdcard/a")
    assert (grown[: len(data)], end) == (data, b"DONE")
    assert len(grown) > len(data)
    assert phone.pulled("/sdcard/a") == (data, b"DONE")


def test_denied_transfer_fails_with_words(phone: Phone) -> None:
    phone.core.vfs.write_file("/sdcard/a", noise(200_000))
    phone.plan("data", "/sdcard/a", LinkFault("deny", at_bytes=66_000))
    with pytest.raises(adbutils.AdbError, match="Permission denied"):
        list(phone.device.sync.iter_content("/sdcard/a"))


@pytest.mark.parametrize("where", ["open", "shell"])
def test_hang_holds_one_command_until_its_user_gives_up(phone: Phone, where: str) -> None:
    phone.plan(where, "echo a", LinkFault("hang"))
    with socket.create_connection(("127.0.0.1", phone.server.port), timeout=30) as sock:
        sock.sendall(f"{len(phone.serial) + 15:04x}host:transport:{phone.serial}".encode())
        assert sock.recv(4) == b"OKAY"
        sock.settimeout(0.3)
        sock.sendall(b"000cshell:echo a")
        came = bytearray()
        with pytest.raises(TimeoutError):
            while True:
                came += sock.recv(100)
    assert bytes(came) == (b"" if where == "open" else b"OKAY")
    assert phone.adb("shell", "echo", "free").stdout == b"free\n"


def test_hang_in_mid_transfer_holds_what_comes_after(phone: Phone) -> None:
    phone.core.vfs.write_file("/sdcard/a", noise(200_000))
    phone.plan("data", "/sdcard/a", LinkFault("hang", at_bytes=70_000))
    with phone.service("sync:") as sock:
        sock.settimeout(0.3)
        sock.sendall(b"RECV\x09\0\0\0/sdcard/a")
        came = bytearray()
        with pytest.raises(TimeoutError):
            while True:
                came += sock.recv(65536)
    assert len(came) == 70_000 + 2 * 8, "two DATA headers and the bytes before the fault"
    assert phone.adb("shell", "echo", "free").stdout == b"free\n"


def test_hang_with_a_time_goes_on_afterwards(phone: Phone) -> None:
    data = noise(200_000)
    phone.core.vfs.write_file("/sdcard/a", data)
    phone.plan("data", "/sdcard/a", LinkFault("hang", wait_s=30, at_bytes=70_000))
    assert phone.pulled("/sdcard/a") == (data, b"DONE")
    assert phone.core.slept_s >= 30


def test_flood_ends_when_its_reader_leaves(phone: Phone) -> None:
    phone.plan("shell", "echo a", LinkFault("flood"))
    with phone.service("shell:echo a") as sock, sock.makefile("rb") as reader:
        assert len(reader.read(5 * MIB)) == 5 * MIB
    assert phone.adb("shell", "echo", "free").stdout == b"free\n"


def test_crlf_as_on_a_terminal(phone: Phone) -> None:
    phone.plan("shell", "echo", LinkFault("crlf"))
    assert phone.adb("shell", "echo a; echo b").stdout == b"a\r\nb\r\n"


def test_denied_service_and_denied_command_differ(phone: Phone) -> None:
    phone.plan("open", "shell", LinkFault("deny"))
    assert phone.adb("shell", "id").returncode == 1
    phone.plan("shell", "id", LinkFault("deny"))
    ran = phone.adb("shell", "id")
    assert (ran.returncode, ran.stdout) == (126, b"")


def test_link_lost_before_the_tap_does_nothing_and_after_it_has_done_it(phone: Phone) -> None:
    phone.plan("shell", "input tap", LinkFault("drop"))
    assert phone.adb("shell", "input tap 1 2").returncode != 0
    assert phone.core.inputs == []
    phone.online()
    phone.plan("shell", "input tap", LinkFault("drop", at_bytes=-1))
    assert phone.adb("shell", "input tap 3 4").returncode != 0
    assert phone.core.inputs == ["tap 3 4"]
    phone.online()


def test_output_cut_at_its_byte(phone: Phone) -> None:
    phone.core.vfs.write_file("/sdcard/a", noise(1000))
    phone.plan("shell", "cat", LinkFault("truncate", at_bytes=333))
    assert phone.adb("shell", "cat /sdcard/a").stdout == noise(1000)[:333]
    phone.plan("shell", "cat", LinkFault("drop", at_bytes=444))
    with phone.service("shell:cat /sdcard/a") as sock, sock.makefile("rb") as reader:
        assert reader.read() == noise(1000)[:444]


def test_close_ends_streams_and_threads(phone: Phone) -> None:
    phone.plan("shell", "echo slow", LinkFault("hang"))
    sock = phone.service("shell:echo slow")
    name = f"adbd-{phone.daemon.port}"
    assert name in {thread.name for thread in threading.enumerate()}
    phone.daemon.close()
    assert sock.recv(10) == b""
    sock.close()
    assert name not in {thread.name for thread in threading.enumerate()}
    phone.daemon.close()
