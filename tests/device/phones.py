"""A simulated phone behind a real adb server, for the tests of this folder."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import attrs

from hibor.clock import Clock
from hibor.device.adb import AdbDevice, AdbServer, choose_device
from hibor.device.navigate import App
from hibor.device.profile import load_profile
from hibor.device.profile_types import Profile
from hibor.sim.process import start_phone
from hibor.sim.server import PrivateAdbServer, ServerError

SCALE = 10.0
PROFILE = load_profile("hibor-sim-1")


@attrs.frozen
class Bench:
    """One phone, and the driver on it."""

    device: AdbDevice
    app: App
    clock: Clock
    state_dir: Path

    def truth(self, *events: str) -> list[dict[str, Any]]:
        """What the phone really did."""
        lines = (self.state_dir / "truth.jsonl").read_text("utf-8").splitlines()
        return [one for one in map(json.loads, lines) if one["event"] in events]

    def taps(self, control: str) -> int:
        """How often a control was really tapped."""
        return sum(str(one["detail"]).endswith(f" {control}") for one in self.truth("tap"))

    def served(self) -> list[str]:
        """Reports the app's server charged for."""
        return [str(one["report_id"]) for one in self.truth("served")]


@contextmanager
def bench(
    server: PrivateAdbServer,
    folder: Path,
    scenario: str = "",
    *,
    profile: Profile = PROFILE,
    scale: float = SCALE,
) -> Iterator[Bench]:
    """A phone that plays `scenario` (TOML without its description)."""
    path = folder / "scenario.toml"
    path.write_text('description = "test"\n' + scenario, encoding="utf-8")
    with start_phone(folder / "state", path, scale) as phone:
        address = f"127.0.0.1:{phone.port}"
        server.connect(address)
        try:
            adb = AdbServer("127.0.0.1", server.port)
            device = AdbDevice(adb, choose_device(adb, phone.serial), clock=phone.clock())
            yield Bench(device, App(device, profile, phone.clock()), phone.clock(), folder / "state")
        finally:
            with suppress(ServerError):  # a test may have stopped the server itself
                server.disconnect(address)
