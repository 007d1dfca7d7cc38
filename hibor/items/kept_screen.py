"""What was on the phone's screen when something went wrong, kept beside the item or the run (design 5).

1. A person, or whoever maintains the profile, gets the dump, a picture and the diagnosis in one folder.
2. Keeping it is a courtesy: nothing that fails here costs the item or the run; what is missing is said in
   the text.
3. A folder holds several records (a later run may stop at the same item again), at most `MOST_RECORDS`.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Final

from hibor.device.errors import DeviceError
from hibor.device.evidence import ScreenEvidence, capture
from hibor.durable import DurableError, FileAlreadyThere
from hibor.items.failures import EffectFailure

if TYPE_CHECKING:
    from hibor.collect.services import Services
    from hibor.items.item import ItemRun

UI_FAILURES: Final = frozenset(
    {
        "access_control",
        "already_downloaded",
        "anchor_ambiguous",
        "anchor_drift",
        "cursor_lost",
        "detail_mismatch",
        "device_locked",
        "dialog_open",
        "dump_stale",
        "dump_unreadable",
        "foreign_window",
        "input_blocked",
        "opaque_webview",
        "ui_slot_taken",
    }
)
"""Failure words whose reason can be seen on the screen."""
MOST_RECORDS: Final = 9
STEP: Final = "evidence.write"


def keep_item_screen(item: ItemRun, error: Exception) -> None:
    """Keep the screen an item stopped at, where the reason can be seen; a wall is told to the run as well."""
    if not isinstance(error, (DeviceError, EffectFailure)):
        return
    if item.draft.opened:
        detail = f"{item.machine.node}: {error.detail}"
        keep_failure(item.folder.evidence, item.services, error.failure, detail)
    if error.failure == "access_control":
        item.services.on_outcome(error.failure, error.detail)


def keep_failure(folder: Path, services: Services, failure: str, detail: str) -> bool:
    """Keep the last dump and the screen now, with what went wrong; False where nothing was to be kept."""
    app = services.app
    if failure not in UI_FAILURES or app is None:
        return False
    tree = app.last_tree
    if tree is not None:
        age_s = app.looker.age_s(tree)
        return keep_screen(folder, services, failure, detail, capture(app.device, tree), age_s=age_s)
    try:
        picture = app.device.screenshot()
    except DeviceError as error:
        return _write(folder, services, _words(failure, detail, f"no picture: {error}"), {})
    return _write(folder, services, _words(failure, detail, "no dump could be read"), {"screen.png": picture})


def keep_screen(
    folder: Path, services: Services, failure: str, detail: str, seen: ScreenEvidence, *, age_s: float = 0.0
) -> bool:
    """Keep dump and picture of one screen."""
    files = {"screen.xml": seen.dump}
    said = [f"dump: sha256 {seen.dump_sha256}, {age_s:.1f} s old"]
    if seen.screenshot is not None:
        files["screen.png"] = seen.screenshot
        said.append(f"picture: sha256 {seen.screenshot_sha256}")
    if seen.note:
        said.append(seen.note if seen.screenshot is not None else f"no picture: {seen.note}")
    return _write(folder, services, _words(failure, detail, *said), files)


def keep_note(folder: Path, services: Services, failure: str, detail: str) -> bool:
    """Keep the words alone, where there is no screen to keep."""
    return _write(folder, services, _words(failure, detail, "no dump could be read"), {})


def _words(failure: str, detail: str, *more: str) -> str:
    return "\n".join((f"failure: {failure}", detail, *more))


def _write(folder: Path, services: Services, text: str, files: dict[str, bytes]) -> bool:
    """Write one record under the first free number; the text comes last: a record with a text is whole."""
    free = (n for n in range(1, MOST_RECORDS + 1) if not (folder / _named("diagnosis.txt", n)).exists())
    number = next(free, None)
    if number is None:
        return False
    text = f"at: {services.stamp()}\n{text}\n"
    try:
        services.durable.make_folders(folder, step=STEP)
        for name, data in {**files, "diagnosis.txt": text.encode()}.items():
            path = folder / _named(name, number)
            try:
                services.durable.write_once(path, data, step=STEP)
            except FileAlreadyThere:
                continue  # of a run that was ended while it wrote this very record
    except (DurableError, OSError) as error:
        services.log.warning("the screen could not be kept: %s", error)
        return False
    return True


def _named(name: str, number: int) -> str:
    """`screen.xml`, then `screen-2.xml`, …"""
    stem, _, end = name.partition(".")
    return name if number == 1 else f"{stem}-{number}.{end}"
