"""The checks of the phone itself, in order: adb, phone, switches, app, storage, clocks, battery.

Rules of this file: a check adds its rows; `Stop` ends the examination, because what follows rests on it. The
one input sent is a key no app reacts to, as in every run's preflight.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import attrs

from generated.governance import GUARD_RAILS
from hibor.collect.preflight import KEY_HARMLESS, shipped
from hibor.collect.walked import has_walked
from hibor.device.adb import choose_device, list_devices, server_version
from hibor.device.adb_binary import adb_binary
from hibor.device.errors import DeviceError
from hibor.device.navigate import KEY_WAKEUP
from hibor.device.profile import ProfileError, find_shipped, load_profile
from hibor.doctor.case import Case
from hibor.doctor.ports import port_holder
from hibor.doctor.rows import Stop
from hibor.quota.day import check_phone_clock
from hibor.quota.errors import QuotaError

BRANDS: Final = (
    ("xiaomi", ("xiaomi", "redmi", "poco")), ("vivo", ("vivo", "iqoo")),
    ("oppo", ("oppo", "oneplus", "realme")), ("huawei", ("huawei", "honor")),
)  # fmt: skip
LEAST_SCREEN_TIMEOUT_S: Final = 600
APP_FAILURES: Final = ("package_missing", "package_cloned")


def check_adb(case: Case) -> None:
    """The adb program, the server, and who holds its port."""
    server = case.station.server
    try:
        adb_binary()
    except FileNotFoundError:
        case.add("adb_program", "warn", "adb_missing", fix="adb_missing")
    holder = port_holder(server.port) or case.words("doctor.said.unknown_holder")
    try:
        version = server_version(server)
    except DeviceError as error:
        why = case.why(error)
        row = case.add(
            "adb", "fail", "adb_silent", fix="server_unreachable", why=why, port=server.port, holder=holder
        )
        raise Stop(row) from error
    case.add("adb", "ok", "adb", version=version, port=server.port, holder=holder)


def check_device(case: Case) -> None:
    """One phone, named and online."""
    station = case.station
    try:
        if not station.simulated and station.serial is None:
            serial = choose_device(station.server, None)
            raise Stop(case.add("device", "fail", "not_named", fix="not_named", serial=serial))
        device = station.open_device()
        facts = device.properties("ro.product.model", "ro.build.version.release")
    except DeviceError as error:
        row = case.failed("device", error, fix="device_offline", ends=False)
        _list_transports(case)
        raise Stop(row) from error
    case.device, case.model = device, facts["ro.product.model"]
    release = facts["ro.build.version.release"]
    simulated = case.words("doctor.said.simulated") if station.simulated else ""
    case.add("device", "ok", "device", model=case.model, release=release, simulated=simulated)


def _list_transports(case: Case) -> None:
    try:
        entries = list_devices(case.station.server)
    except DeviceError:
        return
    listed = ", ".join(f"{entry.serial} ({entry.state})" for entry in entries) or "-"
    case.add("transports", "warn", "transports", listed=listed)


def check_screen(case: Case) -> None:
    """Awake and unlocked; a screen that is only off is woken, as a run does it."""
    device = case.require_device()
    try:
        focus = device.focus()
        if not focus.awake:
            device.key(KEY_WAKEUP)
            focus = device.focus()
    except DeviceError as error:
        raise Stop(case.failed("screen", error, fix="device_offline")) from error
    if focus.locked or not focus.awake:
        raise Stop(case.add("screen", "fail", "locked", fix="locked"))
    size = device.screen()
    case.add("screen", "ok", "screen", width=size.width, height=size.height)


def check_switches(case: Case) -> None:
    """Input from adb, and what turns the screen off in the middle of a run."""
    device = case.require_device()
    try:
        result = device.key(KEY_HARMLESS)
        if not result.accepted:
            row = case.add("input", "fail", "input_blocked", said=(result.refusal or "")[:120])
            case.rows[-1] = attrs.evolve(row, fix=input_fix(case))
        else:
            case.add("input", "ok", "input")
        timeout_s = _whole(device.setting("system", "screen_off_timeout")) // 1000
        kept_on = device.setting("global", "stay_on_while_plugged_in") not in (None, "", "0")
    except DeviceError as error:
        case.failed("input", error, fix="device_offline")
        return
    if kept_on or timeout_s >= LEAST_SCREEN_TIMEOUT_S:
        case.add("screen_off", "ok", "screen_stays")
    else:
        case.add("screen_off", "warn", "screen_goes", fix="screen_goes", timeout_s=timeout_s)


def _whole(text: str | None) -> int:
    return int(text) if text and text.isdigit() else 0


def input_fix(case: Case) -> str:
    """Where this maker hides the switch for input from adb; all makers' menus where the maker is unknown."""
    try:
        facts = case.require_device().properties("ro.product.manufacturer", "ro.product.brand")
    except DeviceError:
        facts = {}
    maker = " ".join(facts.values()).lower()
    known = [name for name, marks in BRANDS if any(mark in maker for mark in marks)]
    names = known or [name for name, _marks in BRANDS]
    lines = [case.words(f"doctor.menus.{name}") for name in names]
    return " ".join([case.words("doctor.fixes.input_blocked"), *lines])


def check_app(case: Case) -> None:
    """The app, its version, and the profile that describes it."""
    device = case.require_device()
    try:
        profiles = [load_profile(case.profile_named)] if case.profile_named else shipped()
    except ProfileError as error:
        raise Stop(
            case.add("profile", "fail", "profile_faults", fix="profile_faults", faults=error)
        ) from error
    missing: DeviceError | None = None
    for profile in profiles:
        try:
            case.package = device.package(profile.app.package)
        except DeviceError as error:
            missing = error
            continue
        version = case.package.version_name
        chosen = profile if case.profile_named else find_shipped(profile.app.package, version) or profile
        case.profile = chosen
        break
    if case.profile is None or case.package is None:
        assert missing is not None
        fix = missing.failure if missing.failure in APP_FAILURES else "device_offline"
        raise Stop(case.failed("package", missing, fix=fix))
    case.add("package", "ok", "package", name=case.package.name, version=case.package.version_name)
    if case.package.other_users:
        case.add("package_copies", "warn", "package_copies", fix="package_copies")
    _check_version(case)


def _check_version(case: Case) -> None:
    profile, package = case.require_profile(), case.package
    assert package is not None
    facts: dict[str, Any] = {"profile": profile.name, "version": package.version_name}
    if profile.supports(package.version_name):
        case.add("profile", "ok", "profile", **facts)
    elif case.library is not None and has_walked(
        case.library.root, profile_sha256=profile.sha256, app_version=package.version_name, model=case.model
    ):
        case.add("profile", "ok", "profile_walked", **facts)
    else:
        case.add("profile", "warn", "profile_untested", fix="profile_untested", **facts)


def check_storage(case: Case) -> None:
    """Each cache folder under both names of the shared storage."""
    cache = case.require_profile().cache
    for folder, names in zip(cache.folders, cache.paths(), strict=True):
        found = [_look_into(case, name) for name in names]
        counts = [count for count in found if isinstance(count, int)]
        if counts:
            route = case.words(f"doctor.said.{'by_export' if cache.acquire == 'export' else 'by_cache'}")
            case.add("storage", "ok", "storage", about=folder, count=max(counts), route=route)
        elif any(error.failure != "remote_vanished" for error in found if isinstance(error, DeviceError)):
            error = next(one for one in found if isinstance(one, DeviceError))
            case.failed("storage", error, fix="cache_unreadable", about=folder)
        else:
            case.add("storage", "warn", "storage_absent", fix="storage_absent", about=folder)


def _look_into(case: Case, path: str) -> int | DeviceError:
    """How many files the folder shows, or why it cannot be read."""
    try:
        return sum(entry.kind == "file" for entry in case.require_device().list(path).entries)
    except DeviceError as error:
        return error


def check_clocks(case: Case) -> None:
    """This computer's clock against the phone's."""
    try:
        phone = case.require_device().now()
        host = case.clock.now()
        check_phone_clock(host, phone)
    except QuotaError:
        apart_s = abs((host - phone).total_seconds())
        case.add("clocks", "fail", "clocks_apart", fix="clocks_apart", apart_s=apart_s)
        return
    except DeviceError as error:
        case.failed("clocks", error, fix="clocks_apart")
        return
    case.add("clocks", "ok", "clocks", apart_s=abs((host - phone).total_seconds()))


def check_battery(case: Case) -> None:
    """Enough charge, and cool enough, for new downloads."""
    try:
        battery = case.require_device().battery()
    except DeviceError as error:
        case.failed("battery", error, status="warn")
        return
    facts: dict[str, Any] = {"level": battery.level_percent, "heat_c": battery.temperature_c}
    least, hottest = GUARD_RAILS["battery_least_percent"], GUARD_RAILS["battery_hottest_c"]
    if battery.level_percent >= least and battery.temperature_c <= hottest:
        case.add("battery", "ok", "battery", **facts)
    else:
        case.add(
            "battery", "warn", "battery_unfit", fix="battery_unfit", least=least, hottest=hottest, **facts
        )


PHONE_CHECKS: Final[tuple[Callable[[Case], None], ...]] = (
    check_adb, check_device, check_screen, check_switches,
    check_app, check_storage, check_clocks, check_battery,
)  # fmt: skip
NEEDS_PROFILE: Final = (check_app, check_storage)
"""Checks of the profile, which a drafted one takes the place of."""
