"""The phone as a process: its ready line, its clock, its end, and what a kill leaves."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from datetime import datetime, timedelta
from pathlib import Path

import pytest

from hibor.clock import ScaledClock
from hibor.collect.stops import RunStop
from hibor.device.adb_binary import adb_binary
from hibor.messages import reason_text
from hibor.sim.downloads import CACHE_FOLDER
from hibor.sim.process import PhoneStartError, _said, phone_clock, start_phone
from hibor.sim.server import PrivateAdbServer, private_environment
from hibor.sim.state import EMBEDDED_START_HOUR, OUTLIVED, PHONE_ZONE, start_clock
from hibor.sim.truth import TruthEvent, TruthLog, read_truth

SCALE = 50.0
END_LIMIT_S = 15.0


def answers(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port), timeout=5).close()
    except OSError:
        return False
    return True


def heartbeat(folder: Path) -> datetime:
    return datetime.fromisoformat(json.loads((folder / "heartbeat.json").read_bytes())["wall"])


def gone(pid: int) -> bool:
    """Wait, bounded, until a process that is not our child has ended."""
    end_s = time.monotonic() + END_LIMIT_S
    while time.monotonic() < end_s:
        try:
            state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
        except (FileNotFoundError, ProcessLookupError):
            return True
        if state == "Z":
            return True
        time.sleep(0.05)
    return False


def test_phone_starts_answers_and_stops(tmp_path: Path) -> None:
    with start_phone(tmp_path, "default", SCALE) as phone:
        assert phone.serial == f"127.0.0.1:{phone.port}" and phone.more_ports == ()
        assert phone.running and answers(phone.port)
    assert not phone.running and not answers(phone.port)
    phone.stop()
    assert (tmp_path / "phone.log").read_bytes() == b""


def test_second_device_has_its_own_port(tmp_path: Path) -> None:
    with start_phone(tmp_path, "second_device", SCALE) as phone:
        assert len(phone.more_ports) == 1 and answers(phone.more_ports[0])


def test_embedded_phone_lives_from_nine_and_never_goes_back(tmp_path: Path) -> None:
    with start_phone(tmp_path, "default", SCALE, embedded=True) as phone:
        begun = phone.clock().now().astimezone(PHONE_ZONE)
        assert phone.clock() == phone_clock(tmp_path)
        assert begun.hour == EMBEDDED_START_HOUR and begun.minute < 10
        phone.stop()
        ended = heartbeat(tmp_path)
    assert ended >= begun
    with start_phone(tmp_path, "default", SCALE, embedded=True) as phone:
        assert phone.clock().now() >= ended
        phone.clock().sleep(30.0)
        phone.kill()
        phone.clock().sleep(200.0)
        outlived = phone.clock().now()  # whoever was connected still has this clock, and books by it
    with start_phone(tmp_path, "default", SCALE, embedded=True) as phone:
        assert phone.clock().now() >= outlived
        phone.stop()
    stopped = heartbeat(tmp_path)
    time.sleep(0.1)
    assert start_clock(tmp_path, SCALE, True).anchor_wall == stopped, "time stands still while it is off"
    (tmp_path / "heartbeat.json").write_text(json.dumps({"wall": stopped.isoformat(), "killed": True}))
    old = phone_clock(tmp_path)
    later = ScaledClock(old.scale, old.anchor_wall, old.anchor_real_s - 3600.0)
    values = {"anchor_wall": later.anchor_wall.isoformat(), "anchor_real_s": later.anchor_real_s}
    (tmp_path / "clock.json").write_text(json.dumps({**values, "scale": later.scale}))
    assert start_clock(tmp_path, SCALE, True).anchor_wall == stopped + OUTLIVED


def test_stand_alone_phone_has_the_real_time(tmp_path: Path) -> None:
    with start_phone(tmp_path) as phone:
        real = datetime.now(PHONE_ZONE)
        assert abs(phone.clock().now() - real) < timedelta(seconds=5)
        assert phone.clock().scale == 1.0


def test_state_folder_has_one_phone_at_a_time(tmp_path: Path) -> None:
    refused = pytest.raises(PhoneStartError, match="Another simulated phone")
    with start_phone(tmp_path, "default", SCALE), refused:
        start_phone(tmp_path, "default", SCALE)


def test_broken_scenario_is_told_with_its_line(tmp_path: Path) -> None:
    bad = tmp_path / "bad.toml"
    bad.write_text('description = "x"\n[pace]\ndump = 3\n', encoding="utf-8")
    with pytest.raises(PhoneStartError, match=r"bad\.toml:3 pace\.dump: unknown key"):
        start_phone(tmp_path / "state", bad)


@pytest.mark.skipif(os.name != "posix", reason="SIGKILL and /proc")
@pytest.mark.skipif(not Path("/proc").exists(), reason="needs /proc")
@pytest.mark.parametrize("name", ["state.json", "phone.log"])
@pytest.mark.skipif(os.name != "posix", reason="no FIFOs here")
def test_a_damaged_phone_says_what_to_do_in_one_line(tmp_path: Path, name: str) -> None:
    """A FIFO in a file's place neither hangs the phone nor shows anybody a traceback."""
    os.mkfifo(tmp_path / name)
    with pytest.raises(PhoneStartError) as refused:
        start_phone(tmp_path, "default", SCALE)
    (said,) = str(refused.value).splitlines()
    assert said.startswith(f"{tmp_path / name} cannot be used") and f"Delete the folder {tmp_path}" in said
    stop = RunStop("task_invalid", f"the simulated phone did not start: {said}")
    told = reason_text("zh", stop.code, stop.detail)
    assert str(tmp_path / name) in told and f"请删除文件夹 {tmp_path} 后" in told


@pytest.mark.skipif(os.name != "posix", reason="a pipe's end is noticed by the select of POSIX")
def test_a_phone_that_hangs_in_its_start_ends_with_its_starter() -> None:
    """Nobody waits for the closed stdin there, so whoever reads it ends the process."""
    hangs = (
        "import hibor.sim.__main__ as sim, threading\n"
        "sim.LATEST_END_S = 0.05\n"
        "sim._End(None).watch_stdin()\n"
        "print('up', flush=True)\n"
        "threading.Event().wait()\n"
    )
    command = [sys.executable, "-c", hangs]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdin is not None and process.stdout is not None
        assert process.stdout.readline() == b"up\n"
        process.stdin.close()
        assert process.wait(END_LIMIT_S) == 1


def test_a_defect_is_told_by_its_last_line_and_the_logs_place(tmp_path: Path) -> None:
    log = tmp_path / "phone.log"
    log.write_bytes(b"earlier\nTraceback (most recent call last):\n  File x\nValueError: odd\n")
    assert _said(log, len("earlier\n")) == f"ValueError: odd; {log} says more"


def test_phone_dies_with_its_killed_parent(tmp_path: Path) -> None:
    code = (
        "import sys,time;from pathlib import Path;from hibor.sim.process import start_phone;"
        f"p=start_phone(Path({str(tmp_path)!r}),'default',50.0);print(p.pid,p.port,flush=True);time.sleep(60)"
    )
    parent = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
    assert parent.stdout is not None
    pid, port = (int(part) for part in parent.stdout.readline().split())
    assert answers(port)
    os.kill(parent.pid, signal.SIGKILL)
    parent.wait(END_LIMIT_S)
    parent.stdout.close()
    assert gone(pid)
    assert json.loads((tmp_path / "state.json").read_bytes())["schema_version"] == 1


@pytest.mark.skipif(os.name != "posix", reason="SIGTERM as a request")
def test_sigterm_ends_the_command_line_phone_in_good_order(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "hibor.sim", "--port", "0", "--state", str(tmp_path)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stdin=subprocess.DEVNULL)
    assert process.stdout is not None
    ready = json.loads(process.stdout.readline())
    assert list(ready)[:2] == ["port", "serial"] and ready["pid"] == process.pid
    process.terminate()
    assert process.wait(END_LIMIT_S) == 0
    assert process.stdout.read() == b""
    process.stdout.close()


def test_real_adb_pulls_a_cached_report_byte_for_byte(tmp_path: Path) -> None:
    home = tmp_path / "home"
    home.mkdir()
    with start_phone(tmp_path / "phone", "default", SCALE) as phone, PrivateAdbServer() as server:
        server.connect(phone.serial)

        def adb(*words: str) -> str:
            done = subprocess.run(
                [adb_binary(), "-P", str(server.port), "-s", phone.serial, *words], capture_output=True,
                text=True, timeout=60, env=private_environment(home), check=True,
            )
            return done.stdout

        names = adb("shell", f"ls -1 {CACHE_FOLDER}").splitlines()
        assert len(names) == 4
        folder = CACHE_FOLDER.replace("/storage/emulated/0", "/sdcard")
        adb("pull", f"{folder}/{names[0]}", str(tmp_path / "got"))
        pulled = (tmp_path / "got").read_bytes()
        made = {path.read_bytes() for path in (tmp_path / "phone" / "pdf").glob("*.pdf")}
        assert pulled.startswith(b"%PDF-") and pulled in made
        adb("shell", "monkey -p com.huibo.research -c android.intent.category.LAUNCHER 1")
        screen = adb("shell", "uiautomator dump /sdcard/w.xml >/dev/null; cat /sdcard/w.xml")
        assert "今日剩余 20 次" in screen


def test_truth_cuts_a_torn_line_and_keeps_whole_ones(tmp_path: Path) -> None:
    path = tmp_path / "truth.jsonl"
    log = TruthLog(path)
    log.append(TruthEvent(1.0, "served", "HB1", "quota used 1"))
    log.append(TruthEvent(2.0, "tap", None, "标题\n“引号”"))
    log.close()
    whole = path.read_bytes()
    path.write_bytes(whole + b'{"schema_version": 1, "t": 3.0, "ev')
    assert len(read_truth(path)) == 2
    again = TruthLog(path)
    again.append(TruthEvent(3.0, "tap", None, "x"))
    again.close()
    assert path.read_bytes().startswith(whole) and [event.t for event in read_truth(path)] == [1.0, 2.0, 3.0]
    assert list(json.loads(whole.splitlines()[0])) == ["schema_version", "t", "event", "report_id", "detail"]
