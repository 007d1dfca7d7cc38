"""The record of a passed `doctor --walk`: an untested app version may then be used for new downloads (design
5).

One small file for each (profile, app version, phone model) in the library's `doctor` folder; a changed
profile has to walk again.
"""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

from hibor.durable import Durable, FileAlreadyThere

STEP = "doctor.write"


def walked_path(library: Path, *, profile_sha256: str, app_version: str, model: str) -> Path:
    """Where the record lies."""
    mark = hashlib.sha256("\n".join((profile_sha256, app_version, model)).encode()).hexdigest()[:16]
    return library / "doctor" / f"walked-{mark}.json"


def has_walked(library: Path, *, profile_sha256: str, app_version: str, model: str) -> bool:
    """Whether list, detail page and the way back were walked with this very profile, app version and
    model."""
    path = walked_path(library, profile_sha256=profile_sha256, app_version=app_version, model=model)
    return path.is_file()


def note_walk(
    library: Path, durable: Durable, *, profile_sha256: str, app_version: str, model: str, at: str
) -> None:
    """Record a passed walk; an earlier record stays. Raises `DurableError`."""
    path = walked_path(library, profile_sha256=profile_sha256, app_version=app_version, model=model)
    values = {
        "schema_version": 1, "at": at, "profile_sha256": profile_sha256, "app_version": app_version,
        "model": model,
    }  # fmt: skip
    durable.make_folders(path.parent, step="library.folder")
    try:
        durable.write_once(path, (json.dumps(values, ensure_ascii=False) + "\n").encode(), step=STEP)
    except FileAlreadyThere:
        return
