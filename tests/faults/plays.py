"""The plays that are crashed: lanes × sources × outcomes, also with items in different stages.

Each play runs once, for real, on the warm phone, over a recorded disk; every crash point of it is then an
image of
that disk. What the phone had done by then is part of the point.
"""

from __future__ import annotations

import hashlib
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import Any

import attrs

from fsm import FinalFile
from hibor.device.errors import DeviceError
from hibor.items.catalogue import CatalogueEntry
from hibor.items.draft import ItemJob
from hibor.items.item import ItemRun
from tests.faults.disk import SOMEBODY_ELSE, Image, Model, Operation, Recorder
from tests.faults.world import FIRST_RUN, PROFILE, Phone, World, open_world

ALWAYS, NEVER = "served", "untouched"
NO_PHONE = "absent"
SOMEBODYS = b"%PDF-1.4 somebody else's"
"""A file at a final path that no item of ours published."""


@attrs.define
class Turn:
    """One `advance` of an item: which operations it did, and the node it began at."""

    item: ItemRun
    node: str
    first: int
    last: int


@attrs.define
class Stage:
    """What a play may use."""

    world: World
    phone: Phone
    disk: Recorder
    entries: dict[str, CatalogueEntry]
    turns: list[Turn] = attrs.field(factory=list)
    items: list[ItemRun] = attrs.field(factory=list)

    def new(self, name: str, source: str = "NEW_TRIGGER", **more: Any) -> ItemRun:
        """An item for the report of this play."""
        item = self.world.item(self.entries[name], source, len(self.items) + 1, **more)
        self.items.append(item)
        return item

    def advance(self, item: ItemRun) -> None:
        """One work with its steps, remembered."""
        first, node = len(self.disk.log), item.machine.node
        item.advance()
        if item.result is not None:
            item.settle()
        self.turns.append(Turn(item, node, first, len(self.disk.log)))

    def drive(self, item: ItemRun, until: str = "") -> None:
        """Advance until the item ends or stands at a state."""
        while item.result is None and not (until and item.machine.state.startswith(until)):
            self.advance(item)

    def library_file(self, item: ItemRun) -> Path:
        """Where the item's final goes."""
        return self.world.services.library.root / item.job.final_path


Act = Callable[[Stage, str], None]


@attrs.frozen
class Play:
    """A play: its name, how it goes, the scenario faults of its report, and the codes it ends with."""

    name: str
    act: Act
    ends: tuple[str, ...]
    faults: str = ""
    limit: int = 500
    reports: int = 1


def _plain(stage: Stage, name: str) -> None:
    stage.drive(stage.new(name))


def _held(stage: Stage, name: str) -> None:
    """A NEW item first, then the same report from the library."""
    first = stage.new(name)
    stage.drive(first)
    assert first.result is not None
    shown = first.result.item
    copy = FinalFile(shown["final_path"], shown["bytes"], shown["sha256"], shown["page_count"])
    stage.drive(stage.new(name, "PROJECT_REUSE", copy=copy))


def _cached(stage: Stage, name: str) -> None:
    stage.drive(stage.new(name, "CACHE_REUSE", cached=_on_phone(stage, name)))


def _on_phone(stage: Stage, name: str) -> Any:
    cache = stage.world.services.require_cache()
    file = cache.file_of(stage.entries[name], cache.listing())
    assert file is not None
    return file


def _cached_identical(stage: Stage, name: str) -> None:
    item = stage.new(name, "CACHE_REUSE", cached=_on_phone(stage, name))
    stage.disk.foreign(stage.library_file(item), _bytes_on_phone(stage, item.job))
    stage.drive(item)


def _cached_conflict(stage: Stage, name: str) -> None:
    item = stage.new(name, "CACHE_REUSE", cached=_on_phone(stage, name))
    stage.disk.foreign(stage.library_file(item), SOMEBODYS)
    stage.drive(item)


def _cached_late(stage: Stage, name: str) -> None:
    item = stage.new(name, "CACHE_REUSE", cached=_on_phone(stage, name))
    stage.drive(item, "P07")
    stage.world.services.deadline.interrupt()
    stage.drive(item)


def _bytes_on_phone(stage: Stage, job: ItemJob) -> bytes:
    class Bytes:
        def __init__(self) -> None:
            self.data = bytearray()

        def write(self, data: memoryview) -> None:
            self.data += data

    sink, file = Bytes(), _on_phone(stage, next(n for n, e in stage.entries.items() if e == job.entry))
    stage.phone.device.pull(file.path, sink, limit_bytes=1 << 30, expected_bytes=file.size_bytes)
    return bytes(sink.data)


def _identical(stage: Stage, name: str) -> None:
    item = stage.new(name)
    stage.drive(item, "P05")
    stage.disk.foreign(stage.library_file(item), item.folder.staging.read_bytes())
    stage.drive(item)


def _conflict(stage: Stage, name: str) -> None:
    item = stage.new(name)
    stage.drive(item, "P05")
    stage.disk.foreign(stage.library_file(item), SOMEBODYS)
    stage.drive(item)


def _interrupted(state: str) -> Act:
    def act(stage: Stage, name: str) -> None:
        item = stage.new(name)
        stage.drive(item, state)
        stage.world.services.deadline.interrupt()
        stage.drive(item)

    return act


def _late_last_step(stage: Stage, name: str) -> None:
    item = stage.new(name)
    stage.drive(item, "P08")
    deadline, ask = stage.world.services.deadline, stage.disk._ask

    def late(call: str, path: str) -> None:
        if (call, path) == ("mark begin", "timing.write"):
            deadline.interrupt()
        ask(call, path)

    stage.disk._ask = late  # type: ignore[method-assign,assignment]
    stage.drive(item)
    stage.disk._ask = ask  # type: ignore[method-assign]


def _blind(stage: Stage, name: str) -> None:
    """The screen cannot be read from the paying tap on, so that nobody can tell what came of it."""
    item = stage.new(name)
    stage.drive(item, "P02")
    with blindfold(stage.phone):
        stage.advance(item)
    stage.drive(item)


@contextmanager
def blindfold(phone: Phone) -> Iterator[None]:
    """After the trigger's last tap every dump is lost with the link."""
    device = phone.device
    tap, dump, taps = device.tap, device.dump, []

    def counted_tap(*args: Any, **more: Any) -> Any:
        taps.append(args)
        return tap(*args, **more)

    def lost_dump(*args: Any, **more: Any) -> Any:
        if len(taps) >= len(PROFILE.trigger.steps):
            raise DeviceError("link_lost", "the link dropped")
        return dump(*args, **more)

    device.tap, device.dump = counted_tap, lost_dump  # type: ignore[method-assign]
    try:
        yield
    finally:
        del device.tap, device.dump


def _two_stages(stage: Stage, name: str) -> None:
    """One item in the host lane while the next is at the phone, a reuse beside them."""
    first, second = stage.new(f"{name}-1"), stage.new(f"{name}-2")
    stage.drive(first, "P05")
    while first.result is None or second.result is None:
        if first.result is None:
            stage.advance(first)
        if second.result is None:
            stage.advance(second)
    shown = first.result.item
    copy = FinalFile(shown["final_path"], shown["bytes"], shown["sha256"], shown["page_count"])
    stage.drive(stage.new(f"{name}-1", "PROJECT_REUSE", copy=copy))


_SLOW_FILE = '[[fault]]\nkind = "prepare_slow"\nreport = {rank}\nwait_s = 20.0\n'
_NO_FILE = '[[fault]]\nkind = "file_never"\nreport = {rank}\n'

PLAYS: tuple[Play, ...] = (
    Play("new_success", _plain, ("NONE",)),
    Play(
        "new_released",
        _plain,
        ("TRIGGER_NOT_OCCURRED",),
        '[[fault]]\nkind = "tap_ignored"\ncontrol = "dialog_ok"\nreport = {rank}\ntimes = 0\n',
    ),
    Play("new_uncertain_found", _blind, ("NONE",), _SLOW_FILE),
    Play("new_uncertain_lost", _blind, ("TRIGGER_UNCERTAIN",), _NO_FILE),
    Play(
        "new_encrypted",
        _plain,
        ("PDF_ENCRYPTED",),
        '[[fault]]\nkind = "pdf"\nvariant = "encrypted"\nreport = {rank}\n',
    ),
    Play(
        "new_changed",
        _plain,
        ("NONE",),
        '[[fault]]\nkind = "file_grows_in_pull"\nmatch = "{file}"\ncall = 2\namount = 64\n',
    ),
    Play(
        "new_short_pull",
        _plain,
        ("BYTE_COUNT_MISMATCH",),
        '[[fault]]\nkind = "pull_truncate"\nmatch = "{file}"\ncall = 2\ntimes = 3\nat_bytes = 2000\n',
    ),
    Play("new_identical", _identical, ("DUPLICATE_EXISTING_ARTIFACT",)),
    Play("new_conflict", _conflict, ("FINAL_PATH_CONFLICT",)),
    Play("new_no_file", _plain, ("CACHE_TIMEOUT",), _NO_FILE),
    Play(
        "new_wrong_page",
        _plain,
        ("DETAIL_RESULT_MISMATCH",),
        '[[fault]]\nkind = "wrong_detail"\nreport = {rank}\ntimes = 0\n',
    ),
    Play("new_no_quota", _plain, ("QUOTA_EXHAUSTED",), limit=0),
    Play("new_deadline_p04", _interrupted("P04"), ("DEADLINE_EXPIRED",)),
    Play("new_deadline_p07", _interrupted("P07"), ("DEADLINE_EXPIRED",)),
    Play("new_late_p09", _late_last_step, ("PERSIST_LATE",)),
    Play("project_reuse", _held, ("NONE", "NONE")),
    Play("cache_reuse", _cached, ("NONE",), "{cached}"),
    Play("cache_identical", _cached_identical, ("DUPLICATE_EXISTING_ARTIFACT",), "{cached}"),
    Play("cache_conflict", _cached_conflict, ("CANDIDATE_REJECTED",), "{cached}"),
    Play("cache_late_p07", _cached_late, ("DEADLINE_EXPIRED",), "{cached}"),
    Play("two_stages", _two_stages, ("NONE", "NONE", "NONE"), reports=2),
)


def play_named(name: str) -> Play:
    """The play of a name."""
    return next(play for play in PLAYS if play.name == name)


@attrs.frozen
class Point:
    """A place to crash at: how many operations were done, the step, and the moment (before, torn, after)."""

    done: int
    step: str
    moment: str


@attrs.define
class Recording:
    """A play as it was recorded."""

    play: Play
    at: datetime
    log: list[Operation]
    entries: list[CatalogueEntry]
    tap_from: dict[str, int]  # report id -> operations done when the first tap became possible
    tap_until: dict[str, int]  # report id -> operations done when its quota terminal begins to be written
    served: dict[str, int]
    codes: tuple[str, ...]
    foreign: tuple[tuple[int, str, str], ...]  # operations done, path, sha256
    known: frozenset[str]  # sha256 of every whole file that was staged

    @property
    def obtainable(self) -> frozenset[str]:
        """Reports whose good file the phone holds in the end."""
        bad = ("new_no_file", "new_uncertain_lost", "new_conflict")
        return frozenset() if self.play.name in bad else frozenset(self.tap_from)

    def points(self) -> Iterator[tuple[Point, Image]]:
        """Every crash point with each image it can leave: whole before and after a step, torn in between."""
        model, step = Model(Image((), ())), ""
        for done, operation in enumerate(self.log):
            if operation.kind == "mark":
                moment, _, step_named = operation.path.partition(" ")
                if moment == "begin":
                    step = step_named
                model.apply(operation)
                yield Point(done + 1, step_named, "before" if moment == "begin" else "after"), model.whole()
                for image in model.images():
                    yield Point(done + 1, step_named, "torn"), image
                continue
            model.apply(operation)
            if operation.step == SOMEBODY_ELSE:
                continue
            for image in (model.whole(), *model.images()):
                yield Point(done + 1, operation.step or step, "torn"), image

    def served_at(self, done: int, phone: str, image: Image) -> dict[str, int]:
        """What the account was charged for when `done` operations were done, as the phone of that name has
        it.

        A torn TRIGGER_INTENT that is whole by chance counts as one: the phone of that name has the file.
        """
        counts: dict[str, int] = {}
        for report_id, first in self.tap_from.items():
            if phone != NEVER and (done >= first or _intends(image, report_id)):
                counts[report_id] = self.served.get(report_id, 0)
        return counts

    def phones_at(self, done: int) -> tuple[str, ...]:
        """Phones that fit this point: tapped, not tapped (both where that is unknown), or none at all."""
        begun = [report for report, first in self.tap_from.items() if done >= first]
        sure = [report for report in begun if done >= self.tap_until[report]]
        if not begun:
            return (NEVER, NO_PHONE)
        return (ALWAYS, NO_PHONE) if sure else (ALWAYS, NEVER, NO_PHONE)


def _intends(image: Image, report_id: str) -> bool:
    journals = [data for path, data in image.files if path.endswith("journal.jsonl")]
    return any(
        report_id.encode() in data and b'"TRIGGER_INTENT"' in data and data.endswith(b"\n")
        for data in journals
    )


def record(
    play: Play, root: Path, phone: Phone, entries: dict[str, CatalogueEntry], at: datetime
) -> Recording:
    """Run a play once on an empty library in `root`, which is removed afterwards."""
    root.mkdir(parents=True)
    disk = Recorder(root)
    phone.app.open_app()
    world = open_world(root, phone, at, fs=disk, run_id=FIRST_RUN, limit=play.limit)
    stage = Stage(world, phone, disk, entries)
    try:
        play.act(stage, play.name)
    finally:
        world.close()
    codes = tuple(item.result.code if item.result else "RUNNING" for item in stage.items)
    tap_from, tap_until = {}, {}
    for turn in stage.turns:
        if turn.node == "P02_TRIGGER_UNKNOWN-N":
            report = turn.item.job.entry.report_id
            tap_from[report], tap_until[report] = turn.first, turn.first + 1
    known = _staged(disk.log) | {digest for _done, _path, digest in disk.written_by_others}
    known |= {_digest(path.read_bytes()) for path in (phone.process.state_dir / "pdf").iterdir()}
    shutil.rmtree(root)
    used = [item.job.entry for item in stage.items]
    return Recording(
        play,
        at,
        disk.log,
        used,
        tap_from,
        tap_until,
        phone.served,
        codes,
        tuple(disk.written_by_others),
        frozenset(known),
    )


def _digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def _staged(log: list[Operation]) -> set[str]:
    """sha256 of every file as it was synced under the name of a staging file."""
    model, found = Model(Image((), ())), set[str]()
    for operation in log:
        model.apply(operation)
        if operation.kind == "fsync" and operation.path.endswith("staging.pdf"):
            found.add(_digest(model.files[operation.file].now))
    return found
