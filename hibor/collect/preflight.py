"""What must hold before anything is reserved (design 1 step 2, design 5 "Preflight on the phone").

In this order: library usable and ours alone, ledger verified, phone online and known, app installed, clocks
agree,
cache readable, input allowed, app on its list. Each failure is a `RunStop` with its code; none leaves
anything
reserved.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import attrs

from generated.governance import GUARD_RAILS
from generated.ledger import AUTOMATON
from generated.steps import STEPS
from hibor.clock import Clock, SystemClock
from hibor.collect.services import Services
from hibor.collect.station import Station
from hibor.collect.stops import RunStop, unusable
from hibor.collect.walked import has_walked
from hibor.device.errors import DeviceError
from hibor.device.navigate import App
from hibor.device.patient import PatientDevice
from hibor.device.profile import Profile, ProfileError, find_shipped, load_profile, shipped_profiles
from hibor.device.protocol import Device, PackageInfo
from hibor.durable import Durable, DurableError
from hibor.durable_fs import OsFileSystem
from hibor.items.phone_cache import PhoneCache
from hibor.locks import Locks, LockTimeout, LockUnusable, Takeover, lock_self_test
from hibor.package.layout import Library
from hibor.package.manifest import ManifestInvalid
from hibor.quota.day import QuotaCalendar, check_host_clock, check_phone_clock
from hibor.quota.errors import LedgerInvalid, QuotaError
from hibor.quota.family import Automaton
from hibor.quota.ledger import Ledger
from hibor.quota.noted import accounts_served, known_heads
from hibor.task import Task

KEY_HARMLESS = (
    0  # KEYCODE_UNKNOWN: no app reacts to it, and a phone that forbids input refuses it all the same
)
_MANIFEST_BACK = "put manifest.jsonl back from a backup; the PDFs and the ledger are not affected"


@attrs.frozen
class PhoneFacts:
    """What the run tells about its phone. `serial_hash` stands for the serial, which is never told."""

    model: str
    fingerprint: str
    app_version: str
    serial_hash: str
    profile: Profile
    version_supported: bool
    battery_ok: bool


def open_library(task: Task, durable: Durable, stack: ExitStack) -> tuple[Library, Takeover | None]:
    """Make the library's folder, prove that locks work and publishing never replaces, take the library's
    lock.
    """
    library = library_of(task)
    try:
        durable.make_folders(library.root, step="library.folder")
    except (DurableError, OSError) as error:
        raise unusable("the library", library.root, error) from error
    locks = Locks(durable, SystemClock())
    try:
        lock = locks.library(library.root)
        takeover = lock.acquire()
    except LockTimeout as error:
        raise RunStop("BUSY", f"another run holds this library: {error}") from error
    except LockUnusable as error:
        raise unusable("the library", library.root, error) from error
    stack.callback(lock.release)
    try:
        lock_self_test(library.root, durable)
        durable.make_folders(library.runs, step="library.folder")
        durable.make_folders(library.reports, step="library.folder")
        durable.probe_publish(library.runs, library.reports, step="library.probe")
    except (DurableError, LockUnusable, OSError) as error:
        raise unusable("the library", library.root, error) from error
    return library, takeover


def library_of(task: Task) -> Library:
    """The task's library with its ledger folder."""
    ledger_dir = task.ledger_path if task.policy.ledger_dir else None
    return Library(task.library_path, ledger_dir)


@contextmanager
def checked_ledger(task: Task, library: Library, durable: Durable, clock: Clock) -> Iterator[None]:
    """Verify an existing ledger before anything at all is written (ruling R28); the block takes the library.

    What was verified goes into the ledger's index once the library is ours: who is refused it writes nothing.
    The heads that a library's runs have noted are those of one ledger, so a library serves one account.
    """
    ledger = _existing_ledger(task, library, durable, clock) if library.root.is_dir() else None
    ours = False
    try:
        yield
        ours = True
    finally:
        if ledger is not None:
            ledger.close(save_index=ours)


def _existing_ledger(task: Task, library: Library, durable: Durable, clock: Clock) -> Ledger | None:
    path = library.ledger(task.account)
    served = accounts_served(library)
    if served and task.account not in served:
        owner = ", ".join(sorted(served))
        detail = f"this library keeps the books of account {owner}; account {task.account} needs another one"
        raise RunStop("task_invalid", detail)
    if not path.parent.is_dir():
        if any(head.count for head in known_heads(library, durable)):
            raise RunStop("ledger_invalid", "the ledger this library knows of is gone")
        return None
    return open_ledger(task, library, durable, clock, save_index=False)


def open_ledger(
    task: Task,
    library: Library,
    durable: Durable,
    clock: Clock,
    calendar: QuotaCalendar | None = None,
    *,
    save_index: bool = True,
) -> Ledger:
    """Open and verify the account's ledger. Raises RunStop QUOTA_LEDGER_INVALID (27) when it is in doubt."""
    system = SystemClock()
    try:
        return Ledger.open(
            library.ledger(task.account),
            task.account,
            durable=durable,
            locks=Locks(durable, system),
            clock=clock,
            automaton=Automaton(AUTOMATON),
            calendar=calendar,
            known_heads=known_heads(library, durable),
            save_index=save_index,
        )
    except LedgerInvalid as error:
        raise RunStop("ledger_invalid", str(error)) from error
    except LockUnusable as error:
        raise unusable("the ledger's folder", library.ledger_folder(task.account), error) from error
    except LockTimeout as error:
        raise RunStop("lock_timeout", str(error)) from error
    except DurableError as error:
        raise unusable("the ledger", library.ledger(task.account), error) from error


def open_phone(station: Station, task: Task, services: Services) -> PhoneFacts:
    """Reach the phone and the app, fill in the services' phone part. Raises RunStop; opens nothing in the app
    yet.
    """
    try:
        device = PatientDevice(station.open_device(), services.clock)
        profile, package = _profile_and_app(task, device)
        facts = _facts(device, profile, package, services.library)
        services.device, services.profile = device, profile
        services.calendar = QuotaCalendar(profile.quota.zone)
        services.cache = PhoneCache(device, profile)
        check_phone_clock(services.clock.now(), device.now())
        if services.ledger is not None:
            check_host_clock(services.clock.now(), services.ledger.last_at)
        services.app = App(device, profile, services.clock)
        return facts
    except DeviceError as error:
        raise RunStop(error.failure, error.detail) from error
    except QuotaError as error:
        raise RunStop(error.failure, str(error)) from error
    except ProfileError as error:
        raise RunStop("task_invalid", str(error)) from error


def library_disk() -> Durable:
    """Durable operations with all registered steps."""
    return Durable(OsFileSystem(), SystemClock(), frozenset(STEPS))


def open_list(station: Station, task: Task) -> App:
    """Reach the phone and bring the app's list onto the screen, for a command that only reads it."""
    device = station.open_device()
    try:
        profile, _package = _profile_and_app(task, device)
    except ProfileError as error:
        raise RunStop("task_invalid", str(error)) from error
    app = App(device, profile, station.clock)
    app.open_app()
    return app


def require_input(services: Services) -> None:
    """Prove with a key no app reacts to that the phone takes input from adb."""
    result = services.require_device().key(KEY_HARMLESS)
    if not result.accepted:
        raise DeviceError(
            "input_blocked", f"the phone refuses input from adb: {(result.refusal or '')[:120]}"
        )


def _profile_and_app(task: Task, device: Device) -> tuple[Profile, PackageInfo]:
    if task.profile:
        profile = load_profile(_profile_path(task, task.profile))
        return profile, device.package(profile.app.package)
    missing: DeviceError | None = None
    for profile in shipped():
        try:
            package = device.package(profile.app.package)
        except DeviceError as error:
            if error.failure != "package_missing":
                raise
            missing = error
            continue
        return find_shipped(profile.app.package, package.version_name) or profile, package
    raise missing or DeviceError("package_missing", "no app profile is shipped with this program")


def shipped() -> list[Profile]:
    """All shipped profiles."""
    return [load_profile(name) for name in shipped_profiles()]


def _profile_path(task: Task, named: str) -> str | Path:
    beside = task.base / named
    return beside if beside.is_file() else named


def _facts(device: Device, profile: Profile, package: PackageInfo, library: Library) -> PhoneFacts:
    values = device.properties("ro.product.model")
    battery = device.battery()
    return PhoneFacts(
        model=values["ro.product.model"],
        fingerprint=device.identity.fingerprint,
        app_version=package.version_name,
        serial_hash=device.identity.mark,
        profile=profile,
        version_supported=profile.supports(package.version_name)
        or has_walked(
            library.root,
            profile_sha256=profile.sha256,
            app_version=package.version_name,
            model=values["ro.product.model"],
        ),
        battery_ok=battery.level_percent >= GUARD_RAILS["battery_least_percent"]
        and battery.temperature_c <= GUARD_RAILS["battery_hottest_c"],
    )


def check_manifest(services: Services) -> None:
    """Read the manifest; an unfinished last line was never acknowledged and is moved aside."""
    try:
        services.manifest.move_unfinished(step="tail.move")
        services.manifest.rows()
    except ManifestInvalid as error:
        raise RunStop("task_invalid", f"the manifest is damaged: {error}; {_MANIFEST_BACK}") from error
    except (DurableError, LockUnusable) as error:
        raise unusable("the manifest", services.library.manifest, error) from error
