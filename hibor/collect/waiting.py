"""`--wait`: wait for the phone to come online and be unlocked, before the window starts (design 1).

Only states a person ends by plugging in or unlocking are waited for. Nothing is tapped and the screen is not
woken.
"""

from __future__ import annotations

from typing import Final

from hibor.collect.station import Station
from hibor.device.errors import DeviceError
from hibor.people.progress import Progress

WAITED_FOR: Final = frozenset(
    {"server_unreachable", "device_offline", "device_unauthorized", "link_lost", "device_locked"}
)
POLL_S: Final = 5.0
SAY_EVERY_S: Final = 60.0


def wait_for_phone(station: Station, wait_s: float, progress: Progress) -> None:
    """Return when the phone is usable or `wait_s` seconds have passed; preflight then says what is wrong."""
    clock = station.clock
    begun_s = clock.monotonic_s()
    said_s = float("-inf")
    while True:
        trouble = _trouble(station)
        now_s = clock.monotonic_s()
        left_s = begun_s + wait_s - now_s
        if trouble is None or trouble.failure not in WAITED_FOR or left_s <= 0:
            return
        if now_s - said_s >= SAY_EVERY_S:
            progress.say("waiting", detail=trouble.detail, failure=trouble.failure, left_s=left_s)
            said_s = now_s
        clock.sleep(min(POLL_S, left_s))


def _trouble(station: Station) -> DeviceError | None:
    try:
        focus = station.open_device().focus()
    except DeviceError as error:
        return error
    return DeviceError("device_locked", "the phone is locked") if focus.locked else None
