"""A library with one run's means over it, on a recorded disk and a warm simulated phone.

Rules of this file:
- The phone is a real simulated phone behind a real adb server. Two are kept warm: `served` is the one items
  were
  downloaded on, `untouched` shows the same reports and was never tapped.
- The wall clock stands still and waiting takes a fraction of a second, so that the same disk gives the same
  bytes.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path

import attrs

from fsm import FinalFile, Tables
from generated.ledger import AUTOMATON
from generated.steps import STEPS
from hibor.clock import Clock, SystemClock
from hibor.collect.deadline import Deadline
from hibor.collect.feed import entry_of
from hibor.collect.services import Pacer, Services
from hibor.device.adb import AdbDevice, AdbServer, choose_device
from hibor.device.navigate import App
from hibor.device.profile import load_profile
from hibor.device.profile_types import Profile
from hibor.durable import Durable
from hibor.durable_fs import FileSystem, OsFileSystem
from hibor.items.catalogue import CatalogueEntry
from hibor.items.draft import ItemJob
from hibor.items.item import ItemRun
from hibor.items.phone_cache import PhoneCache
from hibor.locks import Locks
from hibor.package.layout import Library, item_id
from hibor.package.manifest import Manifest
from hibor.package.names import final_relative_path
from hibor.quota.family import Automaton
from hibor.quota.ledger import Ledger
from hibor.sim.process import RunningPhone, start_phone
from hibor.sim.server import PrivateAdbServer, ServerError
from hibor.sim.truth import read_truth
from hibor.task import QuotaTask, Task

ACCOUNT = "team-a"
SCALE = 60.0
FIRST_RUN = "20261130T010000Z-00000a"
NEXT_RUN = "20261201T010000Z-00000b"
_SHIPPED = load_profile("hibor-sim-1")
PROFILE: Profile = attrs.evolve(_SHIPPED, cache=attrs.evolve(_SHIPPED.cache, timeout_s=45.0))
"""The shipped profile, less patient where a file never comes."""

QUICK = """
description = "Everything answers at once; each report has its own fault."
[pace]
dump_s = 0.02
tap_s = 0.01
inject_s = 0.005
start_s = 0.05
load_s = 0.02
prepare_min_s = 0.5
prepare_max_s = 0.5
[feed]
reports = 80
pinned = []
notices = []
adverts_every = 0
[quota]
limit = 1000
"""


@attrs.frozen
class StillClock:
    """A wall clock that stands still at `at`; waiting and measuring go on, `scale` times as fast as real
    time.
    """

    at: datetime
    scale: float = SCALE

    def now(self) -> datetime:
        """Always the same moment."""
        return self.at

    def monotonic_s(self) -> float:
        """Scaled seconds."""
        return SystemClock().monotonic_s() * self.scale

    def sleep(self, wait_s: float) -> None:
        """Wait scaled seconds."""
        SystemClock().sleep(wait_s / self.scale)


@attrs.define
class Phone:
    """One warm phone and the driver on it."""

    server: PrivateAdbServer
    process: RunningPhone
    device: AdbDevice
    app: App
    scenario: Path

    @property
    def served(self) -> dict[str, int]:
        """How often each report was charged for."""
        counts: dict[str, int] = {}
        for event in read_truth(self.process.state_dir / "truth.jsonl"):
            if event.event == "served" and event.report_id is not None:
                counts[event.report_id] = counts.get(event.report_id, 0) + 1
        return counts

    @property
    def trigger_taps(self) -> int:
        """How often a control that leads to a download was really tapped."""
        events = read_truth(self.process.state_dir / "truth.jsonl")
        return sum(
            event.event == "tap" and event.detail.endswith((" btn_download", " dialog_ok"))
            for event in events
        )


@contextmanager
def warm_phone(server: PrivateAdbServer, folder: Path, scenario: str) -> Iterator[Phone]:
    """A phone that plays `scenario`, connected to `server`."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "scenario.toml"
    path.write_text(scenario, encoding="utf-8")
    with start_phone(folder / "state", path, SCALE) as process:
        address = f"127.0.0.1:{process.port}"
        server.connect(address)
        try:
            yield attach(server, process, path)
        finally:
            with suppress(ServerError):
                server.disconnect(address)


def attach(server: PrivateAdbServer, process: RunningPhone, scenario: Path) -> Phone:
    """The driver on a running phone."""
    adb = AdbServer("127.0.0.1", server.port)
    clock = process.clock()
    device = AdbDevice(adb, choose_device(adb, process.serial), clock=clock)
    return Phone(server, process, device, App(device, PROFILE, clock), scenario)


def feed_of(phone: Phone, count: int) -> list[CatalogueEntry]:
    """The newest `count` reports of the phone's list."""
    phone.app.open_app()
    rows, found = phone.app.to_list_top().rows, dict[str, CatalogueEntry]()
    while len(found) < count:
        for row in rows:
            entry = entry_of(row) if row.kind == "report" and not row.incomplete else None
            if entry is not None:
                found.setdefault(entry.report_id, entry)
        following = phone.app.next_screen()
        if following.end and not following.new_rows:
            break
        rows = following.new_rows
    return list(found.values())


@attrs.define
class World:
    """A library in `root` and the means of one run over it."""

    services: Services
    stack: ExitStack

    def item(self, entry: CatalogueEntry, source: str, index: int = 1, **more: object) -> ItemRun:
        """A fresh item of this run."""
        services = self.services
        lane = "NEW_TRIGGER" if source == "NEW_TRIGGER" else "PURE_REUSE"
        copy = more.get("copy")
        path = final_relative_path(entry.date, entry.institution, entry.title, entry.report_id)
        job = ItemJob(
            index=index,
            item_id=item_id(services.run_id, entry.report_id, source),
            run_id=services.run_id,
            source=source,
            lane=lane,
            entry=entry,
            final_path=copy.path if isinstance(copy, FinalFile) else path,
            **more,  # type: ignore[arg-type]
        )
        return ItemRun(job, services)

    def close(self) -> None:
        """Forget the library."""
        self.stack.close()


def open_world(
    root: Path,
    phone: Phone | None,
    at: datetime,
    *,
    fs: FileSystem | None = None,
    run_id: str = NEXT_RUN,
    limit: int = 500,
    deadline_s: float = 100_000.0,
    clock: Clock | None = None,
    account: str = ACCOUNT,
    lock_clock: Clock | None = None,
    spacing_s: float = 0.0,
) -> World:
    """The means of a run over the library in `root`. Raises LedgerInvalid when the ledger is in doubt.

    `lock_clock`: whose seconds a wait for a lock is counted in; the machine's own if none is given.
    """
    stack = ExitStack()
    clock = clock or StillClock(at)
    durable = Durable(fs or UnsyncedDisk(), SystemClock(), frozenset(STEPS))
    library = Library(root)
    locks = Locks(durable, lock_clock or SystemClock())
    task = Task(library=str(root), account=account, quota=QuotaTask(limit=limit), lang="en")
    services = Services(
        run_id=run_id,
        tables=Tables.default(),
        clock=clock,
        deadline=Deadline(clock, deadline_s, 20.0),
        durable=durable,
        library=library,
        manifest=Manifest(library.manifest, durable, locks),
        task=task,
        quota_limit=limit,
        day="2026-11-30",
        pacer=Pacer(clock, spacing_s),
    )
    services.day = services.calendar.day(clock.now())
    services.started_at = services.stamp()
    for folder in (library.runs, library.reports, library.ledger_folder(account)):
        durable.make_folders(folder, step="library.folder")
    services.manifest.move_unfinished(step="tail.move")
    services.ledger = Ledger.open(
        library.ledger(account),
        account,
        durable=durable,
        locks=locks,
        clock=clock,
        automaton=Automaton(AUTOMATON),
        calendar=services.calendar,
    )
    stack.callback(services.ledger.close)
    if phone is not None:
        services.device, services.profile, services.app = phone.device, PROFILE, phone.app
        services.cache = PhoneCache(phone.device, PROFILE)
    return World(services, stack)


class UnsyncedDisk(OsFileSystem):
    """The real disk, where fsync costs nothing: these tests cut no real power."""

    def fsync(self, descriptor: int) -> None:
        """Nothing."""

    def fsync_dir(self, path: Path) -> None:
        """Nothing."""


def moment() -> datetime:
    """A moment well inside a quota day, today."""
    return datetime.now(UTC).replace(hour=4, minute=0, second=0, microsecond=0)
