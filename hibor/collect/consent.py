"""What a person confirms before anything is done: the first use of a real phone with a library, once and on
record (design 1), and each further download of a report that is paid for (design 4)."""

from __future__ import annotations

import json
import sys
from collections.abc import Collection
from pathlib import Path
from typing import Any

import attrs

from hibor.clock import SystemClock
from hibor.collect.belonging import practice_record
from hibor.collect.preflight import library_of
from hibor.collect.station import Station
from hibor.collect.stops import RunStop, unusable
from hibor.device.errors import DeviceError
from hibor.durable import Durable, DurableError
from hibor.durable_fs import OsFileSystem
from hibor.locks import Locks
from hibor.package.layout import Library
from hibor.package.manifest import Manifest, ManifestInvalid
from hibor.people.progress import Progress
from hibor.quota.errors import LedgerInvalid
from hibor.quota.events import RELEASED
from hibor.quota.reading import LedgerReading
from hibor.task import Task

STEPS = frozenset({"library.folder", "library.consent"})
PRACTISED = {"schema_version": 1, "model": None, "phone": "practice", "by": "start"}
"""What is on record of a library that the practice phone was used with."""


def require_consent(station: Station, task: Task, progress: Progress, *, assume_yes: bool) -> Station:
    """Ask once for a real phone; the station then carries what was confirmed. Raises RunStop when nobody
    confirms.
    """
    if station.simulated:
        return station
    try:
        device = station.open_device()
        model = device.properties("ro.product.model")["ro.product.model"]
    except DeviceError as error:
        raise RunStop(error.failure, error.detail) from error
    mark = device.identity.mark
    if _record_of(library_of(task), mark).is_file():
        return station
    if not assume_yes and not _confirmed(progress, model):
        raise RunStop(
            "task_invalid",
            "the first use of a phone is confirmed once: run again and type yes, or give --yes",
        )
    by = "option" if assume_yes else "answer"
    return attrs.evolve(station, consent={"schema_version": 1, "model": model, "phone": mark, "by": by})


def note_first_use(station: Station, library: Library) -> None:
    """Keep on record whose phone a library was used with: what was confirmed of a real one, and that it was
    the practice phone, so that no real one is by mistake.

    The caller holds the library's lock: who is refused the library writes nothing. Raises RunStop where it
    cannot be written.
    """
    consent = PRACTISED if station.simulated else station.consent
    if consent is not None and not (record := _record_of(library, str(consent["phone"]))).is_file():
        _record(record, dict(consent))


def _record_of(library: Library, phone: str) -> Path:
    return practice_record(library).with_name(f"{phone}.json")


def confirm_retrigger(
    task: Task, reports: Collection[str], progress: Progress, *, simulated: bool, assume_yes: bool
) -> None:
    """Show what is known of each report that is to be downloaded once more, and ask.

    Of a report that is delivered is said where it is: it is not downloaded again. Nobody is asked on a
    simulated phone, and for a report that was never paid for nothing is shown. Raises RunStop when nobody
    confirms. A ledger or manifest in doubt is for the run itself to say.
    """
    library = library_of(task)
    path = library.ledger(task.account)
    delivered = _delivered(library, reports) if reports else {}
    for report, file in sorted(delivered.items()):
        progress.warn("retrigger_delivered", report=report, file=file)
    asked = sorted(set(reports) - delivered.keys())
    if not asked or not path.is_file():
        return
    try:
        ledger = LedgerReading(path, task.account, [])
    except LedgerInvalid:
        return
    paid = {report: ledger.history(report) for report in asked}
    before = [view for views in paid.values() for view in views if view.quota_state != RELEASED]
    for view in before:
        artifact = view.artifact
        progress.warn(
            "retrigger_before",
            report=view.reservation.report_id,
            day=view.reservation.day,
            quota=view.quota_state,
            file="-" if artifact is None else artifact.data.get("path") or artifact.type,
        )
    if before and not simulated and not assume_yes and not _said_yes(progress, "retrigger_ask"):
        raise RunStop(
            "task_invalid",
            "downloading a paid report again is confirmed: run again and type yes, or give --yes",
        )


def _delivered(library: Library, reports: Collection[str]) -> dict[str, str]:
    """The reports whose file is in the library with the size on record, and where."""
    durable = Durable(OsFileSystem(), SystemClock(), frozenset())
    found: dict[str, str] = {}
    try:
        rows = Manifest(library.manifest, durable, Locks(durable, SystemClock())).rows()
        for row in rows:
            if row.report_id in reports and row.final_path is not None:
                facts = durable.stat(library.absolute(row.final_path))
                found.pop(row.report_id, None)
                if facts is not None and facts.st_size == row.bytes:
                    found[row.report_id] = row.final_path
    except (ManifestInvalid, DurableError, OSError, ValueError):
        return {}
    return found


def _confirmed(progress: Progress, model: str) -> bool:
    return _said_yes(progress, "consent", model=model)


def _said_yes(progress: Progress, question: str, **facts: str) -> bool:
    """Ask on the terminal; where there is none nobody said yes."""
    if not sys.stdin.isatty():
        return False
    progress.warn(question, **facts)
    return sys.stdin.readline().strip().lower() == "yes"


def _record(path: Path, values: dict[str, Any]) -> None:
    clock = SystemClock()
    durable = Durable(OsFileSystem(), clock, STEPS)
    values["at"] = clock.now().isoformat(timespec="milliseconds")
    try:
        durable.make_folders(path.parent, step="library.folder")
        durable.write_once(
            path, (json.dumps(values, ensure_ascii=False) + "\n").encode(), step="library.consent"
        )
    except DurableError as error:
        raise unusable("the library", path.parent.parent, error) from error
