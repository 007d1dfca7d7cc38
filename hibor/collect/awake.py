"""Keeping the phone's screen on for a run (`policy.keep_awake`), and giving the setting back (design 5).

1. What the phone's setting was is on disk before it is changed, one file a phone, so that whoever comes after
   a run that was killed can give it back.
2. It is given back when the run ends, by the next run on this phone, and by `recover`. A setting that is on
   already is nobody's to change.
3. All of it is a courtesy: a phone that refuses, or a file that cannot be written, costs the run nothing but
   the lit screen.
"""

from __future__ import annotations

import json
from contextlib import ExitStack
from pathlib import Path
from typing import Final

from hibor.collect.services import Services
from hibor.device.errors import DeviceError
from hibor.durable import DurableError
from hibor.reading import read_kept

NAMESPACE: Final = "global"
KEY: Final = "stay_on_while_plugged_in"
MODE: Final = "true"
OFF: Final = "0"


def awake_path(library_root: Path, serial_hash: str) -> Path:
    """Where it is noted how the phone's setting was before a run changed it."""
    return library_root / f"keep-awake-{serial_hash}.json"


def keep_awake(services: Services, serial_hash: str, stack: ExitStack, *, wanted: bool) -> None:
    """Give back what a killed run left; then, where it is `wanted`, keep the screen on until `stack` ends."""
    give_back(services, serial_hash)
    if not wanted:
        return
    path = awake_path(services.library.root, serial_hash)
    device = services.require_device()
    try:
        before = device.setting(NAMESPACE, KEY) or OFF
        if before != OFF or path.exists():
            return  # it stays on by itself, or nobody could say what to give back
        values = {"schema_version": 1, "at": services.stamp(), "before": before}
        services.durable.write_once(path, (json.dumps(values) + "\n").encode(), step="awake.write")
        stack.callback(give_back, services, serial_hash)
        device.keep_awake(MODE)
    except (DeviceError, DurableError, OSError) as error:
        services.log.warning("the phone's screen is not kept on: %s", error)


def give_back(services: Services, serial_hash: str) -> bool:
    """Put the setting back as it was before a run changed it; False where there is nothing to give back."""
    path = awake_path(services.library.root, serial_hash)
    try:
        before = str(json.loads(read_kept(path))["before"])
    except FileNotFoundError:
        return False
    except (OSError, ValueError, KeyError, TypeError):
        before = OFF  # cut short while it was written; only ever written where the setting was off
    device = services.require_device()
    try:
        if (device.setting(NAMESPACE, KEY) or OFF) != before:
            device.put_setting(NAMESPACE, KEY, before)
        return services.durable.remove(path, step="awake.remove")
    except (DeviceError, DurableError, OSError) as error:
        services.log.warning("the phone's screen setting could not be given back yet: %s", error)
        return False
