"""Faults of the adb link, each against a real socket that speaks the protocol (faults.md, area ADB)."""

from __future__ import annotations

import socket
import struct
from pathlib import Path

import pytest

from hibor.device.adb import AdbDevice, AdbServer, choose_device, list_devices, server_version
from hibor.device.errors import DeviceError
from hibor.device.phone import Limits
from tests.device.scripted import IDENTITY, Peer, ScriptedServer, answers_with, regular_file, shell_of

SHORT = Limits(command_s=0.6, dump_s=0.6, pull_s=1.0)


class Bytes:
    """A sink that keeps what it gets."""

    def __init__(self) -> None:
        self.data = bytearray()

    def write(self, data: memoryview) -> int:
        self.data += data
        return len(data)


def failure_of(call: object, *arguments: object, **options: object) -> DeviceError:
    with pytest.raises(DeviceError) as caught:
        call(*arguments, **options)  # type: ignore[operator]
    return caught.value


def opened(server: ScriptedServer, limits: Limits = SHORT) -> AdbDevice:
    return AdbDevice(server.server, "R58M000001", limits=limits)


@pytest.mark.parametrize(
    ("state", "word"),
    [
        ("unauthorized", "device_unauthorized"),
        ("authorizing", "device_unauthorized"),
        ("offline", "device_offline"),
        ("recovery", "device_offline"),
    ],
)
def test_f01_state_is_one_clear_error(state: str, word: str) -> None:
    with ScriptedServer(devices=f"R58M000001\t{state}\n") as server:
        assert failure_of(choose_device, server.server, "R58M000001").failure == word
        assert failure_of(choose_device, server.server, None).failure == word
        assert server.services == []


@pytest.mark.parametrize(
    ("refusal", "word"),
    [
        ("device unauthorized.\nThis adb server's $ADB_VENDOR_KEYS is not set", "device_unauthorized"),
        ("device still authorizing", "device_unauthorized"),
        ("device offline", "device_offline"),
        ("device 'R58M000001' not found", "link_lost"),
        ("more than one device/emulator", "device_ambiguous"),
    ],
)
def test_f01_refused_transport_sends_no_command(refusal: str, word: str) -> None:
    with ScriptedServer(transport=refusal) as server:
        error = failure_of(opened, server)
        assert (error.failure, error.command_sent) == (word, False)
        assert "R58M000001" not in error.detail


def test_f02_serial_with_a_blank_is_one_serial() -> None:
    wireless = "adb-R58M000001-9mU6UL (2)._adb-tls-connect._tcp"
    with ScriptedServer(devices=f"{wireless}\tdevice\nother\toffline\n") as server:
        assert choose_device(server.server, None) == wireless
        assert choose_device(server.server, wireless) == wireless
        assert [e.state for e in list_devices(server.server)] == ["device", "offline"]


def test_f02_one_phone_listed_twice_needs_a_name() -> None:
    listed = "192.168.1.7:5555\tdevice\nadb-R58M000001-x._adb-tls-connect._tcp\tdevice\n"
    with ScriptedServer(devices=listed) as server:
        assert failure_of(choose_device, server.server, None).failure == "device_ambiguous"
        assert choose_device(server.server, "192.168.1.7:5555") == "192.168.1.7:5555"
        assert failure_of(choose_device, server.server, "R58M000001").failure == "device_offline"


def test_no_phone_and_named_phone_missing() -> None:
    with ScriptedServer(devices="") as server:
        assert failure_of(choose_device, server.server, None).failure == "device_offline"


def test_f04_server_dies_between_stat_and_recv() -> None:
    def sync(peer: Peer, service: str) -> None:
        peer.sync_request()
        peer.send(struct.pack("<4sIII", b"STAT", 0o100660, 10, 1))
        peer.sync_request()

    with ScriptedServer(sync=sync) as server:
        device, sink = opened(server), Bytes()
        error = failure_of(device.pull, "/sdcard/x.pdf", sink, limit_bytes=1000)
        assert error.failure == "link_lost" and not sink.data
        server.sync = regular_file(b"%PDF-1.7 whole")
        assert device.pull("/sdcard/x.pdf", sink, limit_bytes=1000) == 14  # the next call connects anew


def test_f07_server_dies_between_data_blocks() -> None:
    def sync(peer: Peer, service: str) -> None:
        peer.sync_request()
        peer.send(struct.pack("<4sIII", b"STAT", 0o100660, 100_000, 1))
        peer.sync_request()
        peer.send(struct.pack("<4sI", b"DATA", 65536) + bytes(65536))

    with ScriptedServer(sync=sync) as server:
        device, sink = opened(server), Bytes()
        error = failure_of(device.pull, "/sdcard/x.pdf", sink, limit_bytes=1_000_000, expected_bytes=100_000)
        assert error.failure == "link_lost" and isinstance(error.__cause__, EOFError)


def test_f05_silent_listener_is_found_out() -> None:
    with ScriptedServer(silent=True) as server:
        for call in (list_devices, server_version):
            error = failure_of(call, server.server)
            assert error.failure == "server_unreachable" and "does not answer" in error.detail


def test_f05_other_program_on_the_port() -> None:
    with ScriptedServer(banner=b"HTTP/1.1 400 Bad Request\r\n\r\n") as server:
        error = failure_of(list_devices, server.server)
        assert error.failure == "server_unreachable" and "adb protocol" in error.detail


def test_f05_nobody_listens_and_no_server_is_started(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    proof = tmp_path / "started"
    program = tmp_path / "adb"
    program.write_text(f"#!/bin/sh\ntouch {proof}\n")
    program.chmod(0o755)
    monkeypatch.setenv("ADBUTILS_ADB_PATH", str(program))
    with socket.create_server(("127.0.0.1", 0)) as unused:
        port = unused.getsockname()[1]
    error = failure_of(list_devices, AdbServer("127.0.0.1", port, first_reply_s=0.5))
    assert error.failure == "server_unreachable" and not proof.exists()


def test_phone_that_never_answers_is_a_command_timeout() -> None:
    def hang(peer: Peer, service: str) -> None:
        peer.link.recv(1)

    with ScriptedServer(shell=hang) as server:
        error = failure_of(opened, server)
        assert (error.failure, error.command_sent) == ("command_timeout", True)


def test_deadline_is_for_the_whole_not_for_each_read() -> None:
    def drip(peer: Peer, service: str) -> None:
        for _ in range(200):
            peer.v2(1, b".")
            peer.link.settimeout(0.05)
            try:
                if not peer.link.recv(1):
                    return
            except TimeoutError:
                continue

    with ScriptedServer(shell=drip) as server:
        assert failure_of(opened, server).failure == "command_timeout"


@pytest.mark.parametrize("features", ["shell_v2,cmd", "cmd"])
def test_f12_exit_code_survives_with_and_without_shell_v2(features: str) -> None:
    answers = answers_with({"cat": (b"cat: /sdcard/a: No such file or directory\n", 1), "true": (b"", 0)})
    with ScriptedServer(features=features, shell=shell_of(answers)) as server:
        device = opened(server)
        bad, good = device.run(["cat", "/sdcard/a"], ["true"])
        assert (bad.code, good.code) == (1, 0)
        (single,) = device.run(["cat", "/sdcard/a"])
        assert single.code == 1
        assert failure_of(device.stat, "/sdcard/a").failure == "remote_refused"


def test_f12_output_that_breaks_off_before_its_marker_is_no_content() -> None:
    normal = shell_of(answers_with())

    def shell(peer: Peer, service: str) -> None:
        if "getprop" in service:
            normal(peer, service)
        else:
            peer.send(b"half an answ")

    with ScriptedServer(features="cmd", shell=shell) as server:
        device = opened(server)
        assert failure_of(device.run, ["date"]).failure == "link_lost"


def test_f13_five_gib_reads_as_one_and_the_limit_still_holds() -> None:
    content = bytes(300_000)
    with ScriptedServer(sync=regular_file(content, size_bytes=5 * 2**30)) as server:
        device = opened(server)
        assert device.pull("/sdcard/x", Bytes(), limit_bytes=300_000) == 300_000
        sink = Bytes()
        assert failure_of(device.pull, "/sdcard/x", sink, limit_bytes=299_999).failure == "output_limit"
        assert len(sink.data) <= 299_999


def test_f13_sizes_come_as_64_bit_from_stat() -> None:
    def answer(command: str) -> tuple[bytes, int]:
        if command.startswith("stat -c "):
            marker = command.split("'")[1].split("|")[0]
            return f"{marker}|5368709120|1796057577|42|regular file|/sdcard/big\n".encode(), 0
        return IDENTITY[command], 0

    with ScriptedServer(shell=shell_of(answer)) as server:
        assert opened(server).stat("/sdcard/big").size_bytes == 5 * 2**30


def test_f16_path_length_is_counted_in_bytes() -> None:
    seen: list[bytes] = []

    def sync(peer: Peer, service: str) -> None:
        _, path = peer.sync_request()
        seen.append(path)
        peer.send(struct.pack("<4sIII", b"STAT", 0o100660, 4, 1))
        _, path = peer.sync_request()
        seen.append(path)
        peer.send(struct.pack("<4sI", b"DATA", 4) + b"%PDF" + struct.pack("<4sI", b"DONE", 0))

    path = "/sdcard/测试文档（一）.pdf"
    with ScriptedServer(sync=sync) as server:
        sink = Bytes()
        assert opened(server).pull(path, sink, limit_bytes=100) == 4
    assert seen == [path.encode(), path.encode()] and bytes(sink.data) == b"%PDF"


@pytest.mark.parametrize("name", ["preview (1).pdf", "foo;bar", "$(touch x).pdf", "`id`", "a'b\n.pdf", "-rf"])
def test_f17_f18_every_argument_is_one_word_for_the_phone(name: str) -> None:
    import shlex

    with ScriptedServer() as server:
        device = opened(server)
        server.services.clear()
        device.run(["sha256sum", f"/sdcard/{name}"])
        line = server.services[-1].removeprefix("shell,v2,raw:")
    assert shlex.split(line) == ["sha256sum", f"/sdcard/{name}"]


def test_f21_carriage_returns_of_a_terminal_are_dropped_from_text() -> None:
    crlf = {k: v.replace(b"\n", b"\r\n") for k, v in IDENTITY.items()}

    def answer(command: str) -> tuple[bytes, int]:
        if command in crlf:
            return crlf[command], 0
        return b"2026-11-30T08:31:05+0800\r\n", 0

    with ScriptedServer(features="cmd", shell=shell_of(answer)) as server:
        device = opened(server)
        assert device.identity.serialno == "R58M000001"
        assert device.now().isoformat() == "2026-11-30T08:31:05+08:00"


@pytest.mark.parametrize("features", ["shell_v2,cmd", "cmd"])
def test_f24_endless_output_is_cut_at_the_limit(features: str) -> None:
    normal = shell_of(answers_with())
    sent = 0

    def shell(peer: Peer, service: str) -> None:
        nonlocal sent
        if "getprop" in service:
            normal(peer, service)
            return
        block = bytes(65536)
        for _ in range(2000):
            peer.v2(1, block) if "v2" in features else peer.send(block)
            sent += len(block)

    with ScriptedServer(features=features, shell=shell) as server:
        device = opened(server, Limits(command_s=10.0))
        error = failure_of(device.run, ["cat", "/dev/zero"], limit_bytes=200_000)
        assert error.failure == "output_limit"
    assert sent < 2000 * 65536


def empty_listing(peer: Peer, service: str) -> None:
    peer.sync_request()
    peer.send(struct.pack("<4sIIII", b"DONE", 0, 0, 0, 0))


@pytest.mark.parametrize(
    ("answers", "word"),
    [
        ({"ls -1": (b"ls: /sdcard/a: Permission denied\n", 1), "test -r": (b"", 1)}, "cache_unreadable"),
        ({"ls -1": (b"", 0), "test -r": (b"", 1)}, "cache_unreadable"),
        (
            {"ls -1": (b"ls: /sdcard/a: No such file or directory\n", 1), "test -r": (b"", 1)},
            "remote_vanished",
        ),
        ({"ls -1": (b"", 0), "test -r": (b"", 0)}, ""),
    ],
)
def test_f25_unreadable_is_not_empty(answers: dict[str, tuple[bytes, int]], word: str) -> None:
    with ScriptedServer(shell=shell_of(answers_with(answers)), sync=empty_listing) as server:
        device = opened(server)
        if word:
            assert failure_of(device.list, "/sdcard/a").failure == word
        else:
            assert device.list("/sdcard/a").entries == ()


def test_f25_refused_listing_is_not_empty() -> None:
    def refuse(peer: Peer, service: str) -> None:
        peer.sync_request()
        message = b"opendir failed: Permission denied"
        peer.send(struct.pack("<4sI", b"FAIL", len(message)) + message)

    with ScriptedServer(sync=refuse) as server:
        assert failure_of(opened(server).list, "/sdcard/a").failure in ("cache_unreadable", "remote_refused")


@pytest.mark.parametrize(
    ("mode", "word"),
    [(0o120777, "not_regular"), (0o040755, "not_regular"), (0o140777, "not_regular"), (0, "remote_vanished")],
)
def test_only_regular_files_are_pulled(mode: int, word: str) -> None:
    with ScriptedServer(sync=regular_file(b"secret", mode=mode)) as server:
        sink = Bytes()
        assert failure_of(opened(server).pull, "/sdcard/x", sink, limit_bytes=100).failure == word
        assert not sink.data


@pytest.mark.parametrize(("expected", "word"), [(11, "short_pull"), (9, "remote_changed")])
def test_pull_compares_with_the_expected_size(expected: int, word: str) -> None:
    with ScriptedServer(sync=regular_file(b"0123456789")) as server:
        error = failure_of(
            opened(server).pull, "/sdcard/x", Bytes(), limit_bytes=100, expected_bytes=expected
        )
        assert error.failure == word


def test_a_full_local_disk_is_not_the_phones_failure() -> None:
    class Full:
        def write(self, data: memoryview) -> int:
            raise OSError(28, "No space left on device")

    with ScriptedServer(sync=regular_file(b"0123456789")) as server, pytest.raises(OSError) as caught:
        opened(server).pull("/sdcard/x", Full(), limit_bytes=100)
    assert caught.value.errno == 28


def test_replaced_phone_is_noticed_before_tap_and_pull() -> None:
    serial = [b"R58M000001\n"]

    def answer(command: str) -> tuple[bytes, int]:
        if command == "getprop ro.serialno":
            return serial[0], 0
        return IDENTITY.get(command, b""), 0

    with ScriptedServer(shell=shell_of(answer), sync=regular_file(b"x")) as server:
        device = opened(server)
        assert device.tap(1, 2).accepted
        serial[0] = b"OTHER\n"
        server.services.clear()
        for error in (
            failure_of(device.tap, 1, 2),
            failure_of(device.pull, "/sdcard/x", Bytes(), limit_bytes=9),
        ):
            assert (error.failure, error.command_sent) == ("device_replaced", False)
        assert not [s for s in server.services if "input tap" in s or s.startswith("sync:")]


def test_refused_tap_is_told_and_sent_once() -> None:
    refusal = (
        b"java.lang.SecurityException: Injecting to another application requires INJECT_EVENTS permission\n"
    )
    with ScriptedServer(shell=shell_of(answers_with({"input": (refusal, 0)}))) as server:
        result = opened(server).tap(5, 6)
        assert not result.accepted and "INJECT_EVENTS" in (result.refusal or "")
        assert sum("input tap" in s for s in server.services) == 1


def test_tap_whose_answer_is_lost_is_sent_once_and_counts_as_sent() -> None:
    normal = shell_of(answers_with())

    def shell(peer: Peer, service: str) -> None:
        if "input tap" not in service:
            normal(peer, service)

    with ScriptedServer(shell=shell) as server:
        error = failure_of(opened(server).tap, 5, 6)
        assert (error.failure, error.command_sent) == ("link_lost", True)
        assert sum("input tap" in s for s in server.services) == 1


@pytest.mark.parametrize(
    ("window", "power", "word"),
    [
        ("mCurrentFocus=Window{1 u0 com.tencent.mm/.ui.LauncherUI}", "Awake", "foreign_window"),
        ("mCurrentFocus=Window{1 u0 Application Not Responding: com.app}", "Awake", "foreign_window"),
        ("mCurrentFocus=Window{1 u10 com.app/.Main}", "Awake", "foreign_window"),
        ("mCurrentFocus=Window{1 u0 NotificationShade}", "Awake", "device_locked"),
        ("mCurrentFocus=Window{1 u0 com.app/.Main}\n isKeyguardShowing=true", "Awake", "device_locked"),
        ("mCurrentFocus=Window{1 u0 com.app/.Main}", "Asleep", "device_locked"),
        ("mCurrentFocus=null", "Awake", "foreign_window"),
    ],
)
def test_f40_f41_f42_no_tap_unless_the_app_has_the_focus(window: str, power: str, word: str) -> None:
    answers = {
        "dumpsys window": (window.encode(), 0),
        "dumpsys power": (f"  mWakefulness={power}\n".encode(), 0),
        "input": (b"", 0),
    }
    with ScriptedServer(shell=shell_of(answers_with(answers))) as server:
        error = failure_of(opened(server).tap, 5, 6, package="com.app")
        assert (error.failure, error.command_sent) == (word, False)
        assert not [s for s in server.services if "input" in s]


def test_package_missing_and_clone_only() -> None:
    cloned = (
        b"Packages:\n  Package [com.app] (1):\n    versionCode=3\n    versionName=1.2\n"
        b"    User 0: installed=false\n    User 999: installed=true\n"
    )
    for answers, word in (
        (
            {"pm path": (b"", 1), "dumpsys package": (b"Unable to find package: com.app\n", 0)},
            "package_missing",
        ),
        ({"pm path": (b"", 1), "dumpsys package": (cloned, 0)}, "package_cloned"),
    ):
        with ScriptedServer(shell=shell_of(answers_with(answers))) as server:
            assert failure_of(opened(server).package, "com.app").failure == word


def test_server_address_is_parsed_strictly() -> None:
    assert AdbServer.parse("127.0.0.1:5038") == AdbServer("127.0.0.1", 5038)
    for text in ("5037", "host:", ":5037", "host:0", "host:70000", "host:x"):
        with pytest.raises(ValueError):
            AdbServer.parse(text)
