"""`policy.keep_awake`: the screen stays on for a run, and the phone gets its own setting back (design 5)."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from hibor.collect.awake import KEY, NAMESPACE, awake_path, give_back, keep_awake
from hibor.device.errors import DeviceError
from hibor.device.protocol import Device
from hibor.sim.server import PrivateAdbServer
from tests.device.phones import bench
from tests.faults.world import moment, open_world

PHONE = "0123456789abcdef"


@pytest.fixture
def adb_server() -> Iterator[PrivateAdbServer]:
    with PrivateAdbServer() as server:
        yield server


def setting(device: Device) -> str | None:
    return device.setting(NAMESPACE, KEY)


def test_the_setting_is_given_back_at_the_end_and_after_a_kill(
    adb_server: PrivateAdbServer, tmp_path: Path
) -> None:
    with bench(adb_server, tmp_path) as phone:
        world = open_world(tmp_path / "library", None, moment())
        services = world.services
        services.device = phone.device
        path = awake_path(services.library.root, PHONE)
        with ExitStack() as run:
            keep_awake(services, PHONE, run, wanted=False)
            assert setting(phone.device) == "0" and not path.exists()
            keep_awake(services, PHONE, run, wanted=True)
            assert setting(phone.device) not in ("0", None)
            assert json.loads(path.read_bytes())["before"] == "0"
        assert setting(phone.device) == "0" and not path.exists()

        keep_awake(services, PHONE, ExitStack(), wanted=True)  # this run is killed: its stack never ends
        assert setting(phone.device) != "0"
        assert not give_back(services, "f" * 16), "another phone's setting is not touched"
        with ExitStack() as run:  # the next one wants nothing of the kind, and gives back all the same
            keep_awake(services, PHONE, run, wanted=False)
            assert setting(phone.device) == "0" and not path.exists()

        path.write_bytes(b"")  # killed while it was written: before the setting was changed
        assert give_back(services, PHONE) and not path.exists()

        phone.device.put_setting(NAMESPACE, KEY, "7")  # the person's own choice
        with ExitStack() as run:
            keep_awake(services, PHONE, run, wanted=True)
            assert not path.exists()
        assert setting(phone.device) == "7"
        world.close()


class _Refusing:
    """A phone that is gone when its setting is to be given back."""

    def setting(self, namespace: str, key: str) -> str | None:
        raise DeviceError("device_offline", "gone")


def test_a_phone_that_is_gone_costs_the_run_nothing_and_is_remembered(tmp_path: Path) -> None:
    world = open_world(tmp_path / "library", None, moment())
    world.services.device = _Refusing()  # type: ignore[assignment]
    path = awake_path(world.services.library.root, PHONE)
    path.write_bytes(b'{"before": "0"}\n')
    with ExitStack() as run:
        keep_awake(world.services, PHONE, run, wanted=True)
    assert path.exists()
    world.close()
