"""Our adb server: private in every way, and gone when its starter is gone."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import textwrap
import threading
from pathlib import Path

import pytest

from hibor.device.adb_binary import adb_binary
from hibor.sim.adbd import Adbd
from hibor.sim.server import (
    GuardedProcess,
    PrivateAdbServer,
    ServerError,
    free_port,
    private_environment,
)
from tests.sim.file_core import FileCore

REPOSITORY = Path(__file__).resolve().parents[2]
STEPS = 300
STEP_S = 0.05


def listens(port: int) -> bool:
    """Whether somebody accepts connections on a loopback port."""
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def falls_silent(port: int) -> bool:
    """Whether the port stops listening within a bounded time."""
    return any(not listens(port) or threading.Event().wait(STEP_S) for _ in range(STEPS))


def starter(body: str) -> subprocess.Popen[bytes]:
    """Another process that holds a server; prints a line when it is up, then waits for ever."""
    script = textwrap.dedent(
        """
        import sys, threading
        from hibor.sim.server import PrivateAdbServer
        server = PrivateAdbServer().start()
        print(server.port, server.pid, server.process.watchdog_pid, flush=True)
        """
    ) + textwrap.dedent(body)
    return subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, cwd=REPOSITORY)


def told(process: subprocess.Popen[bytes]) -> tuple[int, int, int]:
    """Port, server pid and watchdog pid the starter printed."""
    assert process.stdout is not None
    port, server_pid, watchdog_pid = process.stdout.readline().split()
    return int(port), int(server_pid), int(watchdog_pid)


def test_binary_is_the_wheels_own() -> None:
    assert Path(adb_binary()).is_file()
    assert "adbutils" in adb_binary()


def test_starts_answers_and_stops() -> None:
    server = PrivateAdbServer()
    with server:
        assert server.port != 5037
        assert int(server.request("host:version"), 16) >= 41
        assert server.devices() == {}
        port = server.port
    assert not listens(port)
    server.stop()
    with pytest.raises(ServerError):
        server.request("host:version")


def test_listens_on_loopback_only() -> None:
    with PrivateAdbServer() as server, socket.socket() as probe:
        # Every address of 127/8 is this machine; a server bound to all addresses would answer here.
        if sys.platform != "linux":
            pytest.skip("only Linux routes the whole of 127/8 to itself")
        assert probe.connect_ex(("127.0.0.2", server.port)) != 0


def test_sees_no_usb_no_emulator_and_nobodys_settings(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("ANDROID_ADB_SERVER_PORT", "ANDROID_SERIAL", "ADB_VENDOR_KEYS"):
        monkeypatch.setenv(name, "5037")
    environment = private_environment(tmp_path)
    assert {name: environment[name] for name in environment if name.startswith("ADB_")} == {
        "ADB_MDNS": "0", "ADB_MDNS_OPENSCREEN": "0", "ADB_MDNS_AUTO_CONNECT": "0", "ADB_USB": "0",
        "ADB_EMU": "0",
    }
    assert environment["HOME"] == str(tmp_path)
    assert "ANDROID_SERIAL" not in environment
    if sys.platform == "linux":
        with PrivateAdbServer() as server:
            raw = Path(f"/proc/{server.pid}/environ").read_bytes().split(b"\0")
            assert {b"ADB_USB=0", b"ADB_EMU=0", b"ADB_MDNS=0"} <= set(raw)


def test_a_phone_on_an_emulator_port_is_not_picked_up() -> None:
    core = FileCore()
    for port in range(5585, 5554, -2):
        try:
            daemon = Adbd(core, port=port)
            break
        except OSError:
            continue
    else:
        pytest.skip("every emulator port is in use")
    daemon.serve_in_thread()
    try:
        with PrivateAdbServer() as server:
            # Asking for a device gives a scanning server the time to find one.
            with pytest.raises(ServerError):
                server.request("host:transport-any")
            assert server.devices() == {}
    finally:
        daemon.close()


def test_a_taken_port_is_an_error_not_somebody_elses_server() -> None:
    with PrivateAdbServer() as first, pytest.raises(ServerError):
        PrivateAdbServer(port=first.port).start()


def test_two_servers_live_side_by_side_with_a_given_home(tmp_path: Path) -> None:
    with PrivateAdbServer(tmp_path / "主目录 1") as one, PrivateAdbServer(tmp_path / "2") as two:
        assert one.port != two.port
        assert one.request("host:version") == two.request("host:version")
    assert (tmp_path / "主目录 1" / ".android").is_dir()
    assert [path.name for path in (tmp_path / "2").glob("log-*")] == []


@pytest.mark.skipif(os.name != "posix", reason="SIGKILL is POSIX")
def test_server_is_gone_after_its_starter_was_killed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    process = starter("threading.Event().wait()")
    port, _, _ = told(process)
    assert listens(port)
    assert len(list(tmp_path.glob("hibor-adb-*"))) == 1
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert falls_silent(port)
    left = (list(tmp_path.iterdir()) for _ in range(STEPS) if not threading.Event().wait(STEP_S))
    assert any(found == [] for found in left), "its temporary home is gone as well"


@pytest.mark.skipif(sys.platform != "linux", reason="the parent-death signal is Linux")
def test_server_is_gone_after_its_watchdog_was_killed() -> None:
    with PrivateAdbServer() as server:
        os.kill(server.process.watchdog_pid, signal.SIGKILL)
        assert falls_silent(server.port)


def test_server_is_gone_after_its_starter_ended_without_stopping_it() -> None:
    process = starter("import os; os._exit(3)")
    port, _, _ = told(process)
    assert process.wait() == 3
    assert falls_silent(port)


@pytest.mark.skipif(os.name != "posix", reason="process groups are POSIX")
def test_interrupt_of_the_console_does_not_reach_the_server() -> None:
    process = starter("threading.Event().wait()")
    port, server_pid, watchdog_pid = told(process)
    assert os.getpgid(server_pid) == os.getpgid(watchdog_pid) != os.getpgid(process.pid)
    os.kill(watchdog_pid, signal.SIGINT)
    assert listens(port)
    process.kill()
    process.wait()
    assert falls_silent(port)


def test_guarded_process_passes_its_output_and_reports_what_cannot_start() -> None:
    guarded = GuardedProcess([sys.executable, "-c", "print('ready', flush=True); input()"], keep_stdout=True)
    assert guarded.stdout.readline().strip() == b"ready"
    guarded.stop()
    assert not guarded.running
    with pytest.raises(ServerError):
        GuardedProcess([str(REPOSITORY / "no-such-program")])


def test_connecting_to_nothing_is_an_error_with_the_servers_words() -> None:
    with PrivateAdbServer() as server, pytest.raises(ServerError, match=r"refused|failed|cannot"):
        server.connect(f"127.0.0.1:{free_port()}")
