"""The first use of a real phone with a library is confirmed by a person, once, and recorded (design 1)."""

from __future__ import annotations

import hashlib
import json
import sys
from pathlib import Path
from typing import Any

from hibor.clock import SystemClock
from hibor.collect.preflight import library_of
from hibor.collect.station import Station
from hibor.collect.stops import RunStop
from hibor.device.errors import DeviceError
from hibor.durable import Durable, DurableError
from hibor.durable_fs import OsFileSystem
from hibor.people.progress import Progress
from hibor.task import Task

STEPS = frozenset({"library.folder", "library.consent"})


def require_consent(station: Station, task: Task, progress: Progress, *, assume_yes: bool) -> None:
    """Ask once for a phone. Raises RunStop when nobody confirms; the record is a file of its own for each
    phone.
    """
    try:
        device = station.open_device()
        model = device.properties("ro.product.model")["ro.product.model"]
    except DeviceError as error:
        raise RunStop(error.failure, error.detail) from error
    mark = hashlib.sha256(device.identity.serialno.encode()).hexdigest()[:16]
    record = library_of(task).root / "consent" / f"{mark}.json"
    if record.is_file():
        return
    if not assume_yes and not _confirmed(progress, model):
        raise RunStop(
            "task_invalid",
            "the first use of a phone is confirmed once: run again and type yes, or give --yes",
        )
    _record(
        record,
        {"schema_version": 1, "model": model, "phone": mark, "by": "option" if assume_yes else "answer"},
    )


def _confirmed(progress: Progress, model: str) -> bool:
    if not sys.stdin.isatty():
        return False
    progress.warn("consent", model=model)
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
        raise RunStop("task_invalid", f"the library cannot be used: {error}") from error
