"""A run as it lies on disk, read for people: the run terminal, each item's package files, what came later.

Rules of this file:

* Nothing is written and no lock is taken; a run that works right now is read as far as it has come.
* A file that is missing or damaged is `None` or empty here, never an exception: the reader sees what there
  is.
* An item belongs to the run that opened it. A later run that finished it lists it as recovered; its folder
  stays the old run's.
* Paths are relative to the library with `/`, as everywhere.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from itertools import zip_longest
from typing import Any, Final

import attrs

from hibor.clock import SystemClock
from hibor.durable import Durable, DurableError
from hibor.durable_fs import OsFileSystem
from hibor.locks import Locks
from hibor.package.journal import JournalInvalid, Record, read_journal
from hibor.package.layout import ItemFolder, Library, RunFolder, is_run_id
from hibor.package.manifest import Manifest, ManifestInvalid, ManifestRow
from hibor.people.commandline import FOUND, Refusal
from hibor.reading import read_object

DELIVERED: Final = ("SUCCESS", "DUPLICATE")
LATEST: Final = "latest"


@attrs.frozen
class StageView:
    """A stretch of an item's time: seconds since the run began, and the lane that worked."""

    state: str
    from_s: float
    to_s: float
    lane: str


@attrs.frozen(kw_only=True)
class ItemView:
    """One item: the public item, and what its folder adds."""

    item: Mapping[str, Any] = attrs.field(hash=False)
    folder: str | None = None
    stages: tuple[StageView, ...] = ()
    closure: str | None = None
    presence: str | None = None
    files: tuple[str, ...] = ()
    detail: str | None = None
    quarantined: str | None = None
    final_there: bool = False
    recovered: bool = False
    row: ManifestRow | None = None

    @property
    def delivered(self) -> bool:
        """Whether the item ended with a file for the reader."""
        return self.item.get("status") in DELIVERED and self.item.get("final_path") is not None

    @property
    def code(self) -> str | None:
        """The code of an item that was not delivered."""
        value = self.item.get("stop_code")
        return str(value) if value else None


@attrs.frozen(kw_only=True)
class RunView:
    """One run: its document, its items in order, and the items of earlier runs that it finished.

    `unread` says why the manifest could not be read, None where it was.
    """

    library: Library
    folder: RunFolder
    document: Mapping[str, Any] = attrs.field(hash=False)
    items: tuple[ItemView, ...] = ()
    recovered: tuple[ItemView, ...] = ()
    unread: Refusal | None = attrs.field(default=None, eq=False)

    @property
    def run_id(self) -> str:
        """The run's id."""
        return self.folder.run_id

    @property
    def status(self) -> str | None:
        """The run's status, None for a run that has not ended."""
        return self.document.get("status")

    @property
    def delivered(self) -> tuple[ItemView, ...]:
        """Items with a file, recovered ones last."""
        return tuple(one for one in (*self.items, *self.recovered) if one.delivered)

    @property
    def missing(self) -> tuple[ItemView, ...]:
        """Items that were wanted and did not come; a report is named once, and not
        when another of its items came.
        """
        had = {one.item.get("report_id") for one in self.delivered}
        found: dict[object, ItemView] = {}
        for one in (*self.items, *self.recovered):
            report = one.item.get("report_id")
            if not one.delivered and report not in had:
                found.setdefault(report, one)
        return tuple(found.values())

    def part(self, name: str) -> Mapping[str, Any]:
        """A table of the document, empty when the run has none."""
        value = self.document.get(name)
        return value if isinstance(value, dict) else {}

    @property
    def not_begun(self) -> int:
        """Reports that were selected and never opened: the run ended, or stopped new downloads, before."""
        opened = {one.item.get("report_id") for one in self.items}
        return max(0, self.selected - len(opened)) if self.status is not None else 0

    @property
    def selected(self) -> int:
        """Reports that were selected."""
        return max(
            int(self.part("counts").get("selected") or 0),
            len({one.item.get("report_id") for one in self.items}),
        )


def reader() -> Durable:
    """A `Durable` without steps: it can read and nothing else."""
    return Durable(OsFileSystem(), SystemClock(), frozenset())


def manifest_rows(library: Library) -> tuple[ManifestRow, ...]:
    """The manifest's rows, oldest first. Raises `Refusal` when it is damaged, DurableError when it cannot be
    read.
    """
    durable = reader()
    try:
        return Manifest(library.manifest, durable, Locks(durable, SystemClock())).rows()
    except ManifestInvalid as error:
        raise Refusal("common.manifest_damaged", exit_code=FOUND, line=error.line) from error


def find_run(library: Library, named: str | None) -> RunFolder:
    """The named run (a unique beginning of its id is enough), or the newest that ended and was no dry run.

    Raises `Refusal`.
    """
    runs = library.run_folders()
    if named is None or named == LATEST:
        real = next((run for run in reversed(runs) if run.run_json.is_file() and not is_dry_run(run)), None)
        if real is None:
            raise _no_run_to_show(library, runs)
        return real
    fitting = [run for run in runs if run.run_id == named] or [
        run for run in runs if run.run_id.startswith(named)
    ]
    if len(fitting) != 1 or not named:
        key = "common.run_ambiguous" if len(fitting) > 1 else "common.no_run"
        raise Refusal(key, run=named, count=len(fitting))
    return fitting[0]


def is_dry_run(run: RunFolder) -> bool:
    """Whether the run made a plan and collected nothing; its document has the plan."""
    return "plan" in (read_object(run.run_json).get("counts") or {})


def _no_run_to_show(library: Library, runs: Sequence[RunFolder]) -> Refusal:
    """Why there is no newest run, and what leads to one."""
    cut_off = [run for run in runs if not run.run_json.is_file()]
    open_items = sum(count_open(run) for run in cut_off)
    facts: dict[str, Any] = {"path": library.root}
    if open_items:
        key, facts["open"] = "common.runs_open", open_items
    elif cut_off:
        key, facts["run"] = "common.runs_settled", cut_off[-1].run_id
        delivered = (item for run in cut_off for item in closed_items(run, delivered=True))
        facts["count"] = len({item.get("report_id") for item in delivered})
    else:
        key = "common.runs_dry" if runs else "common.no_runs"
    return Refusal(key, exit_code=FOUND, **facts)


def count_open(run: RunFolder) -> int:
    """Items of a run that `hibor recover` would still have to settle: begun, and without a terminal."""
    return sum(_begun(folder) for folder in run.item_folders() if not folder.terminal.is_file())


def _begun(folder: ItemFolder) -> bool:
    try:
        return bool(read_journal(folder.journal, reader()).records)
    except (JournalInvalid, DurableError):
        return True  # it cannot be understood, and `recover --list` says so


def closed_items(run: RunFolder, *, delivered: bool = False) -> list[dict[str, Any]]:
    """The items of a run as their own terminals tell them, `delivered` ones alone where that is asked."""
    found = (read_object(item.terminal).get("item") for item in run.item_folders())
    items = [item for item in found if isinstance(item, dict)]
    return [item for item in items if item.get("status") in DELIVERED] if delivered else items


def load_run(library: Library, folder: RunFolder) -> RunView:
    """Read a run and everything that belongs to it."""
    document, unread = read_object(folder.run_json), None
    try:
        rows = {(row.run_id, row.item_id): row for row in manifest_rows(library)}
    except Refusal as refusal:
        rows, unread = {}, refusal
    except DurableError as error:
        rows, unread = {}, Refusal("common.file_trouble", exit_code=FOUND, path=error.path)
    items = [item for item in document.get("items", ()) if isinstance(item, dict)]
    if not document:
        items = closed_items(folder)
    recovered = [item for item in document.get("recovered", ()) if isinstance(item, dict)]
    started = read_time((document.get("timing") or {}).get("started_at"))
    return RunView(
        library=library,
        folder=folder,
        document=document,
        items=tuple(_view(library, item, rows, started) for item in items),
        recovered=tuple(attrs.evolve(_view(library, item, rows, None), recovered=True) for item in recovered),
        unread=unread,
    )


def read_time(text: Any) -> datetime | None:
    """An aware time from ISO text, None for anything else."""
    try:
        moment = datetime.fromisoformat(text)
    except (TypeError, ValueError):
        return None
    return moment if moment.tzinfo is not None else None


def _view(
    library: Library,
    item: Mapping[str, Any],
    rows: Mapping[tuple[str, str], ManifestRow],
    started: datetime | None,
) -> ItemView:
    folder = _folder_of(library, item)
    key = (str(item.get("run_id")), str(item.get("item_id")))
    kept = library.quarantine / f"{key[0]}-{key[1]}.pdf" if is_run_id(key[0]) else None
    return ItemView(
        item=item,
        folder=None if folder is None else library.relative(folder.path),
        stages=() if folder is None else _stages(read_object(folder.timing), started),
        closure=None if folder is None else read_object(folder.terminal).get("closure_variant"),
        presence=None if folder is None else read_object(folder.terminal).get("presence"),
        files=() if folder is None else tuple(_files(library, folder)),
        detail=None if folder is None else _detail(folder),
        quarantined=library.relative(kept) if kept is not None and kept.is_file() else None,
        final_there=_is_file(library, item.get("final_path")),
        row=rows.get(key),
    )


def _folder_of(library: Library, item: Mapping[str, Any]) -> ItemFolder | None:
    try:
        folder = library.run(str(item.get("run_id"))).item(int(item["item_index"]), str(item["item_id"]))
    except (ValueError, KeyError, TypeError):
        return None
    return folder if folder.path.is_dir() else None


def _is_file(library: Library, relative: Any) -> bool:
    try:
        return isinstance(relative, str) and library.absolute(relative).is_file()
    except (ValueError, OSError):
        return False


def _files(library: Library, folder: ItemFolder) -> Iterable[str]:
    """Package files and evidence of an item, in a fixed order."""
    for path in (folder.journal, folder.delivery, folder.timing, folder.terminal):
        if path.is_file():
            yield library.relative(path)
    if folder.evidence.is_dir():
        yield from (library.relative(path) for path in sorted(folder.evidence.iterdir()) if path.is_file())


def records_of(folder: ItemFolder) -> tuple[Record, ...]:
    """The item's journal, empty when it cannot be read."""
    try:
        return read_journal(folder.journal, reader()).records
    except (JournalInvalid, DurableError):
        return ()


def _detail(folder: ItemFolder) -> str | None:
    """The last detail the journal noted about why the item stopped."""
    details = [
        record.data.get("detail")
        for record in records_of(folder)
        if record.event in ("CODE", "CLOSING", "KEPT")
    ]
    return next((str(detail) for detail in reversed(details) if detail), None)


def _stages(timing: Mapping[str, Any], started: datetime | None) -> tuple[StageView, ...]:
    """The item's stretches in seconds since the run's start; a stretch without an end lasts to the next
    one's start.
    """
    began = read_time(timing.get("started_at"))
    shift_s = (began - started).total_seconds() if began is not None and started is not None else 0.0
    views: list[StageView] = []
    stages = [stage for stage in timing.get("stages", ()) if isinstance(stage, dict)]
    for stage, following in zip_longest(stages, stages[1:]):
        try:
            from_s = float(stage["entered_s"])
            end = (
                stage["left_s"] if stage["left_s"] is not None else (following or {}).get("entered_s", from_s)
            )
            views.append(
                StageView(str(stage["state"]), from_s + shift_s, float(end) + shift_s, str(stage["lane"]))
            )
        except (KeyError, TypeError, ValueError):
            continue
    return tuple(views)
