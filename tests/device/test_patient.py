"""A link that breaks for a moment: questions are asked again, orders are sent once (faults F04, F07)."""

from __future__ import annotations

from pathlib import Path

import pytest

from hibor.device.errors import DeviceError
from hibor.device.navigate import App
from hibor.device.patient import WAIT_S, PatientDevice
from hibor.sim.server import PrivateAdbServer
from tests.device.phones import PROFILE, bench
from tests.device.test_navigate import fault, scan


def test_a_dump_is_asked_for_again_when_the_link_drops(adb_server: PrivateAdbServer, tmp_path: Path) -> None:
    with bench(adb_server, tmp_path, fault("link_drop", site="shell", match="uiautomator", call=2)) as run:
        device = PatientDevice(run.device, run.clock)
        app = App(device, PROFILE, run.clock)
        assert app.open_app().entries()
        assert app.list_screen().entries() and app.looker.look("list").nodes
        assert device.reconnects == 1


def test_without_patience_the_same_link_ends_the_operation(
    adb_server: PrivateAdbServer, tmp_path: Path
) -> None:
    with bench(adb_server, tmp_path, fault("link_drop", site="shell", match="uiautomator")) as run:
        with pytest.raises(DeviceError) as raised:
            run.app.open_app()
        assert raised.value.failure == "link_lost"


def test_a_swipe_whose_answer_was_lost_skips_no_row(adb_server: PrivateAdbServer, tmp_path: Path) -> None:
    drop = fault("link_drop", site="shell", match="input swipe", call=4, at_bytes=-1)
    with bench(adb_server, tmp_path, drop) as run:
        device = PatientDevice(run.device, run.clock)
        app = App(device, PROFILE, run.clock)
        app.open_app()
        found = scan(app)
        assert len(found) == len(set(found)) == 40 and device.reconnects == 1


def test_a_tap_is_never_sent_again(adb_server: PrivateAdbServer, tmp_path: Path) -> None:
    drop = fault("link_drop", site="shell", match="input tap", at_bytes=-1)
    with bench(adb_server, tmp_path, drop) as run:
        device = PatientDevice(run.device, run.clock)
        app = App(device, PROFILE, run.clock)
        row = app.open_app().entries()[0]
        with pytest.raises(DeviceError) as raised:
            app.open_detail(row)
        assert raised.value.failure == "link_lost"
        assert run.taps("report_row") == 1


def test_a_phone_that_stays_away_is_given_up_after_the_wait(
    adb_server: PrivateAdbServer, tmp_path: Path
) -> None:
    away = fault("link_offline", site="shell", match="date", wait_s=100000.0)
    with bench(adb_server, tmp_path, away, scale=60.0) as run:
        device = PatientDevice(run.device, run.clock)
        begun_s = run.clock.monotonic_s()
        with pytest.raises(DeviceError) as raised:
            device.now()
        assert raised.value.failure in ("link_lost", "device_offline")
        assert run.clock.monotonic_s() - begun_s >= WAIT_S


def test_another_phone_at_the_same_address_is_not_the_phone_that_was_waited_for(
    adb_server: PrivateAdbServer, tmp_path: Path
) -> None:
    gone = fault("link_drop", site="shell", match="uiautomator")
    gone += fault("phone_replaced", match="uiautomator")
    with bench(adb_server, tmp_path, gone) as run:
        with pytest.raises(DeviceError) as raised:
            PatientDevice(run.device, run.clock).dump("list")
        assert raised.value.failure == "device_replaced"
